//! Session tickets of TLS servers (RFC 8446, 4.6.1; RFC 5077): the state of a session, sealed by the server and kept by the client.
//!
//! A ticket is `name (16) ‖ expiry (8) ‖ chain (8) ‖ salt (32) ‖ AES-256-GCM(session)`, the first parts authenticated with it. Each ticket
//! has its own key, HMAC-SHA-256(ticket key, salt), so that servers that share a ticket key need no common counter for nonces. The expiry
//! is that of the full handshake that began the session: renewed tickets do not extend it. `chain` is the last second at which the client's
//! chain is valid, as it was verified in that handshake: a ticket never outlives it, and a connection that resumes the session ends then.
//!
//! Anyone with a ticket key can resume sessions in the name of their clients. The comparison with its name is not secret.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use boring::error::ErrorStack;
use boring::ssl::{SslContextBuilder, SslOptions, SslRef, SslSession, SslSessionCacheMode};

use crate::aead::{AeadAlgorithm, AeadKey, NONCE_SIZE, Nonce, OpenItem, SealItem};
use crate::hash::{hmac_sha256, sha256};
use crate::types::ticket::{
    CHAIN_AT, CHAIN_SIZE, EXPIRY_SIZE, HEAD_SIZE, NAME_SIZE, NO_CHAIN, OVERHEAD, OpenedTicket, SALT_AT, TicketSealer,
};
use crate::{GUARDED_SIZE, GuardedSecret, ffi};

/// Bytes of a ticket key.
pub const TICKET_KEY_SIZE: usize = GUARDED_SIZE;
/// The longest that a session can be resumed: the limit of RFC 8446, 4.6.1.
pub const SESSION_LIFETIME_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The clock and the generator of the keys, since this crate has neither.
#[derive(Debug, Clone, Copy)]
pub struct TicketSource {
    /// Seconds of Unix time.
    pub now: fn() -> u64,
    /// Fills bytes from the system's generator.
    pub fill: fn(&mut [u8]),
}

/// The keys of a server's tickets, in guarded memory. Wiped on drop.
pub struct TicketKeys {
    keys: TicketKeyRing,
    lifetime: u64,
    source: TicketSource,
}

impl std::fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketKeys(…)")
    }
}

enum TicketKeyRing {
    /// The first seals, all of them open.
    Given(Vec<TicketKey>),
    /// Made here, and replaced once per lifetime.
    Own(Mutex<OwnKeys>),
}

struct OwnKeys {
    current: TicketKey,
    previous: Option<TicketKey>,
    made: u64,
}

#[derive(Clone)]
struct TicketKey {
    name: [u8; NAME_SIZE],
    secret: Arc<GuardedSecret>,
}

impl TicketKey {
    fn new(secret: GuardedSecret) -> Self {
        let digest = sha256(&[b"leafseal ticket key name", secret.expose()]);
        Self { name: *digest.first_chunk().expect("a digest is longer"), secret: Arc::new(secret) }
    }

    fn generate(source: TicketSource) -> Self {
        let mut secret = GuardedSecret::zeroed();
        (source.fill)(secret.expose_mut());
        Self::new(secret)
    }

    fn of_ticket(&self, salt: &[u8]) -> AeadKey {
        let mut derived = hmac_sha256(self.secret.expose(), salt);
        let key = AeadKey::new(AeadAlgorithm::Aes256Gcm, &derived).expect("32 bytes");
        zeroize::Zeroize::zeroize(&mut derived);
        key
    }
}

impl TicketKeys {
    /// Keys by which sessions can be resumed for `lifetime` after their full handshake. The first of `given` seals, all of them open. If
    /// there are none, this process generates its own and replaces them once per lifetime.
    pub fn new(given: &[GuardedSecret], lifetime: Duration, source: TicketSource) -> Self {
        let keys = match given {
            [] => TicketKeyRing::Own(Mutex::new(OwnKeys {
                current: TicketKey::generate(source),
                previous: None,
                made: (source.now)(),
            })),
            given => TicketKeyRing::Given(given.iter().cloned().map(TicketKey::new).collect()),
        };
        Self { keys, lifetime: lifetime.min(SESSION_LIFETIME_MAX).as_secs(), source }
    }

    /// The key for new tickets.
    fn sealing(&self) -> TicketKey {
        match &self.keys {
            TicketKeyRing::Given(keys) => keys[0].clone(),
            TicketKeyRing::Own(own) => {
                let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
                let now = (self.source.now)();
                // A clock set back counts as well, so that a key cannot serve for longer than stated.
                if now.abs_diff(own.made) >= self.lifetime {
                    let previous = std::mem::replace(&mut own.current, TicketKey::generate(self.source));
                    // After a long pause the key before is of no use any more.
                    own.previous = (now.abs_diff(own.made) < 2 * self.lifetime).then_some(previous);
                    own.made = now;
                }
                own.current.clone()
            }
        }
    }

