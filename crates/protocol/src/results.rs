//! The results of each method, as the client reads them. All but `info` and `inspect` decode to plain data.
//!
//! Lenient where the engine may be newer: unknown fields are ignored.

use crate::content::{Entries, Unknown, out_of_range};
use crate::error::ContentError;
use crate::field::{Field, FieldSet};
use crate::message::RawValue;
use crate::values::{RawValues, Scalar};
use crate::wire::{ValueHead, WireReader};
use crate::words::{Curve, TextKind};

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
const REPORT: [Field; 5] = [Field::Matched, Field::Resealed, Field::Skipped, Field::Failed, Field::Failures];

/// Some fields and those of a report.
const fn with_report(fields: FieldSet) -> FieldSet {
    let [matched, resealed, skipped, failed, failures] = REPORT;
    fields.with(matched).with(resealed).with(skipped).with(failed).with(failures)
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
                Field::Failed => fields.report.failed = entries.optional_unsigned(field)?,
                Field::Failures => fields.report.failures = entries.optional_values(field)?,
                _ => unreachable!("no result expects {field} here"),
            }
        }
        Ok(fields)
    }
}

/// The metadata of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inspected<'a> {
    /// The four characters of the format's version, such as `Tk9D`.
    pub version: &'a str,
    /// The curve.
    pub curve: Curve,
    /// The type of the sealed value.
    pub kind: TextKind,
    /// Whether it is marked as made in debug mode.
    pub debug: bool,
    /// The ephemeral public key, SEC1-compressed, 33 bytes.
    pub ephemeral: &'a [u8],
    /// The data role; known only where the envelope was opened and has one.
    pub role: Option<&'a str>,
    /// Number of the software that made it; known only where it was opened and has one.
    pub origin: Option<u64>,
    /// Time of encryption, in Unix seconds; known only if the envelope was decrypted and contains it.
    pub encrypted_at: Option<u64>,
    /// The app's key version that opens it; known only where it was opened.
    pub key_version: Option<u64>,
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
    pub fn iter(&self) -> impl Iterator<Item = Result<Inspected<'a>, ContentError>> + use<'a> {
        let mut reader = WireReader::new(self.values.bytes());
        let mut left = self.values.count();
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let element = read_inspected(&mut reader);
            if element.is_err() {
                left = 0;
            }
            Some(element)
        })
    }
}

const INSPECTED_FIELDS: FieldSet = FieldSet::of(&[
    Field::Version,
    Field::Curve,
    Field::Type,
    Field::Debug,
    Field::Ephemeral,
    Field::Role,
    Field::Origin,
    Field::EncryptedAt,
    Field::KeyVersion,
]);

fn read_inspected<'a>(reader: &mut WireReader<'a>) -> Result<Inspected<'a>, ContentError> {
    let mut entries = Entries::of_map(*reader, INSPECTED_FIELDS, Unknown::Skip)?;
    let (mut version, mut curve, mut kind, mut debug, mut ephemeral) = (None, None, None, None, None);
    let (mut role, mut origin, mut encrypted_at, mut key_version) = (None, None, None, None);
    while let Some(field) = entries.next_field()? {
        match field {
            Field::Version => version = Some(entries.string(field)?),
            Field::Curve => curve = Some(word(field, entries.string(field)?, Curve::parse)?),
            Field::Type => kind = Some(word(field, entries.string(field)?, TextKind::parse)?),
            Field::Debug => debug = Some(entries.boolean(field)?),
            Field::Ephemeral => ephemeral = Some(entries.binary(field)?),
            Field::Role => role = entries.optional_string(field)?,
            Field::Origin => origin = entries.optional_unsigned(field)?,
            Field::EncryptedAt => encrypted_at = entries.optional_unsigned(field)?,
            Field::KeyVersion => key_version = entries.optional_unsigned(field)?,
            _ => unreachable!("not among the fields of an inspected envelope"),
        }
    }
    *reader = entries.into_reader();
    Ok(Inspected {
        version: required(version, Field::Version)?,
        curve: required(curve, Field::Curve)?,
        kind: required(kind, Field::Type)?,
        debug: required(debug, Field::Debug)?,
        ephemeral: required(ephemeral, Field::Ephemeral)?,
        role,
        origin,
        encrypted_at,
        key_version,
    })
}

fn word<T>(field: Field, word: &str, parse: fn(&str) -> Option<T>) -> Result<T, ContentError> {
    parse(word).ok_or(out_of_range(field, "a word that this version knows"))
}

/// Result of `public_keys`: the newest key version of the app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKeys<'a> {
    /// The tenant.
    pub app: &'a str,
    /// The key version, from 1.
    pub version: u64,
    /// P-256 public key, SEC1-compressed, 33 bytes.
    pub r1: &'a [u8],
    /// secp256k1 public key, SEC1-compressed, 33 bytes.
    pub k1: &'a [u8],
    /// The P-256 key as SubjectPublicKeyInfo in PEM (RFC 7468).
    pub r1_pem: Option<&'a str>,
    /// The secp256k1 key as SubjectPublicKeyInfo in PEM (RFC 7468).
    pub k1_pem: Option<&'a str>,
}

