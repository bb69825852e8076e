//! Fieldseal keystore.
