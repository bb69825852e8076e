//! Names of the fields in parameters, results and error objects, and the kinds of MessagePack values.

use std::fmt;

/// Longest name of an app, in bytes of UTF-8.
pub(crate) const APP_SIZE_MAX: usize = 128;
/// Longest API key that is read, in bytes.
const API_KEY_SIZE_MAX: usize = 256;
/// Largest id of an API key in bytes.
const KEY_ID_SIZE_MAX: usize = 64;
/// Longest name of a client for whom an API key is verified, in bytes.
const CLIENT_SIZE_MAX: usize = 64;
/// Longest context, in bytes.
const CONTEXT_SIZE_MAX: usize = 1024;
/// Longest data role, in characters.
const ROLE_SIZE_MAX: usize = 20;

macro_rules! fields {
    ($($variant:ident $name:literal $what:literal),+ $(,)?) => {
        /// A field of the protocol's maps.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Field {
            $(#[doc = $what] $variant),+
        }

        impl Field {
            /// Every field, in no order that means anything.
            pub const ALL: &'static [Field] = &[$(Field::$variant),+];

            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Field::$variant => $name),+ }
            }

            pub(crate) fn parse(name: &[u8]) -> Option<Field> {
                match std::str::from_utf8(name).ok()? { $($name => Some(Field::$variant),)+ _ => None }
            }
        }
    };
}

fields! {
    App "app" "The tenant whose keys serve the request.",
    Scheme "scheme" "How envelopes are sealed.",
    Context "context" "What symmetric envelopes are bound to.",
    ContextSelect "context_select" "Where in a document the context of each value is.",
    Bind "bind" "What of its path in a document each value is bound to.",
    Accept "accept" "The kinds of envelopes that are opened.",
    SymmetricKeyId "symmetric_key_id" "The id of the symmetric key that an envelope names.",
    FromPublicKey "from_public_key" "Whether a symmetric envelope was resealed from one to a public key.",
    Curve "curve" "The curve of the ephemeral key.",
    Keying "keying" "How often a fresh ephemeral key is made.",
    Role "role" "The data role.",
    DeadlineMs "deadline_ms" "How long the caller waits, in milliseconds.",
    Values "values" "The list of values.",
    Contexts "contexts" "The context of each value of a list.",
    Select "select" "JSONPath selectors.",
    Document "document" "JSON text.",
    Data "data" "Contents of a file.",
    Count "count" "How many values were changed.",
    Version "version" "A version: of an envelope, of keys, or of the engine.",
    R1 "r1" "A P-256 public key.",
    K1 "k1" "A secp256k1 public key.",
    R1Pem "r1_pem" "The P-256 public key as PEM.",
    K1Pem "k1_pem" "The secp256k1 public key as PEM.",
    Status "status" "The engine's readiness.",
    Code "code" "The code of an error.",
    Message "message" "The text of an error.",
    Retry "retry" "Retry advice of an error.",
    RetryAfterMs "retry_after_ms" "After how long to try again, in milliseconds.",
    Index "index" "The position in a list that an error is about.",
    Offset "offset" "The byte position in a document or selector that an error is about.",
    Type "type" "The type of a sealed value.",
    Debug "debug" "Whether an envelope is marked as made in debug mode.",
    Ephemeral "ephemeral" "The ephemeral public key of an envelope.",
    Origin "origin" "Number of the software that made an envelope.",
    EncryptedAt "encrypted_at" "When an envelope was made, in Unix seconds.",
    Unopened "unopened" "Whether an envelope does not open.",
    KeyVersion "key_version" "The app's key version that opens an envelope.",
    ApiKey "api_key" "An API key, as its user shows it.",
    KeyId "key_id" "The id of an API key; no secret.",
    Client "client" "On whose behalf an API key is verified.",
    Operations "operations" "The operations that an API key permits.",
    Roles "roles" "The data roles that an API key shows.",
    Strict "strict" "Whether every selector must match something, in each line of JSON Lines.",
    SkipSealed "skip_sealed" "Whether envelopes that open are left alone.",
    Reseal "reseal" "What envelopes to a public key become that arrive to be encrypted.",
    OnFailure "on_failure" "The action for an envelope that does not open.",
    Matched "matched" "How many values each selector matched.",
    Resealed "resealed" "How many of the values were envelopes already.",
    Skipped "skipped" "How many envelopes were left alone.",
    Rewrapped "rewrapped" "How many envelopes to a public key became symmetric ones.",
    Symmetric "symmetric" "How many of the values have symmetric envelopes.",
    Failed "failed" "How many envelopes did not open.",
    Failures "failures" "Where the first of them stand.",
    Lines "lines" "Whether the document is JSON Lines: a document on each line.",
    OtherCase "other_case" "The action for member names that differ from selected ones in case alone.",
    PublicKey "public_key" "The public key to which something is sealed.",
    Secret "secret" "A passphrase or shares, which open the keystore, sealed.",
    Missing "missing" "How many shares are missing.",
    Unambiguous "unambiguous" "Whether a document is refused that parsers read differently where selectors look.",
}

