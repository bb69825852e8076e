//! The results of methods of values, as the client reads them. Those of queries are declared in `methods.rs`.
//!
//! Lenient where the engine may be newer: unknown fields are ignored.

use crate::content::{Entries, Unknown, out_of_range};
use crate::error::ContentError;
use crate::field::{Field, FieldSet};
use crate::message::RawValue;
use crate::methods::Inspection;
use crate::values::{RawValues, Scalar};
use crate::wire::WireReader;

/// Result of `encrypt` (envelopes, and nil for nil) and of `decrypt` (native values); as many as were sent.
#[derive(Clone, Copy, Debug)]
pub struct ValuesResult<'a> {
    /// In the order of the request.
    pub values: RawValues<'a>,
    /// The engine's report.
    pub report: Reported<'a>,
}

/// The report of a result. An engine with nothing to report omits all of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reported<'a> {
    matched: Option<RawValues<'a>>,
    /// How many of the values encrypted were envelopes already.
    pub resealed: u64,
    /// Number of envelopes that were skipped.
    pub skipped: u64,
    /// How many envelopes to a public key were resealed with a symmetric key.
    pub rewrapped: u64,
    /// How many of the values were sealed, or opened, with a symmetric key; the others have envelopes to a public key.
    pub symmetric: u64,
    /// Number of envelopes that failed to decrypt, if the request sets an action for them.
    pub failed: Option<u64>,
    failures: Option<RawValues<'a>>,
}

impl<'a> Reported<'a> {
    /// How many values each selector matched; empty where none were sent.
    ///
    /// # Errors
    /// An element that is no unsigned integer.
    pub fn matched(&self) -> Result<Vec<u64>, ContentError> {
        self.matched.map_or(Ok(Vec::new()), numbers)
    }

    /// The paths in the document of the first envelopes that did not open.
    ///
    /// # Errors
    /// An element that is no string.
    pub fn failure_paths(&self) -> Result<Vec<&'a str>, ContentError> {
        self.failures.map_or(Ok(Vec::new()), texts)
    }

    /// The indexes in the list of the first envelopes that did not open.
    ///
    /// # Errors
    /// An element that is no unsigned integer.
    pub fn failure_indexes(&self) -> Result<Vec<u64>, ContentError> {
        self.failures.map_or(Ok(Vec::new()), numbers)
    }
}

fn numbers(values: RawValues<'_>) -> Result<Vec<u64>, ContentError> {
    let number = |value| match value {
        Ok(Scalar::UInt(number)) => Ok(number),
        Ok(_) => Err(out_of_range(Field::Values, "unsigned integers")),
        Err(error) => Err(ContentError::from(error)),
    };
    values.iter().map(number).collect()
}

/// The fields of a report.
const REPORT: [Field; 7] = [
    Field::Matched,
    Field::Resealed,
    Field::Skipped,
    Field::Rewrapped,
    Field::Symmetric,
    Field::Failed,
    Field::Failures,
];

/// Some fields and those of a report.
const fn with_report(fields: FieldSet) -> FieldSet {
    let (mut fields, mut at) = (fields, 0);
    while at < REPORT.len() {
        fields = fields.with(REPORT[at]);
        at += 1;
    }
    fields
}

impl<'a> ValuesResult<'a> {
    /// Reads the result.
    ///
    /// # Errors
    /// When it is not a map with the field `values`.
    pub fn decode(result: RawValue<'a>) -> Result<Self, ContentError> {
        let fields = Fields::read(result, with_report(FieldSet::of(&[Field::Values])))?;
        Ok(ValuesResult { values: required(fields.values, Field::Values)?, report: fields.report })
    }
}

/// Result of `encrypt_document` and `decrypt_document`.
#[derive(Clone, Copy)]
pub struct DocumentResult<'a> {
    /// JSON text.
    pub document: &'a [u8],
    /// How many fields were encrypted or decrypted.
    pub count: u64,
    /// The engine's report.
    pub report: Reported<'a>,
}

impl<'a> DocumentResult<'a> {
    /// Reads the result.
    ///
    /// # Errors
    /// When it is not a map with the fields `document` and `count`.
    pub fn decode(result: RawValue<'a>) -> Result<Self, ContentError> {
        let fields = Fields::read(result, with_report(FieldSet::of(&[Field::Document, Field::Count])))?;
        let (document, count) = (required(fields.document, Field::Document)?, required(fields.count, Field::Count)?);
        Ok(DocumentResult { document, count, report: fields.report })
    }
}

