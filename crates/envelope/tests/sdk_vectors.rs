//! Everything that the real Node and Python SDKs wrote (`vectors/ev-sdk/`) opens to what they were given: both curves, with and
//! without role, every type, the cached keys of the quirk cases, files. `rt` is what the SDK itself got back: the Node SDK trims strings
//! before it seals them.

mod common;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use common::{App, vectors};
use fieldseal_envelope::file::EncryptedFile;
use serde_json::Value as Json;

const FILE_CONTENT: &[u8] = b"file bytes \x00\x01";

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
        let role = case.ends_with("/pci-data").then_some("pci-data").filter(|_| !case.starts_with("quirk"));
        if case.starts_with("quirk") {
            // The key of a first call with other metadata; what was sealed is the same text throughout.
            let text = out["str"].as_str().expect("a string");
            let opened = app.open(text).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert!(!opened.text.is_empty(), "{case}");
            values += 1;
            continue;
        }
        values += check(&app, &out["obj"], &out["rt"], role, origin);
        if let Some(file) = out["file"].as_str() {
            let bytes = STANDARD.decode(file).expect("base64");
            let file = EncryptedFile::parse(&bytes).expect("an encrypted file");
            let key = app.opening_key(&file.ephemeral_key().expect("a point"));
            let mut content = b"before".to_vec();
            file.open(&key, &mut content).expect("opens");
            assert_eq!(content, [b"before", FILE_CONTENT].concat());
            files += 1;
        }
        for single in ["str", "num", "bool"] {
            app.open(out[single].as_str().expect("a string"))
                .unwrap_or_else(|error| panic!("{case} {single}: {error}"));
            values += 1;
        }
        for element in out["arr"].as_array().expect("an array") {
            app.open(element.as_str().expect("a string")).unwrap_or_else(|error| panic!("{case} arr: {error}"));
            values += 1;
        }
    }
    println!("{name}: {values} values, {files} files");
    assert!(values > 60 && files == 2, "{values} values, {files} files");
}

#[test]
fn node_sdk() {
    check_sdk("node", 5);
}

#[test]
fn python_sdk() {
    check_sdk("py", 7);
}
