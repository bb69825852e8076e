//! Finds the fields of forms that are to be encrypted or decrypted: `application/x-www-form-urlencoded` and `multipart/form-data`.
//!
//! As with JSON the caller receives byte ranges and writes the output itself, so that every other byte stays unchanged. Anything that two
//! parsers could read differently is refused: a value that a rule hides must not escape through a body that another parser splits
//! differently, or through a name that it reads as another (`names`).

mod error;
mod media_type;
mod multipart;
mod names;
mod readers;
#[cfg(test)]
mod tests;
mod urlencoded;

pub use error::{FormError, FormErrorKind};
pub use media_type::{BOUNDARY_SIZE_MAX, MediaType};
pub use multipart::{MultipartPart, PartHead, PartReader, find_parts};
pub use names::{FieldNames, is_field_name};
pub use urlencoded::{
    FieldReader, FieldValue, FormField, Syntax, WantedFields, decode_field, find_fields, holds_field,
};

/// The field that names the charset of a form (HTML, section 4.10.21.5).
const CHARSET_FIELD: &[u8] = b"_charset_";

/// Maximum size in bytes of the name of a charset; RFC 2978 allows 40 characters.
const CHARSET_SIZE_MAX: usize = 64;

/// Refuses a form that declares a charset other than UTF-8: its names would be read differently. `is_longer`: whether `value` is only its
/// beginning.
fn check_charset(value: &[u8], is_longer: bool, offset: usize) -> Result<(), FormError> {
    let charset = value.trim_ascii().to_ascii_lowercase();
    match std::str::from_utf8(&charset) {
        Ok(charset) if !is_longer && (charset.is_empty() || media_type::is_utf8(charset)) => Ok(()),
        _ => Err(FormError::new(FormErrorKind::ForeignCharset, offset)),
    }
}

/// The limits on forms; inclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormLimits {
    /// Maximum number of fields or parts of a form. Default 10,000.
    pub fields_max: usize,
    /// Maximum size in bytes of a name, once its encoding is undone, that a guard compares with selected names. Default 4 KiB.
    pub name_size_max: usize,
    /// Maximum size of a part's header in bytes. Default 8 KiB.
    pub part_header_size_max: usize,
}

impl Default for FormLimits {
    fn default() -> Self {
        FormLimits { fields_max: 10_000, name_size_max: 4 << 10, part_header_size_max: 8 << 10 }
    }
}
