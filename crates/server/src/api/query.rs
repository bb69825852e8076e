//! Options in the query of a URL. One that is not known is refused: it must not be dropped in silence.

use fieldseal_engine::{Curve, Keying};

/// What a query may say of encryption and decryption.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) role: Option<String>,
    pub(crate) curve: Option<Curve>,
    pub(crate) keying: Option<Keying>,
}

/// Which of them a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Role, curve, keying.
    All,
    /// Curve alone.
    Curve,
    /// Role alone.
    Role,
    /// None of them.
    Nothing,
    /// Anything, which nobody reads: browsers tell here what they want the keys for.
    Anything,
}

impl Options {
    /// Reads `a=b&c=d`.
    ///
    /// # Errors
    /// A sentence that names the option, and never its value.
    pub(crate) fn read(query: Option<&str>, takes: Takes) -> Result<Options, String> {
        let mut options = Options::default();
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        if takes == Takes::Anything {
            return Ok(options);
        }
        for pair in pairs {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = name.as_bytes();
            let value = decode(value).ok_or("the query is not percent-encoded UTF-8")?;
            let is_double = match name {
                b"role" if matches!(takes, Takes::All | Takes::Role) => options.role.replace(value).is_some(),
                b"curve" if matches!(takes, Takes::All | Takes::Curve) => {
                    let curve = match value.as_str() {
                        "r1" => Curve::P256,
                        "k1" => Curve::Secp256k1,
                        _ => return Err("the option `curve` is `r1` or `k1`".to_owned()),
                    };
                    options.curve.replace(curve).is_some()
                }
                b"keying" if takes == Takes::All => {
                    let keying = match value.as_str() {
                        "field" => Keying::Field,
                        "request" => Keying::Request,
                        "session" => Keying::Session,
                        _ => return Err("the option `keying` is `field`, `request` or `session`".to_owned()),
                    };
                    options.keying.replace(keying).is_some()
                }
                _ => return Err(format!("the query has an option that this call does not take: {}", takes.words())),
            };
            if is_double {
                return Err("the query says an option twice".to_owned());
            }
        }
        Ok(options)
    }
}

impl Takes {
    fn words(self) -> &'static str {
        match self {
            Takes::All => "it takes `role`, `curve` and `keying`",
            Takes::Curve => "it takes `curve`",
            Takes::Role => "it takes `role`",
            Takes::Nothing | Takes::Anything => "it takes none",
        }
    }
}

/// Percent-decoding, with `+` for a space as forms have it.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'%' => {
                let (digits, after) = rest.split_first_chunk::<2>()?;
                rest = after;
                let half = |digit: u8| char::from(digit).to_digit(16);
                u8::try_from(half(digits[0])? << 4 | half(digits[1])?).ok()?
            }
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    /// What comes out of percent-decoding goes in again as the same text, whatever bytes it has.
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
            let _ = Options::read(Some(&format!("role={changed}&curve={changed}")), Takes::All);
        }
    }

    #[test]
    fn options_are_read_once_each() {
        let read = |query| Options::read(Some(query), Takes::All);
        let all =
            Options { role: Some("pci-1".to_owned()), curve: Some(Curve::Secp256k1), keying: Some(Keying::Session) };
        assert_eq!(read("role=pci%2D1&curve=k1&keying=session"), Ok(all));
        assert_eq!(read(""), Ok(Options::default()));
        assert_eq!(Options::read(None, Takes::Nothing), Ok(Options::default()));
        assert_eq!(read("&role=a+b&").unwrap().role.as_deref(), Some("a b"));
        for wrong in ["curve=p256", "keying=", "role=a&role=a", "roles=a", "role=%", "role=%g0", "role=%ff", "=", "x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(Options::read(Some("curve=r1"), Takes::Role).unwrap_err().ends_with("it takes `role`"));
        assert!(Options::read(Some("role=a"), Takes::Curve).is_err());
        assert_eq!(Options::read(Some("context=%%%"), Takes::Anything), Ok(Options::default()));
    }
}
