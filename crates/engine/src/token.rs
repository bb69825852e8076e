//! Client-side tokens: they let callers without a key decrypt one payload of one app for some minutes.
//!
//! A token contains its own permissions, authenticated by a MAC whose key is in the store, so that every process with the store verifies it
//! without a lookup. It cannot be revoked: revoking the API key that created it has no effect, disabling the app does.
//!
//! The payload is identified by its strings, in their order, because only strings can change when it is decrypted. White space, escapes,
//! names of members and numbers do not count, because JSON libraries write them differently; nothing of them is decrypted.

pub(crate) mod fuzzing;

use std::collections::BTreeSet;
use std::time::Duration;

use leafseal_crypto::hash::{hmac_sha256, hmac_sha256_verify, sha256};
use leafseal_crypto::rand_core::Rng as _;
use leafseal_crypto::random::system_random;
use leafseal_document::{DocumentWalk, Match, Purpose, ScalarKind, Selection, WalkProgress};
use leafseal_keystore::{AcceptedSchemes, AppName, RoleName, Roles};

use crate::api_key::{hex, unhex};
use crate::cost;
use crate::document::text_of;
use crate::engine::Engine;
use crate::error::{Error, ErrorCode};
use crate::permissions::{Caller, Operation, PayloadDigest, Rights, TokenCaller};
use crate::settings::Settings;

/// Default validity of a token.
pub const TOKEN_AGE_DEFAULT: Duration = Duration::from_secs(5 * 60);
/// Maximum validity of a token.
pub const TOKEN_AGE_MAX: Duration = Duration::from_secs(10 * 60);

/// The first characters of every token.
const PREFIX: &str = "fst_";
/// The prefix of the MAC's input: the same key may serve other purposes later.
const LABEL: &[u8] = b"leafseal-client-side-token-1";
/// The versions of the content's format: of tokens that open all kinds of envelopes, and of those with a byte that says which. A program
/// that does not know the second refuses its tokens.
const FORM: u8 = 1;
const FORM_WITH_ACCEPTED: u8 = 2;
const MAC_SIZE: usize = 32;
const ID_SIZE: usize = 8;
/// Format, two times, digest, id, number of roles.
const FIXED_SIZE: usize = 1 + 8 + 8 + 32 + ID_SIZE + 1;
/// Represents all roles, in place of their number.
const ANY_ROLE: u8 = u8::MAX;
/// Maximum number of roles of a token, because it is sent in a header.
const ROLES_MAX: usize = 32;
/// Maximum length of a token.
const TEXT_SIZE_MAX: usize = 4096;

/// A payload whose digest is being computed.
pub struct PayloadReading {
    walk: DocumentWalk,
    digest: [u8; 32],
    strings: u64,
    values_max: usize,
    bytes_max: usize,
}

/// A request for a token that is being parsed: `{"action": …, "payload": …, "expiry": …}`.
pub struct TokenRequestReading {
    payload: PayloadReading,
    /// Whether the payload is read, and the options are being searched.
    is_payload_read: bool,
    options: DocumentWalk,
    asked: TokenRequest,
}

/// The request for a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// The digest of the payload.
    pub payload: PayloadDigest,
    /// The number of strings in it: without strings a token has nothing to decrypt.
    pub strings: u64,
    /// The text of `action`, if it is a string.
    pub action: Option<String>,
    /// The text of `expiry`, if it is a number.
    pub expiry: Option<String>,
}

/// Maximum length of `action` or `expiry` in bytes.
const OPTION_SIZE_MAX: usize = 64;

/// A newly created token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedToken {
    /// Identifies it in logs and answers; not secret.
    pub id: String,
    /// The token itself.
    pub text: String,
    /// Unix milliseconds.
    pub created_ms: u64,
    /// Unix milliseconds.
    pub expires_ms: u64,
}

impl Engine {
    /// Starts reading a payload of `size` bytes.
    ///
    /// # Errors
    /// Too large.
    pub fn payload(&self, size: usize) -> Result<PayloadReading, Error> {
        PayloadReading::new(size, &Selection::everything(), self.settings())
    }

    /// Starts parsing a request for a token, of `size` bytes.
    ///
    /// # Errors
    /// Too large.
    pub fn token_request(&self, size: usize) -> Result<TokenRequestReading, Error> {
        TokenRequestReading::new(size, self.settings())
    }

