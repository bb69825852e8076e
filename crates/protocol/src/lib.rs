//! Fieldseal protocol.
