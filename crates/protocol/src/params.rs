//! The parameters of each method, as the engine reads them.
//!
//! Strict: an unknown field is refused, so that an option is never dropped silently. Lists and documents are not copied out of the
//! frame.

use crate::content::{Entries, Unknown, out_of_range};
use crate::error::ContentError;
use crate::field::{Field, FieldSet};
use crate::message::RawParams;
use crate::options::{
    API_KEY_SIZE_MAX, APP_SIZE_MAX, CLIENT_SIZE_MAX, Curve, DecryptFileOptions, DecryptOptions, EncryptFileOptions,
    EncryptOptions, KEY_ID_SIZE_MAX, Keying, OnFailure, OtherCase, ROLE_SIZE_MAX, RewrapOptions,
};
use crate::values::RawValues;

/// Parameters of `encrypt`.
#[derive(Clone, Copy, Debug)]
pub struct EncryptParams<'a> {
    /// App, curve, keying, role, deadline.
    pub options: EncryptOptions<'a>,
    /// The values to encrypt.
    pub values: RawValues<'a>,
}

/// Parameters of `decrypt`.
#[derive(Clone, Copy, Debug)]
pub struct DecryptParams<'a> {
    /// App, role, deadline.
    pub options: DecryptOptions<'a>,
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
    /// Envelopes ([`RawValues::strings`]).
    pub values: RawValues<'a>,
}

/// Parameters of `inspect`.
#[derive(Clone, Copy, Debug)]
pub struct InspectParams<'a> {
    /// With an app, envelopes are decrypted to read the fields inside; the plaintext itself is never returned.
    pub app: Option<&'a str>,
    /// Envelopes ([`RawValues::strings`]).
    pub values: RawValues<'a>,
}

/// Parameters of `public_keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKeysParams<'a> {
    /// The tenant.
    pub app: &'a str,
}

/// Parameters of `authenticate`. The key is a secret: they do not print.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuthenticateParams<'a> {
    /// The API key, as its user shows it.
    pub api_key: &'a str,
    /// Names the user, so that look-ups for one client do not delay those for others.
    pub client: Option<&'a str>,
}

impl std::fmt::Debug for AuthenticateParams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthenticateParams").finish_non_exhaustive()
    }
}

/// Parameters of `health`: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthParams;

/// Parameters of `info`: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfoParams;

impl<'a> EncryptParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        const FIELDS: FieldSet = FieldSet::of(&[
            Field::App,
            Field::Curve,
            Field::Keying,
            Field::Role,
            Field::DeadlineMs,
            Field::SkipSealed,
            Field::Values,
        ]);
        let fields = Fields::read(params, FIELDS)?;
        Ok(EncryptParams { options: fields.encrypt_options()?, values: required(fields.values, Field::Values)? })
    }
}

impl<'a> DecryptParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        const FIELDS: FieldSet =
            FieldSet::of(&[Field::App, Field::Role, Field::DeadlineMs, Field::OnFailure, Field::KeyId, Field::Values]);
        let fields = Fields::read(params, FIELDS)?;
        Ok(DecryptParams { options: fields.decrypt_options()?, values: required(fields.values, Field::Values)? })
    }
}

impl<'a> EncryptDocumentParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        const FIELDS: FieldSet = FieldSet::of(&[
            Field::App,
            Field::Curve,
            Field::Keying,
            Field::Role,
            Field::DeadlineMs,
            Field::SkipSealed,
            Field::Strict,
            Field::Lines,
            Field::Select,
            Field::OtherCase,
            Field::Unambiguous,
            Field::Document,
        ]);
        let fields = Fields::read(params, FIELDS)?;
        let document = required(fields.document, Field::Document)?;
        Ok(EncryptDocumentParams { options: fields.encrypt_options()?, select: fields.select, document })
    }
}

impl<'a> DecryptDocumentParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        const FIELDS: FieldSet = FieldSet::of(&[
            Field::App,
            Field::Role,
            Field::DeadlineMs,
            Field::OnFailure,
            Field::Strict,
            Field::Lines,
            Field::Select,
            Field::OtherCase,
            Field::KeyId,
            Field::Document,
        ]);
        let fields = Fields::read(params, FIELDS)?;
        let document = required(fields.document, Field::Document)?;
        Ok(DecryptDocumentParams { options: fields.decrypt_options()?, select: fields.select, document })
    }
}

impl<'a> EncryptFileParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        const FIELDS: FieldSet = FieldSet::of(&[Field::App, Field::Curve, Field::DeadlineMs, Field::Data]);
        let fields = Fields::read(params, FIELDS)?;
        let (app, curve, deadline_ms) = (required(fields.app, Field::App)?, fields.curve, fields.deadline_ms);
        let data = required(fields.data, Field::Data)?;
        Ok(EncryptFileParams { options: EncryptFileOptions { app, curve, deadline_ms }, data })
    }
}