/// Result of `encrypt_file` and `decrypt_file`.
#[derive(Clone, Copy)]
pub struct FileResult<'a> {
    /// The file's contents.
    pub data: &'a [u8],
}

impl<'a> FileResult<'a> {
    /// Reads the result.
    ///
    /// # Errors
    /// When it is not a map with the field `data`.
    pub fn decode(result: RawValue<'a>) -> Result<Self, ContentError> {
        let fields = Fields::read(result, FieldSet::of(&[Field::Data]))?;
        Ok(FileResult { data: required(fields.data, Field::Data)? })
    }
}

/// Result of `rewrap`.
#[derive(Clone, Copy, Debug)]
pub struct RewrapResult<'a> {
    /// Envelopes, in the order of the request.
    pub values: RawValues<'a>,
    /// How many of them are new; the others were under the newest key already, or failed to decrypt.
    pub count: u64,
    /// The engine's report.
    pub report: Reported<'a>,
}

impl<'a> RewrapResult<'a> {
    /// Reads the result.
    ///
    /// # Errors
    /// When it is not a map with the fields `values` and `count`.
    pub fn decode(result: RawValue<'a>) -> Result<Self, ContentError> {
        let fields = Fields::read(result, with_report(FieldSet::of(&[Field::Values, Field::Count])))?;
        let (values, count) = (required(fields.values, Field::Values)?, required(fields.count, Field::Count)?);
        Ok(RewrapResult { values, count, report: fields.report })
    }
}

/// The fields that several results share.
#[derive(Default)]
struct Fields<'a> {
    values: Option<RawValues<'a>>,
    document: Option<&'a [u8]>,
    data: Option<&'a [u8]>,
    count: Option<u64>,
    report: Reported<'a>,
}

impl<'a> Fields<'a> {
    fn read(result: RawValue<'a>, expected: FieldSet) -> Result<Self, ContentError> {
        let mut fields = Fields::default();
        let mut entries = Entries::of_map(result.reader(), expected, Unknown::Skip)?;
        while let Some(field) = entries.next_field()? {
            match field {
                Field::Values => fields.values = Some(entries.values(field)?),
                Field::Document => fields.document = Some(entries.bytes(field)?),
                Field::Data => fields.data = Some(entries.binary(field)?),
                Field::Count => fields.count = Some(entries.unsigned(field)?),
                Field::Matched => fields.report.matched = entries.optional_values(field)?,
                Field::Resealed => fields.report.resealed = entries.optional_unsigned(field)?.unwrap_or(0),
                Field::Skipped => fields.report.skipped = entries.optional_unsigned(field)?.unwrap_or(0),
                Field::Rewrapped => fields.report.rewrapped = entries.optional_unsigned(field)?.unwrap_or(0),
                Field::Symmetric => fields.report.symmetric = entries.optional_unsigned(field)?.unwrap_or(0),
                Field::Failed => fields.report.failed = entries.optional_unsigned(field)?,
                Field::Failures => fields.report.failures = entries.optional_values(field)?,
                _ => unreachable!("no result expects {field} here"),
            }
        }
        Ok(fields)
    }
}

/// Result of `inspect`.
#[derive(Clone, Copy, Debug)]
pub struct InspectResult<'a> {
    values: RawValues<'a>,
}

impl<'a> InspectResult<'a> {
    /// Reads the result; its elements are read by [`InspectResult::iter`].
    ///
    /// # Errors
    /// When it is not a map with the field `values`.
    pub fn decode(result: RawValue<'a>) -> Result<Self, ContentError> {
        ValuesResult::decode(result).map(|ValuesResult { values, .. }| InspectResult { values })
    }

    /// How many envelopes were inspected.
    pub fn count(&self) -> u32 {
        self.values.count()
    }

    /// The envelopes, in the order of the request. The first error ends the iteration.
    pub fn iter(&self) -> impl Iterator<Item = Result<Inspection, ContentError>> + use<'a> {
        let mut reader = WireReader::new(self.values.bytes());
        let mut left = self.values.count();
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let element = Inspection::read(&mut reader);
            if element.is_err() {
                left = 0;
            }
            Some(element)
        })
    }
}

fn texts(values: RawValues<'_>) -> Result<Vec<&str>, ContentError> {
    values.strings().map(|text| Ok(text?.as_str())).collect()
}

fn required<T>(value: Option<T>, field: Field) -> Result<T, ContentError> {
    value.ok_or(ContentError::MissingField(field))
}