    fn named(&self, name: &[u8]) -> Option<TicketKey> {
        match &self.keys {
            TicketKeyRing::Given(keys) => keys.iter().find(|key| key.name == name).cloned(),
            TicketKeyRing::Own(own) => {
                let own = own.lock().unwrap_or_else(PoisonError::into_inner);
                own.previous.iter().chain([&own.current]).find(|key| key.name == name).cloned()
            }
        }
    }
}

impl TicketSealer for TicketKeys {
    fn seal(&self, expiry: Option<u64>, chain: Option<i64>, session: &[u8], out: &mut [u8]) -> Option<usize> {
        let now = (self.source.now)();
        let chain = chain.unwrap_or(NO_CHAIN);
        let end_of_chain = u64::try_from(chain.saturating_add(1)).unwrap_or(0);
        let expiry = expiry.unwrap_or(now + self.lifetime).min(end_of_chain);
        let size = session.len() + OVERHEAD;
        if now >= expiry || out.len() < size {
            return None;
        }
        let key = self.sealing();
        let (head, sealed) = out[..size].split_at_mut(HEAD_SIZE);
        head[..NAME_SIZE].copy_from_slice(&key.name);
        head[NAME_SIZE..][..EXPIRY_SIZE].copy_from_slice(&expiry.to_be_bytes());
        head[CHAIN_AT..][..CHAIN_SIZE].copy_from_slice(&chain.to_be_bytes());
        (self.source.fill)(&mut head[SALT_AT..]);
        let of_ticket = key.of_ticket(&head[SALT_AT..]);
        of_ticket.seal(&SealItem { nonce: Nonce([0; NONCE_SIZE]), aad: head, plaintext: session }, sealed);
        Some(size)
    }

    fn open(&self, ticket: &[u8], out: &mut [u8]) -> Option<OpenedTicket> {
        let size = ticket.len().checked_sub(OVERHEAD)?;
        let (head, sealed) = ticket.split_at(HEAD_SIZE);
        let key = self.named(&head[..NAME_SIZE])?;
        let expiry = u64::from_be_bytes(*head[NAME_SIZE..].first_chunk().expect("a whole head"));
        let now = (self.source.now)();
        // Not further ahead than a ticket of now could be: its clock, or ours, is wrong.
        if now >= expiry || expiry - now > self.lifetime {
            return None;
        }
        let chain = i64::from_be_bytes(*head[CHAIN_AT..].first_chunk().expect("a whole head"));
        let of_ticket = key.of_ticket(&head[SALT_AT..]);
        let item = OpenItem { nonce: Nonce([0; NONCE_SIZE]), aad: head, sealed };
        of_ticket.open(&item, out.get_mut(..size)?).ok()?;
        Some(OpenedTicket { size, expiry, chain: (chain != NO_CHAIN).then_some(chain) })
    }
}

/// Lets clients of the context resume their sessions with tickets by these keys, or not at all. `identity` separates sessions: one is only
/// resumed where it is the same, so it must contain everything that a resumed session relies on, such as the authorities of clients.
///
/// # Errors
/// If the library is out of memory.
pub fn set_session_tickets(
    context: &mut SslContextBuilder,
    keys: Option<TicketKeys>,
    identity: &[u8],
) -> Result<(), ErrorStack> {
    // Sessions are kept by clients alone: a cache here would be memory that strangers fill.
    context.set_session_cache_mode(SslSessionCacheMode::OFF);
    context.set_session_id_context(&sha256(&[identity]))?;
    match keys {
        None => _ = context.set_options(SslOptions::NO_TICKET),
        Some(keys) => {
            let lifetime = keys.lifetime.max(1) as u32;
            ffi::tickets::set_sealer(context, Box::new(keys), lifetime)?;
        }
    }
    Ok(())
}