impl<'a> DecryptFileParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        let fields = Fields::read(params, FieldSet::of(&[Field::App, Field::DeadlineMs, Field::KeyId, Field::Data]))?;
        let (app, deadline_ms) = (required(fields.app, Field::App)?, fields.deadline_ms);
        let data = required(fields.data, Field::Data)?;
        Ok(DecryptFileParams { options: DecryptFileOptions { app, deadline_ms, key_id: fields.key_id }, data })
    }
}

impl<'a> RewrapParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        const FIELDS: FieldSet =
            FieldSet::of(&[Field::App, Field::Curve, Field::DeadlineMs, Field::OnFailure, Field::Values]);
        let Fields { app, curve, deadline_ms, on_failure, values, .. } = Fields::read(params, FIELDS)?;
        let app = required(app, Field::App)?;
        let values = required(values, Field::Values)?;
        Ok(RewrapParams { options: RewrapOptions { app, curve, deadline_ms, on_failure }, values })
    }
}

impl<'a> InspectParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        let fields = Fields::read(params, FieldSet::of(&[Field::App, Field::Values]))?;
        Ok(InspectParams { app: fields.app, values: required(fields.values, Field::Values)? })
    }
}

impl<'a> PublicKeysParams<'a> {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        let fields = Fields::read(params, FieldSet::of(&[Field::App]))?;
        Ok(PublicKeysParams { app: required(fields.app, Field::App)? })
    }
}

impl<'a> AuthenticateParams<'a> {
    /// Reads the parameters.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'a>) -> Result<Self, ContentError> {
        let fields = Fields::read(params, FieldSet::of(&[Field::ApiKey, Field::Client]))?;
        Ok(AuthenticateParams { api_key: required(fields.api_key, Field::ApiKey)?, client: fields.client })
    }
}

impl HealthParams {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'_>) -> Result<Self, ContentError> {
        decode_nothing(params).map(|()| HealthParams)
    }
}

impl InfoParams {
    /// Reads the parameters. The elements of lists are checked when they are iterated.
    ///
    /// # Errors
    /// Anything but exactly the method's fields, each at most once, of its type and in its range.
    pub fn decode(params: RawParams<'_>) -> Result<Self, ContentError> {
        decode_nothing(params).map(|()| InfoParams)
    }
}

/// Methods without fields take an empty map or, as other MessagePack-RPC clients send it, no parameter at all.
fn decode_nothing(params: RawParams<'_>) -> Result<(), ContentError> {
    if params.count() == 0 {
        return Ok(());
    }
    Fields::read(params, FieldSet::EMPTY).map(|_| ())
}

/// Every field of any method; each method checks which ones it allows.
#[derive(Default)]
struct Fields<'a> {
    app: Option<&'a str>,
    curve: Option<Curve>,
    keying: Option<Keying>,
    role: Option<&'a str>,
    deadline_ms: Option<u32>,
    skip_sealed: bool,
    on_failure: Option<OnFailure>,
    strict: bool,
    lines: bool,
    select: Option<RawValues<'a>>,
    other_case: Option<OtherCase>,
    unambiguous: bool,
    values: Option<RawValues<'a>>,
    document: Option<&'a [u8]>,
    data: Option<&'a [u8]>,
    api_key: Option<&'a str>,
    key_id: Option<&'a str>,
    client: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn read(params: RawParams<'a>, expected: FieldSet) -> Result<Self, ContentError> {
        let mut fields = Fields::default();
        let mut entries = Entries::of_params(params, expected, Unknown::Refuse)?;
        while let Some(field) = entries.next_field()? {
            match field {
                Field::App => fields.app = app(entries.optional_string(field)?)?,
                Field::Curve => fields.curve = curve(entries.optional_string(field)?)?,
                Field::Keying => fields.keying = keying(entries.optional_string(field)?)?,
                Field::Role => fields.role = role(entries.optional_string(field)?)?,
                Field::DeadlineMs => fields.deadline_ms = deadline_ms(entries.optional_unsigned(field)?)?,
                Field::SkipSealed => fields.skip_sealed = entries.optional_boolean(field)?.unwrap_or(false),
                Field::OnFailure => fields.on_failure = on_failure(entries.optional_string(field)?)?,
                Field::Strict => fields.strict = entries.optional_boolean(field)?.unwrap_or(false),
                Field::Lines => fields.lines = entries.optional_boolean(field)?.unwrap_or(false),
                Field::Select => fields.select = select(entries.optional_values(field)?)?,
                Field::OtherCase => fields.other_case = other_case(entries.optional_string(field)?)?,
                Field::Unambiguous => fields.unambiguous = entries.optional_boolean(field)?.unwrap_or(false),
                Field::Values => fields.values = Some(entries.values(field)?),
                Field::Document => fields.document = Some(entries.bytes(field)?),
                Field::Data => fields.data = Some(entries.binary(field)?),
                Field::KeyId => fields.key_id = key_id(entries.optional_string(field)?)?,
                Field::Client => fields.client = client(entries.optional_string(field)?)?,
                Field::ApiKey => fields.api_key = Some(api_key(entries.string(field)?)?),
                _ => unreachable!("no method expects {field}"),
            }
        }
        Ok(fields)
    }

    fn encrypt_options(&self) -> Result<EncryptOptions<'a>, ContentError> {
        Ok(EncryptOptions {
            app: required(self.app, Field::App)?,
            curve: self.curve,
            keying: self.keying,
            role: self.role,
            deadline_ms: self.deadline_ms,
            skip_sealed: self.skip_sealed,
            strict: self.strict,
            lines: self.lines,
            other_case: self.other_case,
            unambiguous: self.unambiguous,
        })
    }

    fn decrypt_options(&self) -> Result<DecryptOptions<'a>, ContentError> {
        let app = required(self.app, Field::App)?;
        let Fields { role, deadline_ms, on_failure, strict, lines, other_case, key_id, .. } = *self;
        Ok(DecryptOptions { app, role, deadline_ms, on_failure, strict, lines, other_case, key_id })
    }
}

