//! Fieldseal document.
