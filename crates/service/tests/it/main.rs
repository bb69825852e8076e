//! Integration tests of leafseal-service, in one program, so that it is compiled and linked once.

mod jobs;
mod methods;
