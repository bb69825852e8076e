//! Fieldseal envelope.
