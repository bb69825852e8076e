//! The parameters of methods of values, as the engine reads them. Those of queries are declared in `methods.rs`.
//!
//! Strict: an unknown field is refused, so that an option is never dropped silently. Lists and documents are not copied out of the
//! frame.

use crate::error::ContentError;
use crate::field::{Field, FieldSet};
use crate::message::RawParams;
use crate::option::AppPresence;
use crate::options::{
    DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, InspectOptions, RewrapOptions,
};
use crate::payload::required;
use crate::values::RawValues;

/// Parameters of `encrypt`.
#[derive(Clone, Copy, Debug)]
pub struct EncryptParams<'a> {
    /// App, curve, keying, role, deadline.
    pub options: EncryptOptions<'a>,
    /// The context of each value ([`RawValues::strings`]); as many as there are values.
    pub contexts: Option<RawValues<'a>>,
    /// The values to encrypt.
    pub values: RawValues<'a>,
}

/// Parameters of `decrypt`.
#[derive(Clone, Copy, Debug)]
pub struct DecryptParams<'a> {
    /// App, role, deadline.
    pub options: DecryptOptions<'a>,
    /// The context of each value ([`RawValues::strings`]); as many as there are values.
    pub contexts: Option<RawValues<'a>>,
    /// The values to decrypt: strings that are envelopes are decrypted, other scalars are returned unchanged.
    pub values: RawValues<'a>,
}

/// Parameters of `encrypt_document`.
#[derive(Clone, Copy)]
pub struct EncryptDocumentParams<'a> {
    /// App, curve, keying, role, deadline.
    pub options: EncryptOptions<'a>,
    /// JSONPath selectors ([`RawValues::strings`]); at least one; `None` selects every scalar.
    pub select: Option<RawValues<'a>>,
    /// JSON text, not yet validated.
    pub document: &'a [u8],
}

/// Parameters of `decrypt_document`.
#[derive(Clone, Copy)]
pub struct DecryptDocumentParams<'a> {
    /// App, role, deadline.
    pub options: DecryptOptions<'a>,
    /// JSONPath selectors ([`RawValues::strings`]); at least one; `None` selects every envelope.
    pub select: Option<RawValues<'a>>,
    /// JSON text, not yet validated.
    pub document: &'a [u8],
}

/// Parameters of `encrypt_file`.
#[derive(Clone, Copy)]
pub struct EncryptFileParams<'a> {
    /// App, curve, deadline.
    pub options: EncryptFileOptions<'a>,
    /// The file's contents.
    pub data: &'a [u8],
}

/// Parameters of `decrypt_file`.
#[derive(Clone, Copy)]
pub struct DecryptFileParams<'a> {
    /// App, deadline.
    pub options: DecryptFileOptions<'a>,
    /// The encrypted file.
    pub data: &'a [u8],
}

/// Parameters of `rewrap`.
#[derive(Clone, Copy, Debug)]
pub struct RewrapParams<'a> {
    /// App, curve, deadline.
    pub options: RewrapOptions<'a>,
    /// The context of each value ([`RawValues::strings`]); as many as there are values.
    pub contexts: Option<RawValues<'a>>,
    /// Envelopes ([`RawValues::strings`]).
    pub values: RawValues<'a>,
}

/// Parameters of `inspect`.
#[derive(Clone, Copy, Debug)]
pub struct InspectParams<'a> {
    /// With an app, envelopes are decrypted to read the fields inside; the plaintext itself is never returned.
    pub app: Option<&'a str>,
    /// How they are decrypted.
    pub options: InspectOptions<'a>,
    /// The context of each envelope ([`RawValues::strings`]); as many as there are values.
    pub contexts: Option<RawValues<'a>>,
    /// Envelopes ([`RawValues::strings`]).
    pub values: RawValues<'a>,
}

impl<'a> EncryptParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        let fields = FieldSet::of(&[Field::Contexts, Field::Values]);
        let (options, payload) = EncryptOptions::read(params, false, fields, AppPresence::Required)?;
        let contexts = payload.contexts(options.context)?;
        Ok(EncryptParams { options, contexts, values: payload.values()? })
    }
}

impl<'a> DecryptParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        let fields = FieldSet::of(&[Field::Contexts, Field::Values]);
        let (options, payload) = DecryptOptions::read(params, false, fields, AppPresence::Required)?;
        let contexts = payload.contexts(options.context)?;
        Ok(DecryptParams { options, contexts, values: payload.values()? })
    }
}

impl<'a> EncryptDocumentParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        let (options, payload) =
            EncryptOptions::read(params, true, FieldSet::of(&[Field::Select, Field::Document]), AppPresence::Required)?;
        let document = required(payload.document, Field::Document)?;
        Ok(EncryptDocumentParams { options, select: payload.select, document })
    }
}

impl<'a> DecryptDocumentParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        let (options, payload) =
            DecryptOptions::read(params, true, FieldSet::of(&[Field::Select, Field::Document]), AppPresence::Required)?;
        let document = required(payload.document, Field::Document)?;
        Ok(DecryptDocumentParams { options, select: payload.select, document })
    }
}

impl<'a> EncryptFileParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        let (options, payload) =
            EncryptFileOptions::read(params, false, FieldSet::of(&[Field::Data]), AppPresence::Required)?;
        Ok(EncryptFileParams { options, data: required(payload.data, Field::Data)? })
    }
}

impl<'a> DecryptFileParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        let (options, payload) =
            DecryptFileOptions::read(params, false, FieldSet::of(&[Field::Data]), AppPresence::Required)?;
        Ok(DecryptFileParams { options, data: required(payload.data, Field::Data)? })
    }
}

impl<'a> RewrapParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        let fields = FieldSet::of(&[Field::Contexts, Field::Values]);
        let (options, payload) = RewrapOptions::read(params, false, fields, AppPresence::Required)?;
        let contexts = payload.contexts(options.context)?;
        Ok(RewrapParams { options, contexts, values: payload.values()? })
    }
}

impl<'a> InspectParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        let fields = FieldSet::of(&[Field::Contexts, Field::Values]);
        let (options, payload) = InspectOptions::read(params, false, fields, AppPresence::Optional)?;
        let contexts = payload.contexts(options.context)?;
        Ok(InspectParams { app: payload.app, options, contexts, values: payload.values()? })
    }
}
