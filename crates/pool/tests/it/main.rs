//! Integration tests of leafseal-pool, in one program, so that it is compiled and linked once.

mod inline;
mod pool;
mod several;
