//! Integration tests of fieldseal-pool: one program, so that it is compiled and linked once.

mod pool;
mod several;
