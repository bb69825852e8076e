//! Fieldseal cli.
