//! Integration tests of fieldseal-pool, in one program, so that it is compiled and linked once.

mod pool;
mod several;
