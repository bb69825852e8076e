//! The caller's credentials in the headers of a request: an API key in `Authorization: Basic` or `Api-Key`, or a client-side token.

use boring::base64;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName};
use zeroize::Zeroizing;

pub(crate) const API_KEY: HeaderName = HeaderName::from_static("api-key");

/// Maximum length of credentials in bytes, more than any key or token has.
const CREDENTIALS_SIZE_MAX: usize = 8192;

/// The credentials of a request.
pub(crate) enum Credentials {
    /// An API key, and the app that the request names with it, if any.
    ApiKey { app: Option<String>, key: Zeroizing<String> },
    /// A client-side token.
    Token(String),
}

/// Why a request has no usable credentials; reported to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoCredentials {
    Missing,
    /// More than one kind, or one kind twice, which is ambiguous.
    Several,
    Unreadable,
}

impl NoCredentials {
    pub(crate) fn detail(self) -> &'static str {
        match self {
            NoCredentials::Missing => {
                "show an API key: `Authorization: Basic` with app and key, or `Api-Key`; to decrypt also `Authorization: Token`"
            }
            NoCredentials::Several => "show credentials once, either in `Authorization` or in `Api-Key`",
            NoCredentials::Unreadable => {
                "the credentials cannot be read: `Authorization` is `Basic` with app:key in base64, or `Token` with a token"
            }
        }
    }
}

impl Credentials {
    /// Reads the credentials from the headers.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Credentials, NoCredentials> {
        let mut presented = headers.get_all(AUTHORIZATION).iter().map(|value| (true, value));
        let mut keys = headers.get_all(API_KEY).iter().map(|value| (false, value));
        let (is_authorization, value) = presented.next().or_else(|| keys.next()).ok_or(NoCredentials::Missing)?;
        if presented.next().is_some() || keys.next().is_some() {
            return Err(NoCredentials::Several);
        }
        let text = std::str::from_utf8(value.as_bytes()).map_err(|_| NoCredentials::Unreadable)?;
        if text.len() > CREDENTIALS_SIZE_MAX {
            return Err(NoCredentials::Unreadable);
        }
        if is_authorization {
            return read_authorization(text).ok_or(NoCredentials::Unreadable);
        }
        Ok(Credentials::ApiKey { app: None, key: Zeroizing::new(text.to_owned()) })
    }
}

/// Schemes are case-insensitive (RFC 9110, section 11.1).
fn read_authorization(text: &str) -> Option<Credentials> {
    let (scheme, rest) = text.split_once(' ')?;
    let rest = rest.trim_matches(' ');
    if scheme.eq_ignore_ascii_case("token") {
        return (!rest.is_empty()).then(|| Credentials::Token(rest.to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = Zeroizing::new(base64::decode_block(rest).ok()?);
    let text = std::str::from_utf8(&decoded).ok()?;
    let (app, key) = text.split_once(':')?;
    Some(Credentials::ApiKey { app: Some(app.to_owned()), key: Zeroizing::new(key.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    fn read(headers: &[(&str, &str)]) -> Result<String, NoCredentials> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            map.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        Credentials::read(&map).map(|credentials| match credentials {
            Credentials::ApiKey { app, key } => format!("{}|{}", app.unwrap_or_default(), *key),
            Credentials::Token(token) => token,
        })
    }

    #[test]
    fn each_kind_is_read_and_two_are_refused() {
        let basic = format!("Basic {}", base64::encode_block(b"app_1:lsk_x:y"));
        assert_eq!(read(&[("authorization", &basic)]).as_deref(), Ok("app_1|lsk_x:y"));
        assert_eq!(read(&[("authorization", &basic.replace("Basic", "bASIC "))]).as_deref(), Ok("app_1|lsk_x:y"));
        assert_eq!(read(&[("api-key", "lsk_z")]).as_deref(), Ok("|lsk_z"));
        assert_eq!(read(&[("Authorization", "Token fst_1")]).as_deref(), Ok("fst_1"));
        assert_eq!(read(&[]), Err(NoCredentials::Missing));
        let both = [("api-key", "lsk_z"), ("authorization", basic.as_str())];
        assert_eq!(read(&both), Err(NoCredentials::Several));
        assert_eq!(read(&[("api-key", "a"), ("api-key", "a")]), Err(NoCredentials::Several));
    }

    /// Random changes of bytes neither panic nor yield credentials other than those that base64 decodes to.
    #[test]
    fn any_input_is_parsed_or_refused() {
        let mut rng = StdRng::seed_from_u64(17);
        let basic = format!("Basic {}", base64::encode_block(b"app_1:lsk_00ff00ff00ff00ff_0123456789abcdef"));
        for _ in 0..20_000 {
            let mut bytes = [basic.as_bytes(), b"Token fst_01ff"][rng.random_range(0..2)].to_vec();
            for _ in 0..rng.random_range(0..4) {
                let place = rng.random_range(0..bytes.len());
                bytes[place] = rng.random_range(0x20..=0xff);
            }
            bytes.truncate(rng.random_range(0..=bytes.len()));
            let Ok(value) = HeaderValue::from_bytes(&bytes) else { continue };
            let mut map = HeaderMap::new();
            map.insert(AUTHORIZATION, value);
            if let Ok(Credentials::ApiKey { app, key }) = Credentials::read(&map) {
                let presented = format!("{}:{}", app.expect("Basic names an app"), *key);
                let text = std::str::from_utf8(&bytes).expect("it was read");
                let encoded = text.split_once(' ').expect("a scheme").1.trim_matches(' ');
                assert_eq!(base64::decode_block(encoded).expect("it was read"), presented.as_bytes());
            }
        }
    }

    #[test]
    fn unreadable_input_is_refused() {
        let no_colon = format!("Basic {}", base64::encode_block(b"app"));
        let no_text = format!("Basic {}", base64::encode_block(b"\xff:\xff"));
        let long = format!("Token {}", "x".repeat(CREDENTIALS_SIZE_MAX));
        for wrong in ["Basic", "Basic ", "Token ", "Basic !!!", "Bearer abc", "lsk_x", &no_colon, &no_text, &long] {
            assert_eq!(read(&[("authorization", wrong)]), Err(NoCredentials::Unreadable), "{wrong}");
        }
    }
}
