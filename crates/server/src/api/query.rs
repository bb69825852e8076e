//! Options in the query of a URL. Unknown options are refused, not ignored.

use std::borrow::Cow;

use leafseal_engine::{Curve, Keying, OnFailure};
use leafseal_service::api::CallOptions;
use percent_encoding::percent_decode_str;

/// The options that a call supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SupportedOptions {
    /// Encryption of a document: role, curve, keying, selectors, strictness, and whether encrypted values are skipped.
    Encryption,
    /// Only the curve.
    Curve,
    /// Decryption of a document: role, selectors, strictness, and the action for envelopes that fail to decrypt.
    Decryption,
    /// None of them.
    Nothing,
    /// Any option, ignored: browsers state the purpose of the keys here.
    Anything,
}

/// Parses `a=b&c=d`.
///
/// # Errors
/// A sentence that names the option, and never its value.
pub(super) fn read_options(query: Option<&str>, supported: SupportedOptions) -> Result<CallOptions, String> {
    let mut options = CallOptions::default();
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    if supported == SupportedOptions::Anything {
        return Ok(options);
    }
    let is_document = matches!(supported, SupportedOptions::Encryption | SupportedOptions::Decryption);
    for pair in pairs {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = name.as_bytes();
        let value = decode(value).ok_or("the query is not percent-encoded UTF-8")?;
        let is_double = match name {
            b"role" if matches!(supported, SupportedOptions::Encryption | SupportedOptions::Decryption) => {
                options.role.replace(value).is_some()
            }
            b"curve" if matches!(supported, SupportedOptions::Encryption | SupportedOptions::Curve) => {
                let curve = match value.as_str() {
                    "r1" => Curve::P256,
                    "k1" => Curve::Secp256k1,
                    _ => return Err("the option `curve` must be `r1` or `k1`".to_owned()),
                };
                options.curve.replace(curve).is_some()
            }
            b"keying" if supported == SupportedOptions::Encryption => {
                let keying = match value.as_str() {
                    "field" => Keying::Field,
                    "request" => Keying::Request,
                    "session" => Keying::Session,
                    _ => return Err("the option `keying` must be `field`, `request` or `session`".to_owned()),
                };
                options.keying.replace(keying).is_some()
            }
            b"select" if is_document => {
                options.select.push(value);
                false
            }
            b"strict" if is_document => options.strict.replace(truth("strict", &value)?).is_some(),
            b"skip_sealed" if supported == SupportedOptions::Encryption => {
                options.skip_sealed.replace(truth("skip_sealed", &value)?).is_some()
            }
            b"on_failure" if supported == SupportedOptions::Decryption => {
                let on_failure = match value.as_str() {
                    "fail" => OnFailure::Fail,
                    "leave" => OnFailure::Leave,
                    "null" => OnFailure::Null,
                    _ => return Err("the option `on_failure` must be `fail`, `leave` or `null`".to_owned()),
                };
                options.on_failure.replace(on_failure).is_some()
            }
            _ => {
                return Err(format!("the query has an option that this call does not support: {}", supported.words()));
            }
        };
        if is_double {
            return Err("the query has an option twice".to_owned());
        }
    }
    Ok(options)
}

impl SupportedOptions {
    fn words(self) -> &'static str {
        match self {
            SupportedOptions::Encryption => {
                "it supports `role`, `curve`, `keying`, `select`, `strict` and `skip_sealed`"
            }
            SupportedOptions::Curve => "it supports `curve`",
            SupportedOptions::Decryption => "it supports `role`, `select`, `strict` and `on_failure`",
            SupportedOptions::Nothing | SupportedOptions::Anything => "it supports none",
        }
    }
}

fn truth(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("the option `{name}` must be `true` or `false`")),
    }
}

/// Decodes a value, with `+` for a space as in forms. Returns `None` if it is not UTF-8, or if a `%` is not followed by two digits: the
/// library would keep that `%`, and other parsers of the same query drop it.
fn decode(text: &str) -> Option<String> {
    let is_escape =
        |rest: &str| rest.as_bytes().first_chunk::<2>().is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit));
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    /// Percent-decoded text encodes to the same text, whatever its bytes.
    #[test]
    fn percent_encoding_is_undone_exactly() {
        let mut rng = StdRng::seed_from_u64(17);
        for _ in 0..20_000 {
            let text: String = (0..rng.random_range(0..12)).map(|_| rng.random::<char>()).collect();
            let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
            assert_eq!(decode(&encoded).as_deref(), Some(text.as_str()));
            let mut bytes = encoded.into_bytes();
            if !bytes.is_empty() {
                let place = rng.random_range(0..bytes.len());
                bytes[place] = rng.random_range(0x20..0x7f);
            }
            let changed = String::from_utf8(bytes).expect("ASCII");
            let _ = read_options(Some(&format!("role={changed}&curve={changed}")), SupportedOptions::Encryption);
        }
    }

    #[test]
    fn options_are_read_once_each() {
        let read = |query| read_options(Some(query), SupportedOptions::Encryption);
        let (curve, keying) = (Some(Curve::Secp256k1), Some(Keying::Session));
        let all = CallOptions { role: Some("pci-1".to_owned()), curve, keying, ..CallOptions::default() };
        assert_eq!(read("role=pci%2D1&curve=k1&keying=session"), Ok(all));
        assert_eq!(read(""), Ok(CallOptions::default()));
        assert_eq!(read_options(None, SupportedOptions::Nothing), Ok(CallOptions::default()));
        assert_eq!(read("&role=a+b&").unwrap().role.as_deref(), Some("a b"));
        let selected = read("select=%24.a&strict=true&select=$..b&skip_sealed=false").unwrap();
        assert_eq!(selected.select, ["$.a", "$..b"]);
        assert_eq!((selected.strict, selected.skip_sealed), (Some(true), Some(false)));
        let opening = read_options(Some("on_failure=null&select=$.a"), SupportedOptions::Decryption).unwrap();
        assert_eq!((opening.on_failure, opening.select.len()), (Some(OnFailure::Null), 1));
        for wrong in ["strict=1", "strict", "strict=true&strict=true", "skip_sealed=", "on_failure=leave"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for wrong in ["on_failure=", "on_failure=drop", "skip_sealed=true"] {
            assert!(read_options(Some(wrong), SupportedOptions::Decryption).is_err(), "{wrong}");
        }
        assert!(read_options(Some("select=$"), SupportedOptions::Curve).is_err());
        for wrong in ["curve=p256", "keying=", "role=a&role=a", "roles=a", "role=%", "role=%g0", "role=%ff", "=", "x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(
            read_options(Some("curve=r1"), SupportedOptions::Decryption).unwrap_err().contains("it supports `role`, ")
        );
        assert!(read_options(Some("role=a"), SupportedOptions::Curve).is_err());
        assert_eq!(read_options(Some("context=%%%"), SupportedOptions::Anything), Ok(CallOptions::default()));
    }
}
