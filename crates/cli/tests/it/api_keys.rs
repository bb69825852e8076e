//! `leafseal api-keys` from a user's point of view: a key is printed once, listed without its secret, and revoked by its id.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn leafseal(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leafseal"));
    command.arg("--dir").arg(folder).args(arguments).output().expect("it runs")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn a_key_is_shown_once_listed_by_its_id_and_revoked() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    text(&leafseal(&store, &["keys", "create", "acme"]));
    let create = ["api-keys", "create", "acme", "--allow", "decrypt,client-side-tokens", "--role", "pci", "--json"];
    let made: Value = serde_json::from_str(&text(&leafseal(&store, &create))).expect("JSON");
    let (id, key) = (made["id"].as_str().expect("an id"), made["key"].as_str().expect("a key"));
    let secret = key.strip_prefix(&format!("lsk_{id}_")).expect("the id is in the key");
    assert_eq!(secret.len(), 64);
    let plain = text(&leafseal(&store, &["api-keys", "create", "acme", "--allow", "encrypt"]));
    assert!(plain.starts_with("lsk_") && plain.len() == 86, "the key alone, for scripts");
    let listed = text(&leafseal(&store, &["api-keys", "list", "--json"]));
    assert!(!listed.contains(secret));
    let keys: Vec<Value> = serde_json::from_str(&listed).expect("JSON");
    let found = keys.iter().find(|found| found["id"] == id).expect("listed");
    assert_eq!(found["allow"], serde_json::json!(["decrypt", "client-side-tokens"]));
    assert_eq!((&found["roles"], &found["revoked_at"]), (&serde_json::json!(["pci"]), &Value::Null));
    // The whole key instead of its id is accepted, and not printed.
    let revoked = text(&leafseal(&store, &["api-keys", "revoke", key]));
    assert!(revoked.starts_with(&format!("revoked {id}")) && !revoked.contains(secret));
    assert!(text(&leafseal(&store, &["api-keys", "list"])).contains("  revoked 20"));
}

#[test]
fn invalid_key_material_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    text(&leafseal(&store, &["keys", "create", "acme"]));
    let cases: &[&[&str]] = &[
        &["api-keys", "create", "acme"],
        &["api-keys", "create", "acme", "--allow", "everything"],
        &["api-keys", "create", "acme", "--allow", "decrypt", "--role", "No Role"],
        &["api-keys", "create", "other", "--allow", "decrypt"],
        &["api-keys", "revoke", "0123456789abcdef"],
        &["api-keys", "revoke", "0123"],
    ];
    for case in cases {
        assert!(!leafseal(&store, case).status.success(), "{case:?}");
    }
    assert_eq!(text(&leafseal(&store, &["api-keys", "list"])), "");
}
