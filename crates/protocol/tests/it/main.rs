//! Integration tests of leafseal-protocol: one program, so that it is compiled and linked once.

mod corpus;
mod messages;
mod protocol_doc;
mod values;