    /// Creates a token for `payload` of `app`, valid until `expires_ms` or for [`TOKEN_AGE_DEFAULT`]. It carries the roles that the caller
    /// may read and the envelopes that are decrypted for it. It requires the permission to decrypt.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, store unavailable; a time that has passed or is more than [`TOKEN_AGE_MAX`] ahead; more roles
    /// than a token can carry.
    pub fn issue_token(
        &self,
        caller: &Caller,
        app: &str,
        payload: PayloadDigest,
        expires_ms: Option<u64>,
    ) -> Result<IssuedToken, Error> {
        let (rights, app) = self.authorised(caller, &[Operation::IssueTokens, Operation::Decrypt], app)?;
        let created_ms = self.now_unix_ms();
        let after = |age: Duration| created_ms + u64::try_from(age.as_millis()).expect("minutes");
        let expires_ms = expires_ms.unwrap_or(after(TOKEN_AGE_DEFAULT));
        if expires_ms <= created_ms || expires_ms > after(TOKEN_AGE_MAX) {
            let message = "a token expires in the future, and within 10 minutes";
            return Err(Error::new(ErrorCode::InvalidParams, message));
        }
        let mut id = [0; ID_SIZE];
        system_random().fill_bytes(&mut id);
        let accept = rights.accepted();
        let mut content = vec![if accept == AcceptedSchemes::ALL { FORM } else { FORM_WITH_ACCEPTED }];
        content.extend(created_ms.to_be_bytes());
        content.extend(expires_ms.to_be_bytes());
        content.extend(payload.0);
        content.extend(id);
        write_roles(&rights, &mut content)?;
        if accept != AcceptedSchemes::ALL {
            content.push(accepted_byte(accept));
        }
        content.extend(app.name.as_str().as_bytes());
        let mac = hmac_sha256(self.token_secret()?.expose(), &[LABEL, &content].concat());
        content.extend(mac);
        let text = format!("{PREFIX}{}", *hex(&content));
        Ok(IssuedToken { id: hex(&id).to_string(), text, created_ms, expires_ms })
    }

    /// The Unix time in milliseconds that is `age` after the engine's current time.
    pub fn unix_time_in(&self, age: Duration) -> u64 {
        self.now_unix_ms().saturating_add(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
    }

    /// Reads the secret that tokens are signed with, so that verifying one never blocks.
    ///
    /// # Errors
    /// The store does not respond.
    pub fn prepare_tokens(&self) -> Result<(), Error> {
        self.token_secret().map(drop)
    }

    /// Verifies a token and reads what it proves, without a lookup.
    pub(crate) fn verify_token(&self, text: &str) -> Result<TokenCaller, TokenFault> {
        let invalid = || TokenFault::Invalid;
        let digits = text.strip_prefix(PREFIX).filter(|_| text.len() <= TEXT_SIZE_MAX).ok_or_else(invalid)?;
        let bytes = unhex(digits).ok_or_else(invalid)?;
        let (content, mac) = bytes.split_last_chunk::<MAC_SIZE>().ok_or_else(invalid)?;
        let secret = self.token_secret().map_err(TokenFault::Store)?;
        if !hmac_sha256_verify(secret.expose(), &[LABEL, content].concat(), mac) {
            return Err(invalid());
        }
        let (expires_ms, token) = read(content).ok_or_else(invalid)?;
        if self.now_unix_ms() >= expires_ms {
            return Err(TokenFault::Expired(token.id().to_owned()));
        }
        Ok(token)
    }
}

/// Why a token proves nothing.
pub(crate) enum TokenFault {
    /// It is not a token of this store.
    Invalid,
    /// It has expired; it has this id.
    Expired(String),
    /// The store does not respond.
    Store(Error),
}

impl PayloadReading {
    fn new(size: usize, selection: &Selection, settings: &Settings) -> Result<Self, Error> {
        let walk = DocumentWalk::new(size, selection, Purpose::Encrypt, &settings.document)?;
        let bytes_max = cost::walked_bytes_max(settings.step_bytes_max);
        let values_max = settings.step_values_max.max(1);
        Ok(PayloadReading { walk, digest: [0; 32], strings: 0, values_max, bytes_max })
    }

    /// Processes the next step of `payload`, which must be the same in each call; returns its digest once it is done.
    ///
    /// # Errors
    /// It is not JSON (with the byte), or a string is not Unicode.
    pub fn step(&mut self, payload: &[u8]) -> Result<Option<PayloadDigest>, Error> {
        let mut matches: Vec<Match> = Vec::new();
        let progress = self.walk.next_batch(payload, &mut matches, self.values_max, self.bytes_max)?;
        for found in &matches {
            if let ScalarKind::String { .. } = found.kind {
                let text = text_of(payload, found)?;
                self.digest = sha256(&[&self.digest, &sha256(&[&text])]);
                self.strings += 1;
            }
        }
        Ok((progress == WalkProgress::Done).then_some(PayloadDigest(self.digest)))
    }
}

impl TokenRequestReading {
    fn new(size: usize, settings: &Settings) -> Result<Self, Error> {
        let selection = |selectors: &[&str]| Selection::parse(selectors, &settings.document);
        let payload = PayloadReading::new(size, &selection(&["$.payload", "$.payload..*"])?, settings)?;
        let options = selection(&["$.action", "$.expiry"])?;
        let options = DocumentWalk::new(size, &options, Purpose::Encrypt, &settings.document)?;
        let asked = TokenRequest { payload: PayloadDigest([0; 32]), strings: 0, action: None, expiry: None };
        Ok(TokenRequestReading { payload, is_payload_read: false, options, asked })
    }

