//! A keystore that was put back to an older copy, under a running engine and across a restart.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{Running, TestFolder, until};

const SERVE: [&str; 8] = [
    "serve",
    "--json",
    "--address",
    "127.0.0.1:0",
    "--set",
    "operator.address=127.0.0.1:0",
    "--set",
    "log.format=json",
];

fn serve(folder: &TestFolder) -> Running {
    Running::start(folder.command(&SERVE).stderr(Stdio::null()))
}

#[test]
fn a_keystore_that_was_put_back_is_refused_until_its_generation_is_confirmed() {
    let folder = TestFolder::new();
    let run = |arguments: &[&str]| folder.run(arguments);
    let (keystore, backup) = (folder.path(".leafseal/keystore.db"), folder.path(".leafseal/backup.db"));
    run(&["keys", "create", "acme"]).ok();
    run(&["certs", "init"]).ok();
    for client in ["shop", "thief"] {
        run(&["certs", "issue", client, "--app", "acme", "--allow", "encrypt"]).ok();
    }
    folder.write("payment.json", r#"{"card": "4111111111111111"}"#);
    let engine = serve(&folder);
    let encrypt = |engine: &Running, client: &str| {
        let flags = ["--app", "acme", "--connect", engine.address(), "--client", client, "--select", "$.card"];
        folder.run(&[&["encrypt", "payment.json"], &flags[..]].concat()).code
    };
    assert_eq!((encrypt(&engine, "shop"), encrypt(&engine, "thief")), (0, 0));
    fs::copy(&keystore, &backup).expect("copied");
    run(&["certs", "revoke", "thief"]).ok();
    until("the engine has noticed", || encrypt(&engine, "thief") != 0);

    let put_back = folder.path(".leafseal/draft.db");
    fs::copy(&backup, &put_back).expect("copied");
    fs::rename(&put_back, &keystore).expect("renamed");
    let shows = |line: &str| engine.probe("/metrics").lines().any(|found| found == line);
    until("the engine refuses it", || shows("leafseal_keystore_rolled_back 1"));
    assert_ne!(encrypt(&engine, "thief"), 0);
    for command in [&["keys", "list"][..], &["keys", "rotate", "acme"], &["serve", "--address", "127.0.0.1:0"]] {
        let refused = run(command).fails(1);
        assert!(refused.contains("an older copy was put back"), "{refused}");
    }
    let check: Value = serde_json::from_slice(&run(&["store", "check", "--json"]).ok()).expect("JSON");
    let generation = check["generation"].to_string();
    run(&["store", "restore", "--accept-generation", "1"]).fails(1);
    run(&["store", "restore", "--accept-generation", &generation]).ok();
    until("the engine uses what was confirmed", || encrypt(&engine, "thief") == 0);
    assert!(shows("leafseal_keystore_rolled_back 0"));
    run(&["certs", "revoke", "thief"]).ok();
    drop(engine);
    let engine = serve(&folder);
    assert_eq!(encrypt(&engine, "shop"), 0);
    assert_ne!(encrypt(&engine, "thief"), 0);
    assert!(engine.probe("/metrics").lines().any(|line| line == "leafseal_keystore_memory_known 1"));
}
