//! The owner of an API key, as the engine reports it; cached briefly.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use boring::base64;
use boring::sha::sha256;
use hyper::header::{HeaderMap, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION};
use hyper::{Response, StatusCode};
use leafseal_client::{ApiKeyFacts, Client, ErrorCode, ErrorKind};
use leafseal_errors::Operation;
use leafseal_http::ResponseBody;
use leafseal_net::{FairPlaces, client_of};
use zeroize::Zeroizing;

use crate::config::Limits;
use crate::policy::{Action, Actions, Rule};
use crate::refusal::{Direction, Refusal};

/// Maximum length in bytes of an API key that is sent to the engine.
const KEY_SIZE_MAX: usize = 256;
/// Maximum length in bytes of the field that holds it.
const CREDENTIALS_SIZE_MAX: usize = 1024;
/// The schemes of keys, for clients that wait for them. `Basic` comes first, because some read only one challenge.
const CHALLENGES: [HeaderValue; 2] = [
    HeaderValue::from_static("Basic realm=\"leafseal\", charset=\"UTF-8\""),
    HeaderValue::from_static("Bearer realm=\"leafseal\""),
];

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
        let presented = value.to_str().ok().filter(|text| text.len() <= CREDENTIALS_SIZE_MAX);
        match (presented.and_then(read_credentials), values.next()) {
            (Some(key), None) if (1..=KEY_SIZE_MAX).contains(&key.len()) => Ok(Some(Key(Arc::new(key)))),
            _ => Err(not_good()),
        }
    }
}

