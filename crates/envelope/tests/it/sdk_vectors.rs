//! Everything that the real Node and Python SDKs wrote (`vectors/ev-sdk/`) decrypts to its input: both curves, with and without
//! role, every type, the cached keys of the quirk cases, files. `rt` is the SDK's own result: the Node SDK trims strings before it
//! encrypts them. Inputs of single values are in [`singles`], because the files do not repeat them.

use crate::common::{App, vectors};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leafseal_envelope::file::EncryptedFile;
use leafseal_envelope::fuzzing::open_file;
use serde_json::{Value as Json, json};

const FILE_CONTENT: &[u8] = b"file bytes \x00\x01";
const ROLE: &str = "pci-data";

/// The single values that both SDKs were given in every case.
fn singles() -> [(&'static str, Json); 4] {
    [("str", json!("plain")), ("num", json!(1.5)), ("bool", json!(true)), ("arr", json!([1, "a", true]))]
}

/// The plaintext of the quirk cases: their second call, under the key that the first one left.
const QUIRK_TEXT: &str = "b";

/// Opens every string of `sealed` and compares it with the value at the same place; gives how many there were.
fn check(app: &App, sealed: &Json, plain: &Json, role: Option<&str>, origin: u32) -> usize {
    match (sealed, plain) {
        (Json::Object(sealed), Json::Object(plain)) => {
            assert!(sealed.keys().eq(plain.keys()));
            sealed.iter().map(|(key, value)| check(app, value, &plain[key], role, origin)).sum()
        }
        (Json::Array(sealed), Json::Array(plain)) => {
            assert_eq!(sealed.len(), plain.len());
            sealed.iter().zip(plain).map(|(value, expected)| check(app, value, expected, role, origin)).sum()
        }
        (Json::Null, Json::Null) => 0,
        (Json::String(text), expected) => {
            let opened = app.open(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let (name, expected_text) = match expected {
                Json::String(string) => ("string", string.clone()),
                Json::Bool(boolean) => ("boolean", boolean.to_string()),
                number => ("number", number.to_string()),
            };
            assert_eq!(opened.value_type.name(), name, "{text}");
            assert_eq!(opened.text, expected_text, "{text}");
            assert_eq!(opened.role.as_deref(), role, "{text}");
            if role.is_some() {
                assert_eq!(opened.origin, Some(origin), "{text}");
                assert!(opened.encrypted_at.is_some_and(|time| time > 1_600_000_000), "{text}");
            }
            1
        }
        other => panic!("not the same shape: {other:?}"),
    }
}

fn check_sdk(name: &str, origin: u32) {
    let app = App::of_the_vectors();
    let json = vectors(name);
    let (mut values, mut files) = (0, 0);
    for (case, out) in json["out"].as_object().expect("cases") {
        if case.starts_with("quirk") {
            // The role is that of the second call.
            let role = case.ends_with(&format!("then-{ROLE}")).then_some(ROLE);
            values += check(&app, &out["str"], &json!(QUIRK_TEXT), role, origin);
            continue;
        }
        let role = case.ends_with(&format!("/{ROLE}")).then_some(ROLE);
        values += check(&app, &out["obj"], &out["rt"], role, origin);
        if let Some(file) = out["file"].as_str() {
            let bytes = STANDARD.decode(file).expect("base64");
            let Ok(EncryptedFile::PublicKey(file)) = EncryptedFile::parse(&bytes) else { panic!("an encrypted file") };
            let key = app.opening_key(&file.ephemeral_key().expect("a point"));
            assert_eq!(open_file(&bytes, &key, 10).expect("opens"), FILE_CONTENT);
            files += 1;
        }
        for (single, expected) in singles() {
            values += check(&app, &out[single], &expected, role, origin);
        }
    }
    // Four cases of 12 in `obj` and 6 single values, four quirks; a file on each curve.
    assert_eq!((values, files), (4 * (12 + 6) + 4, 2));
}

/// Rules 6, 7, 8, 10 and 12.
#[test]
fn node_sdk() {
    check_sdk("node", 5);
}

/// Rules 6, 7, 8, 10 and 12.
#[test]
fn python_sdk() {
    check_sdk("py", 7);
}
