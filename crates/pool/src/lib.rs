//! Fieldseal pool.
