//! Fieldseal client.
