//! Fieldseal lanes.
