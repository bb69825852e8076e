//! Fieldseal crypto.
