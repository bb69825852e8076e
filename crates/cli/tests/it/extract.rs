//! `store extract`: a folder with the keys of some apps, which every command takes in the place of the original.

use std::os::unix::fs::PermissionsExt;

use crate::common::TestFolder;
use serde_json::Value;

/// Two apps; `acme` has three key versions, of which the second is disabled.
fn folder() -> TestFolder {
    let folder = TestFolder::with_app();
    for arguments in [
        &["keys", "rotate", "acme"][..],
        &["keys", "rotate", "acme"],
        &["keys", "disable", "acme", "--version", "2"],
        &["keys", "create", "other"],
    ] {
        folder.run(arguments).ok();
    }
    folder.write("payment.json", r#"{"card": "4111111111111111"}"#);
    folder
}

fn seal(folder: &TestFolder, app: &str, to: &str) {
    let sealed = folder.run(&["encrypt", "--app", app, "--select", "$.card", "payment.json"]).ok();
    folder.write(to, sealed);
}

#[test]
fn an_extract_decrypts_values_of_its_app_alone() {
    let folder = folder();
    seal(&folder, "acme", "sealed.json");
    seal(&folder, "other", "foreign.json");
    let printed =
        folder.run(&["store", "extract", "acme", "--to", "out/extract", "--root-key-file", "keys/root.key"]).text();
    assert!(printed.contains("apps 1, key versions 3 (without private keys, because disabled: 1)"), "{printed}");
    assert!(printed.contains("keys/root.key (created)"), "{printed}");
    let with = |arguments: &[&str]| {
        let key = folder.path("keys/root.key");
        let key = format!("keystore.root_key_file={}", key.display());
        folder.run(&[&["--dir", "out/extract", "--set", &key], arguments].concat())
    };
    let text = with(&["decrypt", "--app", "acme", "sealed.json"]).text();
    assert!(text.contains("4111111111111111"), "{text}");
    with(&["decrypt", "--app", "acme", "foreign.json"]).fails(1);
    with(&["decrypt", "--app", "other", "foreign.json"]).fails(1);
    assert!(with(&["store", "check"]).text().contains("apps 1, key versions 3, clients 0"));
    let refused = with(&["keys", "enable", "acme", "--version", "2"]).fails(3);
    assert!(refused.contains("enable it in the original and extract again"), "{refused}");
    assert!(!refused.contains("backup"), "{refused}");
    // Values of the extract are values of the original.
    let sealed = with(&["encrypt", "--app", "acme", "--select", "$.card", "payment.json"]).ok();
    folder.write("back.json", sealed);
    assert!(folder.run(&["decrypt", "--app", "acme", "back.json"]).text().contains("4111111111111111"));
}

#[test]
fn the_next_extract_has_the_same_root_key_and_the_new_version() {
    let folder = folder();
    folder.run(&["store", "extract", "acme", "--to", "first"]).ok();
    folder.run(&["keys", "rotate", "acme"]).ok();
    seal(&folder, "acme", "sealed.json");
    folder.run(&["--dir", "first", "decrypt", "--app", "acme", "sealed.json"]).fails(1);
    let again = ["store", "extract", "acme", "acme", "--to", "second", "--root-key-file", "first/root.key", "--json"];
    let facts: Value = serde_json::from_slice(&folder.run(&again).ok()).expect("JSON");
    let expected = serde_json::json!({
        "apps": 1, "key_versions": 4, "left_out": 1,
        "keystore": "second/keystore.db", "root_key": "first/root.key", "root_key_created": false,
    });
    assert_eq!(facts, expected);
    std::fs::rename(folder.path("second/keystore.db"), folder.path("first/keystore.db")).expect("replaced");
    assert!(folder.run(&["--dir", "first", "decrypt", "--app", "acme", "sealed.json"]).text().contains("4111"));
}

#[test]
fn a_refused_extract_leaves_nothing() {
    let folder = folder();
    folder.run(&["keys", "disable", "other"]).ok();
    let unknown = folder.run(&["store", "extract", "acme", "nobody", "--to", "out"]).fails(1);
    assert!(unknown.contains("no app nobody"), "{unknown}");
    let disabled = folder.run(&["store", "extract", "other", "--to", "out"]).fails(1);
    assert!(disabled.contains("app other is disabled"), "{disabled}");
    assert!(!folder.path("out/root.key").exists() && !folder.path("out/keystore.db").exists());
    let over = folder.run(&["store", "extract", "acme", "--to", ".leafseal", "--root-key-file", "other.key"]).fails(1);
    assert!(over.contains("has a keystore already"), "{over}");
    assert!(!folder.path("other.key").exists());
    folder.run(&["store", "extract", "--to", "out"]).fails(2);
    // A folder that others may write to: no root key is made for it.
    std::fs::create_dir(folder.path("open")).expect("made");
    std::fs::set_permissions(folder.path("open"), std::fs::Permissions::from_mode(0o777)).expect("set");
    assert!(folder.run(&["store", "extract", "acme", "--to", "open"]).fails(2).contains("lets others"));
    assert!(!folder.path("open/root.key").exists());
    let no_key = ["store", "extract", "acme", "--to", "out", "--root-key-file", "payment.json"];
    std::fs::set_permissions(folder.path("payment.json"), std::fs::Permissions::from_mode(0o600)).expect("set");
    assert!(folder.run(&no_key).fails(3).contains("payment.json: not a root key"));
    // The root key of the original is never that of an extract, even where the file is named.
    let same = ["store", "extract", "acme", "--to", "out", "--root-key-file", ".leafseal/root.key"];
    assert!(folder.run(&same).fails(2).contains("must not be that of the original"));
}