fn required<T>(value: Option<T>, field: Field) -> Result<T, ContentError> {
    value.ok_or(ContentError::MissingField(field))
}

fn app(name: Option<&str>) -> Result<Option<&str>, ContentError> {
    match name {
        Some(name) if !(1..=APP_SIZE_MAX).contains(&name.len()) => Err(out_of_range(Field::App, "1 to 128 bytes")),
        other => Ok(other),
    }
}

fn key_id(id: Option<&str>) -> Result<Option<&str>, ContentError> {
    match id {
        Some(id) if !(1..=KEY_ID_SIZE_MAX).contains(&id.len()) => Err(out_of_range(Field::KeyId, "1 to 64 bytes")),
        other => Ok(other),
    }
}

fn client(name: Option<&str>) -> Result<Option<&str>, ContentError> {
    match name {
        Some(name) if !(1..=CLIENT_SIZE_MAX).contains(&name.len()) => Err(out_of_range(Field::Client, "1 to 64 bytes")),
        other => Ok(other),
    }
}

fn api_key(text: &str) -> Result<&str, ContentError> {
    if (1..=API_KEY_SIZE_MAX).contains(&text.len()) {
        Ok(text)
    } else {
        Err(out_of_range(Field::ApiKey, "1 to 256 bytes"))
    }
}

fn role(role: Option<&str>) -> Result<Option<&str>, ContentError> {
    let in_role = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match role {
        Some(role) if !(1..=ROLE_SIZE_MAX).contains(&role.len()) || !role.bytes().all(in_role) => {
            Err(out_of_range(Field::Role, "1 to 20 characters of a-z, 0-9 and -"))
        }
        other => Ok(other),
    }
}

fn curve(word: Option<&str>) -> Result<Option<Curve>, ContentError> {
    word.map(|word| Curve::parse(word).ok_or(out_of_range(Field::Curve, "`r1` or `k1`"))).transpose()
}

fn keying(word: Option<&str>) -> Result<Option<Keying>, ContentError> {
    let expected = "`field`, `request` or `session`";
    word.map(|word| Keying::parse(word).ok_or(out_of_range(Field::Keying, expected))).transpose()
}

fn on_failure(word: Option<&str>) -> Result<Option<OnFailure>, ContentError> {
    let expected = "`fail`, `leave` or `null`";
    word.map(|word| OnFailure::parse(word).ok_or(out_of_range(Field::OnFailure, expected))).transpose()
}

fn other_case(word: Option<&str>) -> Result<Option<OtherCase>, ContentError> {
    let expected = "`refuse`, `same` or `other`";
    word.map(|word| OtherCase::parse(word).ok_or(out_of_range(Field::OtherCase, expected))).transpose()
}

/// An empty list would select nothing and give the document back in the clear, which nobody means.
fn select(selectors: Option<RawValues<'_>>) -> Result<Option<RawValues<'_>>, ContentError> {
    match selectors {
        Some(selectors) if selectors.is_empty() => Err(out_of_range(Field::Select, "at least one selector")),
        other => Ok(other),
    }
}

fn deadline_ms(value: Option<u64>) -> Result<Option<u32>, ContentError> {
    match value.map(u32::try_from) {
        None => Ok(None),
        Some(Ok(deadline)) if deadline > 0 => Ok(Some(deadline)),
        Some(_) => Err(out_of_range(Field::DeadlineMs, "1 to 4294967295")),
    }
}
