//! The owner of an API key, as the engine reports it; cached briefly.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use boring::sha::sha256;
use hyper::StatusCode;
use hyper::header::{HeaderMap, PROXY_AUTHORIZATION};
use leafseal_client::{ApiKeyFacts, Client, ErrorCode, ErrorKind};
use zeroize::Zeroizing;

use crate::config::{Action, Actions};
use crate::refusal::{Direction, Refusal};

/// Maximum length in bytes of an API key that is sent to the engine.
const KEY_SIZE_MAX: usize = 256;

/// Cached facts about API keys, by the hash of the key, with the time of the lookup.
type Known = HashMap<[u8; 32], (Instant, Arc<ApiKeyFacts>)>;

/// The text of a client's API key, kept while its tunnel is open.
#[derive(Clone)]
pub(crate) struct Key(Arc<Zeroizing<String>>);

impl Key {
    /// Reads the key from the header; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be an API key.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Option<Key>, Refusal> {
        let mut values = headers.get_all(PROXY_AUTHORIZATION).iter();
        let Some(value) = values.next() else { return Ok(None) };
        match (value.to_str(), values.next()) {
            (Ok(key), None) if (1..=KEY_SIZE_MAX).contains(&key.len()) => {
                Ok(Some(Key(Arc::new(Zeroizing::new(key.to_owned())))))
            }
            _ => Err(not_good()),
        }
    }
}

/// The cache of API keys. One per thread.
#[derive(Default)]
pub(crate) struct ApiKeyCache {
    keys: Mutex<Known>,
}

impl ApiKeyCache {
    /// Returns the owner of the key, as the engine reported it within the last `holds_for`.
    ///
    /// # Errors
    /// If the key is unknown or revoked, or the engine does not answer.
    pub(crate) async fn owner(
        &self,
        key: &Key,
        client: &Client,
        holds_for: Duration,
        keys_max: usize,
    ) -> Result<Arc<ApiKeyFacts>, Refusal> {
        let hash = sha256(key.0.as_bytes());
        let known =
            self.lock().get(&hash).filter(|(since, _)| since.elapsed() < holds_for).map(|(_, it)| Arc::clone(it));
        if let Some(known) = known {
            return Ok(known);
        }
        match client.authenticate(&key.0).await {
            Ok(facts) => {
                let facts = Arc::new(facts);
                let mut keys = self.lock();
                keys.remove(&hash);
                if keys.len() >= keys_max {
                    keys.retain(|_, (since, _)| since.elapsed() < holds_for);
                }
                if keys.len() < keys_max {
                    keys.insert(hash, (Instant::now(), Arc::clone(&facts)));
                }
                Ok(facts)
            }
            Err(error) if error.kind == ErrorKind::Engine(ErrorCode::Forbidden) => Err(not_good()),
            Err(error) => Err(Refusal::of_engine(Direction::Request, &error)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.keys.lock().expect("nothing panics while this is locked")
    }
}

fn not_good() -> Refusal {
    unauthorized("the API key in Proxy-Authorization is not good")
}

/// The refusal for a missing or unknown key.
pub(crate) fn unauthorized(detail: &str) -> Refusal {
    Refusal::new(StatusCode::PROXY_AUTHENTICATION_REQUIRED, "unauthorized", detail)
}

/// Whether the key permits everything that the rules do.
pub(crate) fn check(key: &ApiKeyFacts, request: &Actions, response: &Actions) -> Result<(), Refusal> {
    for rule in request.rules.iter().chain(&response.rules) {
        let operation = match rule.action {
            Action::Encrypt => "encrypt",
            Action::Decrypt => "decrypt",
            Action::Redact => continue,
        };
        let may_show = match (&key.roles, &rule.role) {
            (None, _) => true,
            (Some(roles), Some(role)) => roles.iter().any(|it| **it == **role),
            // The engine enforces the key's roles on decryption.
            (Some(_), None) => true,
        };
        let forbidden = |detail: String| Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", detail));
        if !key.operations.iter().any(|it| it == operation) {
            return forbidden(format!("the API key must allow {operation}, which this destination's rules do"));
        }
        if !may_show {
            let detail = "the API key's data roles do not include the one that this destination's rule names";
            return forbidden(detail.to_owned());
        }
    }
    Ok(())
}
