//! Integration tests of leafseal-document, in one program, so that it is compiled and linked once.

mod compliance;
mod contexts;
mod corpus;
mod edges;
mod forms;
mod lines;
mod names;
mod patch;
mod properties;
mod vectors;
