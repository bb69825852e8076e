//! Integration tests of leafseal-load: one program, so that it is compiled and linked once.

mod corpus;
mod run;