impl Field {
    /// The range of a text, in words.
    pub const fn range(self) -> Option<&'static str> {
        match self {
            Field::App => Some("1 to 128 bytes"),
            Field::KeyId | Field::Client => Some("1 to 64 bytes"),
            Field::ApiKey => Some("1 to 256 bytes"),
            Field::Context => Some("1 to 1024 bytes"),
            Field::Role => Some("1 to 20 characters of a-z, 0-9 and -"),
            _ => None,
        }
    }

    /// Whether a text is in the range.
    pub fn has_in_range(self, text: &str) -> bool {
        let is_role = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let size_max = match self {
            Field::App => APP_SIZE_MAX,
            Field::KeyId => KEY_ID_SIZE_MAX,
            Field::Client => CLIENT_SIZE_MAX,
            Field::ApiKey => API_KEY_SIZE_MAX,
            Field::Role => ROLE_SIZE_MAX,
            Field::Context => CONTEXT_SIZE_MAX,
            _ => return true,
        };
        (1..=size_max).contains(&text.len()) && (self != Field::Role || text.bytes().all(is_role))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldSet(u64);

const _: () = assert!(Field::ALL.len() <= u64::BITS as usize);

impl FieldSet {
    pub(crate) const EMPTY: FieldSet = FieldSet(0);

    pub(crate) const fn of(fields: &[Field]) -> FieldSet {
        let mut bits = 0_u64;
        let mut i = 0;
        while i < fields.len() {
            bits |= 1 << fields[i] as u64;
            i += 1;
        }
        FieldSet(bits)
    }

    pub(crate) const fn contains(self, field: Field) -> bool {
        self.0 & (1_u64 << field as u64) != 0
    }

    pub(crate) const fn with(self, field: Field) -> FieldSet {
        FieldSet(self.0 | (1_u64 << field as u64))
    }
}

/// The type of a MessagePack value, as errors name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireType {
    /// `nil`.
    Nil,
    /// `true` or `false`.
    Boolean,
    /// Any of the integer formats.
    Integer,
    /// `float 32` or `float 64`.
    Float,
    /// Any of the `str` formats.
    String,
    /// Any of the `bin` formats.
    Binary,
    /// Any of the array formats.
    Array,
    /// Any of the map formats.
    Map,
    /// Any of the extension formats; the protocol uses none.
    Extension,
}

impl fmt::Display for WireType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WireType::Nil => "nil",
            WireType::Boolean => "a boolean",
            WireType::Integer => "an integer",
            WireType::Float => "a float",
            WireType::String => "a string",
            WireType::Binary => "a binary",
            WireType::Array => "an array",
            WireType::Map => "a map",
            WireType::Extension => "an extension",
        })
    }
}