    /// Processes the next step of `document`, which must be the same in each call; returns the token's request once it is done.
    ///
    /// # Errors
    /// It is not JSON (with the byte), or a string is not Unicode.
    pub fn step(&mut self, document: &[u8]) -> Result<Option<TokenRequest>, Error> {
        if !self.is_payload_read {
            if let Some(digest) = self.payload.step(document)? {
                (self.asked.payload, self.asked.strings) = (digest, self.payload.strings);
                self.is_payload_read = true;
            }
            return Ok(None);
        }
        let mut matches: Vec<Match> = Vec::new();
        let PayloadReading { values_max, bytes_max, .. } = self.payload;
        let progress = self.options.next_batch(document, &mut matches, values_max, bytes_max)?;
        for found in matches.iter().filter(|found| found.end - found.start <= OPTION_SIZE_MAX) {
            let text = String::from_utf8_lossy(&text_of(document, found)?).into_owned();
            let asked = match found.kind {
                ScalarKind::String { .. } => &mut self.asked.action,
                ScalarKind::Number | ScalarKind::Boolean => &mut self.asked.expiry,
            };
            // Exactly one of each kind is expected; two are ambiguous, and no parser accepts an empty text.
            *asked = Some(if asked.is_some() { String::new() } else { text });
        }
        Ok((progress == WalkProgress::Done).then(|| self.asked.clone()))
    }
}

fn write_roles(rights: &Rights, content: &mut Vec<u8>) -> Result<(), Error> {
    let Some(Roles::Only(roles)) = rights.roles() else {
        content.push(ANY_ROLE);
        return Ok(());
    };
    if roles.len() > ROLES_MAX {
        let message = format!("a token names at most {ROLES_MAX} roles: use an API key with fewer, or for every role");
        return Err(Error::new(ErrorCode::InvalidParams, message));
    }
    content.push(u8::try_from(roles.len()).expect("bounded above"));
    for role in roles {
        content.push(u8::try_from(role.as_str().len()).expect("names are short"));
        content.extend(role.as_str().as_bytes());
    }
    Ok(())
}

/// A bit for each kind, from the lowest on.
fn accepted_byte(accept: AcceptedSchemes) -> u8 {
    u8::from(accept.public_key) | u8::from(accept.symmetric) << 1 | u8::from(accept.from_public_key) << 2
}

fn accepted_of(byte: u8) -> Option<AcceptedSchemes> {
    let has = |bit: u8| byte & 1 << bit != 0;
    (byte < 8).then(|| AcceptedSchemes { public_key: has(0), symmetric: has(1), from_public_key: has(2) })
}

/// Parses expiry and token from content with a valid MAC.
fn read(content: &[u8]) -> Option<(u64, TokenCaller)> {
    let (fixed, mut rest) = content.split_first_chunk::<FIXED_SIZE>()?;
    matches!(fixed[0], FORM | FORM_WITH_ACCEPTED).then_some(())?;
    let expires_ms = u64::from_be_bytes(fixed[9..17].try_into().ok()?);
    let payload = PayloadDigest(fixed[17..49].try_into().ok()?);
    let id = hex(&fixed[49..49 + ID_SIZE]).to_string();
    let roles = match fixed[FIXED_SIZE - 1] {
        ANY_ROLE => Roles::Any,
        count => {
            let mut roles = BTreeSet::new();
            for _ in 0..count {
                let (size, after) = rest.split_first()?;
                let (role, after) = after.split_at_checked(usize::from(*size))?;
                roles.insert(RoleName::parse(std::str::from_utf8(role).ok()?).ok()?);
                rest = after;
            }
            Roles::Only(roles)
        }
    };
    let mut accept = AcceptedSchemes::ALL;
    if fixed[0] == FORM_WITH_ACCEPTED {
        let (byte, after) = rest.split_first()?;
        (accept, rest) = (accepted_of(*byte)?, after);
    }
    let app = AppName::parse(std::str::from_utf8(rest).ok()?).ok()?;
    Some((expires_ms, TokenCaller::new(id, app, (roles, accept), payload)))
}
