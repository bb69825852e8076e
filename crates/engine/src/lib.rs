//! Fieldseal engine.