impl<'a> PublicKeys<'a> {
    /// Reads the result.
    ///
    /// # Errors
    /// When it is not a map with the fields `app`, `version`, `r1` and `k1`.
    pub fn decode(result: RawValue<'a>) -> Result<Self, ContentError> {
        const FIELDS: FieldSet =
            FieldSet::of(&[Field::App, Field::Version, Field::R1, Field::K1, Field::R1Pem, Field::K1Pem]);
        let mut entries = Entries::of_map(result.reader(), FIELDS, Unknown::Skip)?;
        let (mut app, mut version, mut r1, mut k1, mut r1_pem, mut k1_pem) = (None, None, None, None, None, None);
        while let Some(field) = entries.next_field()? {
            match field {
                Field::App => app = Some(entries.string(field)?),
                Field::Version => version = Some(entries.unsigned(field)?),
                Field::R1 => r1 = Some(entries.binary(field)?),
                Field::K1 => k1 = Some(entries.binary(field)?),
                Field::R1Pem => r1_pem = entries.optional_string(field)?,
                Field::K1Pem => k1_pem = entries.optional_string(field)?,
                _ => unreachable!("not among the fields of public keys"),
            }
        }
        Ok(PublicKeys {
            app: required(app, Field::App)?,
            version: required(version, Field::Version)?,
            r1: required(r1, Field::R1)?,
            k1: required(k1, Field::K1)?,
            r1_pem,
            k1_pem,
        })
    }
}

/// Result of `authenticate`: an API key that is in force.
#[derive(Clone, Copy, Debug)]
pub struct Authenticated<'a> {
    /// The id of the key; not secret.
    pub key_id: &'a str,
    /// The one app that the key is for.
    pub app: &'a str,
    operations: RawValues<'a>,
    roles: Option<RawValues<'a>>,
}

impl<'a> Authenticated<'a> {
    /// Reads the result; its lists are read by [`Authenticated::operations`] and [`Authenticated::roles`].
    ///
    /// # Errors
    /// When it is not a map with the fields `key_id`, `app` and `operations`.
    pub fn decode(result: RawValue<'a>) -> Result<Self, ContentError> {
        const FIELDS: FieldSet = FieldSet::of(&[Field::KeyId, Field::App, Field::Operations, Field::Roles]);
        let mut entries = Entries::of_map(result.reader(), FIELDS, Unknown::Skip)?;
        let (mut key_id, mut app, mut operations, mut roles) = (None, None, None, None);
        while let Some(field) = entries.next_field()? {
            match field {
                Field::KeyId => key_id = Some(entries.string(field)?),
                Field::App => app = Some(entries.string(field)?),
                Field::Operations => operations = Some(entries.values(field)?),
                Field::Roles => roles = entries.optional_values(field)?,
                _ => unreachable!("not among the fields of an API key"),
            }
        }
        Ok(Authenticated {
            key_id: required(key_id, Field::KeyId)?,
            app: required(app, Field::App)?,
            operations: required(operations, Field::Operations)?,
            roles,
        })
    }

    /// The operations that the key allows: `encrypt`, `decrypt`, `inspect`, `client-side-tokens`, or others of a newer engine.
    ///
    /// # Errors
    /// An element that is no string.
    pub fn operations(&self) -> Result<Vec<&'a str>, ContentError> {
        texts(self.operations)
    }

    /// Which data roles it shows; `None` for every role.
    ///
    /// # Errors
    /// An element that is no string.
    pub fn roles(&self) -> Result<Option<Vec<&'a str>>, ContentError> {
        self.roles.map(texts).transpose()
    }
}

fn texts(values: RawValues<'_>) -> Result<Vec<&str>, ContentError> {
    values.strings().map(|text| Ok(text?.as_str())).collect()
}

/// Result of `health`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health<'a> {
    /// [`Health::OK`], [`Health::DRAINING`], or a word of a newer engine, to be read as not ready.
    pub status: &'a str,
}

impl<'a> Health<'a> {
    /// The engine serves.
    pub const OK: Health<'static> = Health { status: "ok" };
    /// The engine finishes what it has and takes nothing new.
    pub const DRAINING: Health<'static> = Health { status: "draining" };

    /// Reads the result.
    ///
    /// # Errors
    /// When it is not a map with the field `status`.
    pub fn decode(result: RawValue<'a>) -> Result<Self, ContentError> {
        let mut entries = Entries::of_map(result.reader(), FieldSet::of(&[Field::Status]), Unknown::Skip)?;
        let mut status = None;
        while let Some(field) = entries.next_field()? {
            status = Some(entries.string(field)?);
        }
        Ok(Health { status: required(status, Field::Status)? })
    }
}

/// Result of `info`: facts by name.
#[derive(Clone, Copy, Debug)]
pub struct InfoResult<'a> {
    facts: RawValues<'a>,
}

impl<'a> InfoResult<'a> {
    /// Reads the result; its facts are read by [`InfoResult::iter`].
    ///
    /// # Errors
    /// When it is not a map.
    pub fn decode(result: RawValue<'a>) -> Result<Self, ContentError> {
        let mut reader = result.reader();
        match reader.head()? {
            ValueHead::Map(pairs) => {
                let count = pairs.checked_mul(2).ok_or(ContentError::Malformed)?;
                Ok(InfoResult { facts: RawValues::new(Field::Values, count, reader.rest()) })
            }
            other => Err(ContentError::NotAMap(other.kind())),
        }
    }

    /// The facts, name and text. The first error (something that is not a string) ends the iteration.
    pub fn iter(&self) -> impl Iterator<Item = Result<(&'a str, &'a str), ContentError>> + use<'a> {
        let mut strings = self.facts.strings();
        std::iter::from_fn(move || match (strings.next()?, strings.next()) {
            (Ok(name), Some(Ok(text))) => Some(Ok((name.as_str(), text.as_str()))),
            (Err(error), _) | (_, Some(Err(error))) => Some(Err(error.into())),
            (Ok(_), None) => Some(Err(ContentError::Malformed)),
        })
    }
}

fn required<T>(value: Option<T>, field: Field) -> Result<T, ContentError> {
    value.ok_or(ContentError::MissingField(field))
}
