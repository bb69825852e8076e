//! A running engine deletes and rotates keys when their time has come, and keeps apps in use from being deleted.

use crate::common::{TestFolder, finish, until, with};

fn list(test_folder: &TestFolder) -> String {
    test_folder.run(&["keys", "list"]).text()
}

#[test]
fn an_engine_deletes_and_rotates_what_is_due_and_records_uses() {
    let test_folder = TestFolder::with_app();
    for app in ["old", "kept"] {
        test_folder.run(&["keys", "create", app]).ok();
    }
    test_folder.run(&["keys", "rotate-after", "kept", "1s"]).ok();
    let engine = test_folder.engine(&["--set", "engine.store_upkeep_interval=100ms"]);
    let sealed = test_folder.run_with(&with(&["encrypt", "--app", "acme"], &engine.flags()), b"\"x\"").ok();
    test_folder.run_with(&with(&["decrypt", "--app", "acme"], &engine.flags()), &sealed).ok();
    until("the keys of an app are rotated", || list(&test_folder).contains("kept  version 3"));
    test_folder.run(&["keys", "rotate-after", "kept", "never"]).ok();
    until("the use of an app is recorded", || test_folder.run(&["keys", "list", "--json"]).text().contains("used_at"));
    let refused = test_folder.run(&["keys", "delete", "acme", "--confirm", "acme"]).fails(1);
    assert!(refused.contains("app acme was last seen in use"), "{refused}");
    test_folder.run(&["keys", "delete", "old", "--delay", "1s", "--confirm", "old"]).ok();
    until("an app is deleted", || !list(&test_folder).contains("old"));
    // Its envelopes, and grants of a later app of that name, are gone with it.
    test_folder.run(&["keys", "create", "old"]).ok();
    assert!(list(&test_folder).contains("old   version 1"), "{}", list(&test_folder));
    test_folder.run(&["store", "check"]).ok();
}

/// `keys export`, opened as a recipient would, with openssl for the agreement.
#[test]
fn an_export_needs_the_name_of_the_app_and_a_recipient_on_p256() {
    let test_folder = TestFolder::with_app();
    let curve = "ec_paramgen_curve:P-256";
    let made = finish(
        std::process::Command::new("openssl").current_dir(test_folder.0.path()).args([
            "genpkey",
            "-algorithm",
            "EC",
            "-pkeyopt",
            curve,
            "-out",
            "key.pem",
        ]),
        b"",
    );
    made.ok();
    let public = ["pkey", "-in", "key.pem", "-pubout", "-out", "public.pem"];
    finish(std::process::Command::new("openssl").current_dir(test_folder.0.path()).args(public), b"").ok();
    let export = ["keys", "export", "acme", "--recipient", "public.pem", "--confirm"];
    test_folder.run(&with(&export, &["other"])).fails(2);
    test_folder.run(&["keys", "export", "acme", "--recipient", "key.pem", "--confirm", "acme"]).fails(2);
    let exported = test_folder.run(&with(&export, &["acme"])).text();
    let exported: serde_json::Value = serde_json::from_str(&exported).expect("JSON");
    let keys = exported["keys"].as_array().expect("keys");
    assert_eq!(keys.iter().map(|key| key["version"].as_u64()).collect::<Vec<_>>(), [Some(1)]);
    assert!(keys.iter().all(|key| key["jwe"].as_str().is_some_and(|jwe| jwe.split('.').count() == 5)));
    assert!(!exported.to_string().contains("PRIVATE") && !exported.to_string().contains("root="));
}
