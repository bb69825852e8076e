//! Resumption of sessions by tickets (RFC 8446, 2.2): a client that connects again proves that it was here before, which spares both
//! sides the certificates and their signatures. Forward secrecy is kept in TLS 1.3, where resumption includes a key agreement.
//!
//! A listener keeps no sessions. Tickets expire a fixed time after the full handshake, however often they are renewed.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use boring::ssl::SslContextBuilder;
use leafseal_crypto::GuardedSecret;
use leafseal_crypto::rand_core::Rng;
use leafseal_crypto::random::system_random;
use leafseal_crypto::tickets::{TICKET_KEY_SIZE, TicketKeys, TicketSource, set_session_tickets};

use super::error::TlsError;

/// Maximum number of ticket keys of a listener.
pub const TICKET_KEYS_MAX: usize = 16;

/// How sessions of a listener are resumed.
#[derive(Clone)]
pub struct SessionSettings {
    /// For how long after its full handshake; zero: not at all. At most seven days. Default one hour.
    pub lifetime: Duration,
    /// Keys that several listeners share, so that each can resume sessions of the others: the first seals tickets, all of them open
    /// tickets. If there are none, the listener makes its own and replaces them once per lifetime.
    pub ticket_keys: Vec<GuardedSecret>,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self { lifetime: Duration::from_secs(3600), ticket_keys: Vec::new() }
    }
}

impl fmt::Debug for SessionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionSettings").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

impl SessionSettings {
    /// Sets the context's tickets. Sessions are resumed only where `identity` is the same.
    pub(super) fn apply(&self, context: &mut SslContextBuilder, identity: &[u8]) -> Result<(), TlsError> {
        let source = TicketSource { now: unix_now, fill: |bytes| system_random().fill_bytes(bytes) };
        let keys = (!self.lifetime.is_zero()).then(|| TicketKeys::new(&self.ticket_keys, self.lifetime, source));
        Ok(set_session_tickets(context, keys, identity)?)
    }
}

fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Parses a file of ticket keys: lines of 64 hexadecimal digits, at least one. Empty lines and lines that start with `#` are skipped.
///
/// # Errors
/// The first line that is no key, by its number, or the absence of keys. Never its content.
pub fn ticket_keys(text: &[u8]) -> Result<Vec<GuardedSecret>, TlsError> {
    let unreadable = |reason: String| TlsError::Unreadable { what: "session ticket keys", reason };
    let mut keys = Vec::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let key = key(line).ok_or_else(|| unreadable(format!("line {number} is not 64 hexadecimal digits")))?;
        keys.push(key);
    }
    match keys.len() {
        0 => Err(unreadable(
            "no key: write one of 64 hexadecimal digits, such as openssl rand -hex 32 prints".to_owned(),
        )),
        count if count > TICKET_KEYS_MAX => {
            Err(unreadable(format!("more than {TICKET_KEYS_MAX} keys: remove old ones")))
        }
        _ => Ok(keys),
    }
}

fn key(line: &[u8]) -> Option<GuardedSecret> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let mut key = GuardedSecret::zeroed();
    if line.len() != 2 * TICKET_KEY_SIZE {
        return None;
    }
    for (byte, pair) in key.expose_mut().iter_mut().zip(line.chunks(2)) {
        *byte = digit(&pair[0])? << 4 | digit(&pair[1])?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_lines_of_hexadecimal_digits() {
        let text = format!("# of November\n{}\r\n\n  {}  ", "0f".repeat(32), "A0".repeat(32));
        let keys = ticket_keys(text.as_bytes()).expect("two keys");
        assert_eq!(keys.iter().map(|key| *key.expose()).collect::<Vec<_>>(), [[0x0f; 32], [0xa0; 32]]);
    }

    #[test]
    fn other_files_are_refused_without_their_content() {
        let long = format!("{}\n", "ab".repeat(32)).repeat(TICKET_KEYS_MAX + 1);
        let rows: [(&[u8], &str); 6] = [
            (b"", "no key"),
            (b"# only a comment\n", "no key"),
            (b"\nsecret\n", "line 2 is not 64"),
            (&[b'a'; 63], "line 1 is not 64"),
            (&[b'g'; 64], "line 1 is not 64"),
            (long.as_bytes(), "more than 16 keys"),
        ];
        for (text, expected) in rows {
            let error = ticket_keys(text).expect_err(expected).to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{error}");
        }
    }
}
