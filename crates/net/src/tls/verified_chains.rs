//! Remembers which client certificates were verified, so that a client that connects often is verified once: the signatures in its chain,
//! not its own in the handshake, which every handshake needs.
//!
//! Bounded in number and time, and never beyond the validity of a certificate in the chain. Only chains that were accepted are kept, by
//! their SHA-256, so that only holders of a certificate from a trusted authority can fill it. It belongs to one context: other authorities
//! make another one.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use boring::hash::MessageDigest;
use boring::sha::Sha256;
use boring::ssl::SslContextBuilder;
use boring::x509::X509StoreContextRef;
use leafseal_config::{mins, ms, settings};
use leafseal_crypto::chain::{record_chain_expiries, record_verified, verify_chain};
use lru::LruCache;

type Fingerprint = [u8; 32];

settings! {
    /// Bounds of the verified chains that a listener remembers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct VerifiedChains {
        /// Maximum number of client certificates that the engine remembers as verified, so that the signatures of their authorities are
        /// checked once; 0 disables it.
        pub count_max: usize = 1024, in 0..=1 << 20, as "max";
        /// How long a client certificate counts as verified; never longer than it is valid, nor when `server.client_authorities` changes.
        pub age_max: Duration = mins(60), in ms(0).., as "age";
    }
}

impl VerifiedChains {
    /// Lets the context remember the chains that it verifies, and its connections keep when theirs expire.
    pub(super) fn apply(self, context: &mut SslContextBuilder) {
        if self.count_max == 0 || self.age_max.is_zero() {
            return record_chain_expiries(context);
        }
        let cache = Cache { bounds: self, chains: Mutex::new(LruCache::unbounded()) };
        context.set_cert_verify_callback(move |verification| {
            let now = Moment::now();
            let fingerprint = fingerprint(verification);
            if let Some(last_second) = fingerprint.and_then(|fingerprint| cache.find(&fingerprint, now)) {
                verification.set_error(Ok(()));
                record_verified(verification, last_second);
                return true;
            }
            let Some(last_second) = verify_chain(verification) else { return false };
            record_verified(verification, last_second);
            if let Some(fingerprint) = fingerprint {
                cache.insert(fingerprint, last_second, now);
            }
            true
        });
    }
}

/// Of all certificates that the client sent, the first of which is its own.
fn fingerprint(verification: &X509StoreContextRef) -> Option<Fingerprint> {
    let mut hash = Sha256::new();
    hash.update(&verification.cert()?.digest(MessageDigest::sha256()).ok()?);
    for certificate in verification.untrusted()? {
        hash.update(&certificate.digest(MessageDigest::sha256()).ok()?);
    }
    Some(hash.finish())
}

/// A time by both clocks: certificates expire by the one, entries by the other.
#[derive(Clone, Copy)]
struct Moment {
    instant: Instant,
    unix: i64,
}

impl Moment {
    fn now() -> Self {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        Self { instant: Instant::now(), unix }
    }
}

struct VerifiedChain {
    verified: Instant,
    last_second: i64,
}

struct Cache {
    bounds: VerifiedChains,
    /// In the order in which they were verified: a look-up does not count as a use.
    chains: Mutex<LruCache<Fingerprint, VerifiedChain>>,
}

impl Cache {
    fn is_current(&self, entry: &VerifiedChain, now: Moment) -> bool {
        now.instant.saturating_duration_since(entry.verified) < self.bounds.age_max && now.unix <= entry.last_second
    }

    /// The last second of a chain that was verified.
    fn find(&self, fingerprint: &Fingerprint, now: Moment) -> Option<i64> {
        let chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = chains.peek(fingerprint).filter(|entry| self.is_current(entry, now))?;
        Some(entry.last_second)
    }

    fn insert(&self, fingerprint: Fingerprint, last_second: i64, now: Moment) {
        let mut chains = self.chains.lock().unwrap_or_else(PoisonError::into_inner);
        chains.put(fingerprint, VerifiedChain { verified: now.instant, last_second });
        if chains.len() > self.bounds.count_max {
            chains.pop_lru();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(count_max: usize) -> Cache {
        let bounds = VerifiedChains { count_max, age_max: Duration::from_secs(10) };
        Cache { bounds, chains: Mutex::new(LruCache::unbounded()) }
    }

    fn after(start: Moment, seconds: u64) -> Moment {
        Moment { instant: start.instant + Duration::from_secs(seconds), unix: start.unix + seconds as i64 }
    }

    #[test]
    fn a_chain_is_remembered_for_its_time_and_its_validity() {
        let (cache, start) = (cache(8), Moment { instant: Instant::now(), unix: 1000 });
        cache.insert([1; 32], 2000, start);
        cache.insert([2; 32], 1005, start);
        let known = |seconds| [1, 2, 3].map(|byte| cache.find(&[byte; 32], after(start, seconds)).is_some());
        assert_eq!(known(0), [true, true, false]);
        assert_eq!(known(5), [true, true, false]);
        assert_eq!(known(6), [true, false, false]);
        assert_eq!(known(10), [false, false, false]);
    }

    #[test]
    fn the_oldest_goes_first() {
        let (cache, start) = (cache(2), Moment { instant: Instant::now(), unix: 1000 });
        for (byte, seconds) in [(1, 0), (2, 1), (3, 2)] {
            cache.insert([byte; 32], 2000, after(start, seconds));
        }
        let known = [1, 2, 3].map(|byte| cache.find(&[byte; 32], after(start, 2)).is_some());
        assert_eq!((known, cache.chains.lock().expect("not poisoned").len()), ([false, true, true], 2));
        cache.insert([4; 32], 1002, after(start, 11));
        let found = [2, 3].map(|byte| cache.find(&[byte; 32], after(start, 11)));
        assert_eq!(found, [None, Some(2000)]);
    }
}
