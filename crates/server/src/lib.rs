//! Fieldseal server.
