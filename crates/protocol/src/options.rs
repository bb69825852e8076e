//! The options of the methods, as the engine reads them and the client writes them.
//!
//! An option that is `None` is left to the engine's settings.

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// Every case.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// The reverse of `as_str`.
            pub fn parse(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

words! {
    /// The curve of the ephemeral key.
    Curve {
        /// P-256, secp256r1.
        R1 = "r1",
        /// secp256k1.
        K1 = "k1",
    }
}

words! {
    /// How often a fresh ephemeral key is made.
    Keying {
        /// For every value.
        Field = "field",
        /// Once a request.
        Request = "request",
        /// Once for many requests, bounded by time and by count.
        Session = "session",
    }
}

words! {
    /// The action for an envelope that fails to decrypt.
    OnFailure {
        /// The request fails.
        Fail = "fail",
        /// The text stays as it is.
        Leave = "leave",
        /// Nil takes its place.
        Null = "null",
    }
}

words! {
    /// The type that an envelope gives its text.
    TextKind {
        /// Text.
        String = "string",
        /// JSON text of a number.
        Number = "number",
        /// `true` or `false`.
        Boolean = "boolean",
    }
}

words! {
    /// The action for a member whose name differs from a selected one only in case, by any simple case mapping of Unicode. Some
    /// parsers (Go's `encoding/json`, ASP.NET) read it as the selected one.
    OtherCase {
        /// The document is refused.
        Refuse = "refuse",
        /// It is selected too.
        Same = "same",
        /// It is another name.
        Other = "other",
    }
}

/// Longest name of an app, in bytes of UTF-8.
pub(crate) const APP_SIZE_MAX: usize = 128;
/// Longest API key that is read, in bytes.
pub(crate) const API_KEY_SIZE_MAX: usize = 256;
/// Largest id of an API key in bytes.
pub(crate) const KEY_ID_SIZE_MAX: usize = 64;
/// Longest name of a client for whom an API key is verified, in bytes.
pub(crate) const CLIENT_SIZE_MAX: usize = 64;
/// Longest data role, in characters.
pub(crate) const ROLE_SIZE_MAX: usize = 20;

/// Options of `encrypt` and `encrypt_document`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncryptOptions<'a> {
    /// The tenant; 1 to 128 bytes.
    pub app: &'a str,
    /// The curve.
    pub curve: Option<Curve>,
    /// How often a fresh ephemeral key is made.
    pub keying: Option<Keying>,
    /// The data role written into the envelopes; `[a-z0-9-]{1,20}`. Without it they carry none.
    pub role: Option<&'a str>,
    /// How long the caller waits, in milliseconds from when the engine has read the frame; at least 1.
    pub deadline_ms: Option<u32>,
    /// Skips the envelopes that the caller could decrypt under this app and role, instead of encrypting them again.
    pub skip_sealed: bool,
    /// Fails where a selector matches nothing; only for documents.
    pub strict: bool,
    /// Whether the document is JSON Lines: a document on each line.
    pub lines: bool,
    /// How member names of documents are compared with those of selectors; without it `other`. Ignored where there is no document.
    pub other_case: Option<OtherCase>,
    /// Refuses a document in which parsers find different values where the selectors look: names that occur twice in an object, and
    /// with filters operands that are read differently. Ignored where there is no document.
    pub unambiguous: bool,
}

impl<'a> EncryptOptions<'a> {
    /// Everything but the app left to the engine.
    pub fn new(app: &'a str) -> Self {
        EncryptOptions {
            app,
            curve: None,
            keying: None,
            role: None,
            deadline_ms: None,
            skip_sealed: false,
            strict: false,
            lines: false,
            other_case: None,
            unambiguous: false,
        }
    }
}

/// Options of `decrypt` and `decrypt_document`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecryptOptions<'a> {
    /// The tenant; 1 to 128 bytes.
    pub app: &'a str,
    /// The data role that every envelope must carry; `[a-z0-9-]{1,20}`. Without it only the caller's policy applies.
    pub role: Option<&'a str>,
    /// How long the caller waits, in milliseconds from when the engine has read the frame; at least 1.
    pub deadline_ms: Option<u32>,
    /// The action for an envelope that fails to decrypt. Default: the request fails.
    pub on_failure: Option<OnFailure>,
    /// Fails where a selector matches nothing; only for documents.
    pub strict: bool,
    /// Whether the document is JSON Lines: a document on each line.
    pub lines: bool,
    /// How member names of documents are compared with those of selectors; without it `other`. Ignored where there is no document.
    pub other_case: Option<OtherCase>,
    /// The id of the API key that the caller acts for: the request may do what both of them may. 1 to 64 bytes.
    pub key_id: Option<&'a str>,
}

impl<'a> DecryptOptions<'a> {
    /// Everything but the app left to the engine.
    pub fn new(app: &'a str) -> Self {
        DecryptOptions {
            app,
            role: None,
            deadline_ms: None,
            on_failure: None,
            strict: false,
            lines: false,
            other_case: None,
            key_id: None,
        }
    }
}

/// Options of `rewrap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RewrapOptions<'a> {
    /// The tenant; 1 to 128 bytes.
    pub app: &'a str,
    /// The curve of the new envelopes. Without it each keeps its own.
    pub curve: Option<Curve>,
    /// How long the caller waits, in milliseconds from when the engine has read the frame; at least 1.
    pub deadline_ms: Option<u32>,
    /// The action for an envelope that fails to decrypt. Default: the request fails. [`OnFailure::Null`] is refused.
    pub on_failure: Option<OnFailure>,
}

impl<'a> RewrapOptions<'a> {
    /// Everything but the app left to the engine.
    pub fn new(app: &'a str) -> Self {
        RewrapOptions { app, curve: None, deadline_ms: None, on_failure: None }
    }
}

/// Options of `encrypt_file`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncryptFileOptions<'a> {
    /// The tenant; 1 to 128 bytes.
    pub app: &'a str,
    /// The curve.
    pub curve: Option<Curve>,
    /// How long the caller waits, in milliseconds from when the engine has read the frame; at least 1.
    pub deadline_ms: Option<u32>,
}

impl<'a> EncryptFileOptions<'a> {
    /// Everything but the app left to the engine.
    pub fn new(app: &'a str) -> Self {
        EncryptFileOptions { app, curve: None, deadline_ms: None }
    }
}

/// Options of `decrypt_file`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecryptFileOptions<'a> {
    /// The tenant; 1 to 128 bytes.
    pub app: &'a str,
    /// How long the caller waits, in milliseconds from when the engine has read the frame; at least 1.
    pub deadline_ms: Option<u32>,
    /// The id of the API key that the caller acts for: the request may do what both of them may. 1 to 64 bytes.
    pub key_id: Option<&'a str>,
}

impl<'a> DecryptFileOptions<'a> {
    /// Everything but the app left to the engine.
    pub fn new(app: &'a str) -> Self {
        DecryptFileOptions { app, deadline_ms: None, key_id: None }
    }
}