/// The key in a field's value: `Bearer KEY`, `Basic` with the key as the password, or without one as the user name, or the key alone, as
/// SDKs send it. Schemes are case-insensitive (RFC 9110, section 11.1).
fn read_credentials(text: &str) -> Option<Zeroizing<String>> {
    let Some((scheme, rest)) = text.split_once(' ') else { return Some(Zeroizing::new(text.to_owned())) };
    let rest = rest.trim_matches(' ');
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Zeroizing::new(rest.to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = Zeroizing::new(base64::decode_block(rest).ok()?);
    let (user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some(Zeroizing::new(if password.is_empty() { user } else { password }.to_owned()))
}

/// The cache of API keys. One per thread.
#[derive(Default)]
pub(crate) struct ApiKeyCache {
    keys: Mutex<Known>,
    /// Places of keys that are verified and not in the cache, not even with an old answer.
    verified: Arc<FairPlaces>,
}

impl ApiKeyCache {
    /// Returns the owner of the key, which a client at `address` has sent, as the engine reported it within the last
    /// `limits.api_key_timeout`.
    ///
    /// # Errors
    /// If the key is unknown or revoked, if too many keys are being verified, or the engine does not answer.
    pub(crate) async fn owner(
        &self,
        key: &Key,
        address: IpAddr,
        client: &Client,
        limits: &Limits,
    ) -> Result<Arc<ApiKeyFacts>, Refusal> {
        let (holds_for, keys_max) = (limits.api_key_timeout, limits.api_keys_max);
        let hash = sha256(key.0.as_bytes());
        let known = self.lock().get(&hash).map(|(since, facts)| (since.elapsed() < holds_for, Arc::clone(facts)));
        let is_known = match known {
            Some((true, facts)) => return Ok(facts),
            old => old.is_some(),
        };
        let name = client_of(address).to_string();
        let verified = client.authenticate_for(&key.0, Some(&name));
        let verified = match is_known {
            true => verified.await,
            false => self.in_place(address, limits.api_key_lookups_max, verified).await?,
        };
        match verified {
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
            Err(error) if error.kind == ErrorKind::Engine(ErrorCode::Forbidden) => {
                self.lock().remove(&hash);
                Err(not_good())
            }
            Err(error) => Err(Refusal::of_engine(Direction::Request, &error)),
        }
    }

    /// Verifies a key that is not known, in one of the places for these.
    async fn in_place<T>(&self, address: IpAddr, max: usize, verified: impl Future<Output = T>) -> Result<T, Refusal> {
        let full = || Refusal::unavailable(ErrorCode::RelayOverloaded, "too many API keys are being verified", None);
        let place = self.verified.take(address, max).ok_or_else(full)?;
        tokio::select! {
            verified = verified => Ok(verified),
            () = place.displaced() => Err(full()),
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
    // A proxy asks for credentials with a status of its own (RFC 9110, section 15.5.8).
    Refusal { status: StatusCode::PROXY_AUTHENTICATION_REQUIRED, ..Refusal::new(ErrorCode::Unauthorized, detail) }
}

/// Adds the schemes of keys to an answer with status 407, which must name them (RFC 9110, section 15.5.8).
pub(crate) fn challenge(response: &mut Response<ResponseBody>) {
    if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        for challenge in CHALLENGES {
            response.headers_mut().append(PROXY_AUTHENTICATE, challenge);
        }
    }
}

/// Whether the key permits these operations, and shows nothing but what it may read.
pub(crate) fn check(
    key: &ApiKeyFacts,
    operations: &[Operation],
    request: &Actions,
    response: &Actions,
) -> Result<(), Refusal> {
    let permits = |needed: &&Operation| key.operations.iter().any(|operation| operation == needed.as_str());
    if let Some(lacking) = operations.iter().find(|needed| !permits(needed)) {
        let detail = format!("the API key must allow {}, which this destination's rules do", lacking.as_str());
        return Err(Refusal::new(ErrorCode::Forbidden, detail));
    }
    let Some(roles) = &key.roles else { return Ok(()) };
    let may_show = |rule: &Rule| match &rule.role {
        Some(role) => roles.iter().any(|it| **it == **role),
        // The engine enforces the key's roles on decryption, but not on what `skip_sealed` leaves.
        None => !rule.probes(),
    };
    let mut rules = request.rules.iter().chain(&response.rules).filter(|rule| rule.action != Action::Redact);
    if !rules.all(may_show) {
        let detail = "the API key's data roles do not include the one that this destination's rule names";
        return Err(Refusal::new(ErrorCode::Forbidden, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Result<Option<String>, StatusCode> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PROXY_AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        Key::from_headers(&headers).map(|key| key.map(|key| key.0.to_string())).map_err(|refusal| refusal.status)
    }

    #[test]
    fn a_key_is_read_in_each_scheme() {
        let basic = |scheme: &str, text: &str| format!("{scheme} {}", base64::encode_block(text.as_bytes()));
        assert_eq!(read(&[]), Ok(None));
        for value in [
            "lsk_1".to_owned(),
            "Bearer lsk_1".to_owned(),
            "bearer  lsk_1 ".trim_end().to_owned(),
            basic("Basic", "acme:lsk_1"),
            basic("BASIC", ":lsk_1"),
            basic("basic", "lsk_1:"),
        ] {
            assert_eq!(read(&[&value]), Ok(Some("lsk_1".to_owned())), "{value}");
        }
        assert_eq!(read(&[&basic("Basic", "a:b:c")]), Ok(Some("b:c".to_owned())), "only the first colon separates");
    }

    #[test]
    fn what_holds_no_key_is_refused() {
        let refused = Err(StatusCode::PROXY_AUTHENTICATION_REQUIRED);
        let (long, longer) = ("a".repeat(257), format!("Basic {}", "YTph".repeat(400)));
        for value in
            ["", "Basic ", "Bearer ", "Digest a", "Basic %", "Basic lsk_1", "Basic Og==", "a b", &long, &longer]
        {
            assert_eq!(read(&[value]), refused, "{value}");
        }
        assert_eq!(read(&["lsk_1", "lsk_1"]), refused, "two keys");
    }

    /// A client that sends keys which take long to verify keeps no other out.
    #[tokio::test]
    async fn clients_share_the_places_for_keys_that_are_not_known() {
        let cache = Arc::new(ApiKeyCache::default());
        let verify = |number: u8, is_slow: bool| {
            let cache = Arc::clone(&cache);
            tokio::spawn(async move {
                let address = IpAddr::from([192, 0, 2, number]);
                let verified = async {
                    if is_slow {
                        std::future::pending().await
                    }
                };
                cache.in_place(address, 4, verified).await.map_err(|refusal| refusal.code)
            })
        };
        let mut slow: Vec<_> = (0..4).map(|_| verify(1, true)).collect();
        assert_eq!(verify(1, false).await.unwrap(), Err(ErrorCode::RelayOverloaded));
        assert_eq!(verify(2, false).await.unwrap(), Ok(()));
        assert_eq!(slow.pop().unwrap().await.unwrap(), Err(ErrorCode::RelayOverloaded), "the newest");
        assert!(slow.iter().all(|task| !task.is_finished()));
        slow.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[test]
    fn only_an_answer_that_requires_a_key_names_the_schemes() {
        let challenges = |status| {
            let mut response = Response::new(leafseal_http::empty());
            *response.status_mut() = status;
            challenge(&mut response);
            let values = response.headers().get_all(PROXY_AUTHENTICATE).iter();
            values.map(|value| value.to_str().unwrap().split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(challenges(StatusCode::PROXY_AUTHENTICATION_REQUIRED), ["Basic", "Bearer"]);
        assert!(challenges(StatusCode::FORBIDDEN).is_empty());
    }
}
