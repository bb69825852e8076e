//! Options in the query of a URL. Unknown options are refused, not ignored.

use std::borrow::Cow;

use leafseal_protocol::{
    DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, InspectOptions, OptionInfo, OptionKind,
    OptionValue, OwnedOptions, Surface,
};
use leafseal_service::api::CallOptions;
use percent_encoding::percent_decode_str;

const SELECT: &str = "select";

/// The options that a call supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SupportedOptions {
    /// Encryption of a document: role, curve, keying, selectors, strictness, and whether encrypted values are skipped.
    Encryption,
    /// Encryption of a file: how it is sealed.
    FileEncryption,
    /// Decryption of a document: role, selectors, strictness, and the action for envelopes that fail to decrypt.
    Decryption,
    /// Decryption of a file: its context, and which files are opened.
    FileDecryption,
    /// Inspection of envelopes: only the context.
    Inspection,
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
    for pair in pairs {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decode(value).ok_or("the query is not percent-encoded UTF-8")?;
        if name == SELECT && supported.has_selectors() {
            options.select.push(value);
            continue;
        }
        let Some(option) = supported.options().find(|option| option.field.as_str() == name) else {
            return Err(format!("the query has an option that this call does not support: {}", supported.words()));
        };
        if !read_option(option, &value, &mut options.given)? {
            return Err("the query has an option twice".to_owned());
        }
    }
    Ok(options)
}

/// Returns whether the option was not set before.
fn read_option(option: &OptionInfo, value: &str, options: &mut OwnedOptions) -> Result<bool, String> {
    let name = option.field.as_str();
    let value = match option.kind {
        OptionKind::Text => OptionValue::Text(value),
        OptionKind::Flag => OptionValue::Flag(truth(name, value)?),
        OptionKind::Word(list) if list.has(value) => OptionValue::Text(value),
        OptionKind::Words(list) if list.has_set(value) => OptionValue::Text(value),
        OptionKind::Words(list) => {
            return Err(format!(
                "the option `{name}` must be {}, each at most once, separated by commas",
                list.joined("`", ", ", " or ")
            ));
        }
        OptionKind::Word(list) => {
            return Err(format!("the option `{name}` must be {}", list.joined("`", ", ", " or ")));
        }
        OptionKind::Number => {
            let number = value.parse().map_err(|_| format!("the option `{name}` must be a number"))?;
            OptionValue::Number(number)
        }
    };
    Ok(options.insert(option.field, value))
}

impl SupportedOptions {
    /// The options beside selectors.
    pub(super) fn options(self) -> impl Iterator<Item = &'static OptionInfo> {
        let options = match self {
            SupportedOptions::Encryption => EncryptOptions::OPTIONS,
            SupportedOptions::FileEncryption => EncryptFileOptions::OPTIONS,
            SupportedOptions::Decryption => DecryptOptions::OPTIONS,
            SupportedOptions::FileDecryption => DecryptFileOptions::OPTIONS,
            SupportedOptions::Inspection => InspectOptions::OPTIONS,
            SupportedOptions::Nothing | SupportedOptions::Anything => &[],
        };
        options.iter().filter(|option| option.surfaces.contains(&Surface::Api))
    }

    pub(super) fn has_selectors(self) -> bool {
        matches!(self, SupportedOptions::Encryption | SupportedOptions::Decryption)
    }

    fn words(self) -> String {
        let names = self.options().map(|option| option.field.as_str()).chain(self.has_selectors().then_some(SELECT));
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        match names.split_last() {
            None => "it supports none".to_owned(),
            Some((name, [])) => format!("it supports {name}"),
            Some((last, names)) => format!("it supports {} and {last}", names.join(", ")),
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
    use leafseal_protocol::{Curve, Keying, OnFailure};
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
        let given = |query| {
            let options = read(query).unwrap();
            format!("{:?}", EncryptOptions::of("acme", &options.given))
        };
        let all = EncryptOptions {
            role: Some("pci-1"),
            curve: Some(Curve::K1),
            keying: Some(Keying::Session),
            ..EncryptOptions::new("acme")
        };
        assert_eq!(given("role=pci%2D1&curve=k1&keying=session"), format!("{all:?}"));
        assert_eq!(read(""), Ok(CallOptions::default()));
        assert_eq!(read_options(None, SupportedOptions::Nothing), Ok(CallOptions::default()));
        let role = EncryptOptions { role: Some("a b"), ..EncryptOptions::new("acme") };
        assert_eq!(given("&role=a+b&"), format!("{role:?}"));
        let selected = read("select=%24.a&strict=true&select=$..b&skip_sealed=false").unwrap();
        assert_eq!(selected.select, ["$.a", "$..b"]);
        let expected = EncryptOptions { strict: true, ..EncryptOptions::new("acme") };
        assert_eq!(EncryptOptions::of("acme", &selected.given), expected);
        let opening = read_options(Some("on_failure=null&select=$.a"), SupportedOptions::Decryption).unwrap();
        assert_eq!(DecryptOptions::of("acme", &opening.given).on_failure, Some(OnFailure::Null));
        assert_eq!(opening.select.len(), 1);
        for wrong in ["strict=1", "strict", "strict=true&strict=true", "skip_sealed=", "on_failure=leave"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for wrong in ["on_failure=", "on_failure=drop", "skip_sealed=true", "key_id=a", "deadline_ms=1"] {
            assert!(read_options(Some(wrong), SupportedOptions::Decryption).is_err(), "{wrong}");
        }
        assert!(read_options(Some("select=$"), SupportedOptions::FileEncryption).is_err());
        for wrong in ["curve=p256", "keying=", "role=a&role=a", "roles=a", "role=%", "role=%g0", "role=%ff", "=", "x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let message = read_options(Some("curve=r1"), SupportedOptions::Decryption).unwrap_err();
        assert!(
            message.ends_with("`bind`, `accept`, `role`, `on_failure`, `other_case`, `strict` and `select`"),
            "{message}"
        );
        assert!(read_options(Some("role=a"), SupportedOptions::FileEncryption).unwrap_err().ends_with(" and `curve`"));
        assert_eq!(read_options(Some("context=%%%"), SupportedOptions::Anything), Ok(CallOptions::default()));
    }
}