/// Offers a session of an earlier connection to the same server, before the handshake.
///
/// # Errors
/// If the handshake has begun.
pub fn offer_session(ssl: &mut SslRef, session: &SslSession) -> Result<(), ErrorStack> {
    ffi::tickets::offer_session(ssl, session)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(1_000_000) };
        static FILLED: Cell<u8> = const { Cell::new(0) };
    }

    const HOUR: Duration = Duration::from_secs(3600);

    fn source() -> TicketSource {
        TicketSource {
            now: || NOW.get(),
            fill: |bytes| {
                FILLED.set(FILLED.get() + 1);
                bytes.fill(FILLED.get());
            },
        }
    }

    fn keys(given: &[u8]) -> TicketKeys {
        let given: Vec<GuardedSecret> = given.iter().map(|byte| GuardedSecret::from_bytes(&[*byte; 32])).collect();
        TicketKeys::new(&given, HOUR, source())
    }

    fn ticket(keys: &TicketKeys, expiry: Option<u64>) -> Vec<u8> {
        let mut out = vec![0; 7 + OVERHEAD];
        assert_eq!(keys.seal(expiry, None, b"session", &mut out), Some(out.len()));
        out
    }

    fn opened(keys: &TicketKeys, ticket: &[u8]) -> Option<u64> {
        let mut out = vec![0; ticket.len()];
        let OpenedTicket { size, expiry, .. } = keys.open(ticket, &mut out)?;
        assert_eq!(&out[..size], b"session");
        Some(expiry)
    }

    #[test]
    fn a_ticket_expires_with_the_chain_of_its_client_and_names_its_end() {
        let keys = keys(&[1]);
        let sealed = |expiry, last_second| {
            let mut out = vec![0; 7 + OVERHEAD];
            keys.seal(expiry, Some(last_second), b"session", &mut out).map(|_| out)
        };
        let ticket = sealed(None, 1_000_009).expect("ten seconds are left");
        let opened = keys.open(&ticket, &mut [0; 200]).expect("not yet expired");
        assert_eq!((opened.expiry, opened.chain), (1_000_010, Some(1_000_009)));
        let long = sealed(None, 2_000_000).expect("an hour is left");
        let opened = keys.open(&long, &mut [0; 200]).expect("not yet expired");
        assert_eq!((opened.expiry, opened.chain), (1_003_600, Some(2_000_000)));
        NOW.set(1_000_009);
        assert!(keys.open(&ticket, &mut [0; 200]).is_some(), "the last second counts");
        NOW.set(1_000_010);
        assert!(keys.open(&ticket, &mut [0; 200]).is_none() && sealed(None, 1_000_009).is_none());
        assert!(sealed(Some(1_003_600), -1).is_none(), "a chain from before 1970");
    }

    #[test]
    fn the_first_key_seals_and_all_open() {
        let [old, both, new] = [keys(&[1]), keys(&[2, 1]), keys(&[2])];
        let (by_old, by_both) = (ticket(&old, None), ticket(&both, None));
        let expiry = Some(1_003_600);
        assert_eq!([opened(&old, &by_old), opened(&both, &by_old), opened(&new, &by_old)], [expiry, expiry, None]);
        assert_eq!([opened(&old, &by_both), opened(&both, &by_both), opened(&new, &by_both)], [None, expiry, expiry]);
    }

    #[test]
    fn a_ticket_opens_until_it_expires_and_renewal_does_not_extend_it() {
        let keys = keys(&[1]);
        let first = ticket(&keys, None);
        NOW.set(1_003_599);
        let expiry = opened(&keys, &first).expect("not yet expired");
        let renewed = ticket(&keys, Some(expiry));
        assert_eq!(opened(&keys, &renewed), Some(1_003_600));
        NOW.set(1_003_600);
        assert_eq!((opened(&keys, &first), opened(&keys, &renewed)), (None, None));
        assert_eq!(keys.seal(Some(expiry), None, b"session", &mut [0; 200]), None, "nothing left to resume");
        NOW.set(900_000);
        assert_eq!(opened(&keys, &first), None, "from the future");
    }

    #[test]
    fn own_keys_are_replaced_once_per_lifetime_and_open_for_another() {
        let keys = keys(&[]);
        let first = ticket(&keys, None);
        NOW.set(1_003_599);
        let second = ticket(&keys, None);
        assert_eq!(first[..NAME_SIZE], second[..NAME_SIZE]);
        NOW.set(1_003_600);
        let third = ticket(&keys, None);
        assert_ne!(first[..NAME_SIZE], third[..NAME_SIZE]);
        assert!(opened(&keys, &second).is_some() && opened(&keys, &third).is_some());
        NOW.set(2_000_000);
        ticket(&keys, None);
        let TicketKeyRing::Own(own) = &keys.keys else { unreachable!("none was given") };
        assert!(own.lock().expect("not poisoned").previous.is_none(), "wiped after a pause");
    }

    #[test]
    fn any_changed_byte_and_any_other_length_is_no_ticket() {
        let keys = keys(&[1]);
        let good = ticket(&keys, None);
        for i in 0..good.len() {
            let mut changed = good.clone();
            changed[i] ^= 1;
            assert_eq!(opened(&keys, &changed), None, "byte {i}");
        }
        for size in 0..good.len() {
            assert_eq!(opened(&keys, &good[..size]), None, "{size} bytes");
        }
        assert_eq!(opened(&keys, &[&good[..], &[0]].concat()), None);
        assert_eq!(keys.open(&good, &mut [0; 6]), None, "no room");
        assert_eq!(keys.seal(None, None, b"session", &mut [0; 6 + OVERHEAD]), None, "no room");
    }

    #[test]
    fn nothing_prints_a_secret() {
        assert_eq!(format!("{:?}", keys(&[1])), "TicketKeys(…)");
    }
}
