//! A keystore that was put back to an older copy, under a running engine and across a restart.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

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
    serve_with(folder, &[])
}

fn serve_with(folder: &TestFolder, more: &[&str]) -> Running {
    Running::start(folder.command(&SERVE).args(more).stderr(Stdio::null()))
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

#[test]
fn another_keystore_in_its_place_is_refused_until_its_id_is_confirmed() {
    let (folder, other) = (TestFolder::new(), TestFolder::new());
    for folder in [&folder, &other] {
        folder.run(&["keys", "create", "acme"]).ok();
    }
    for file in ["keystore.db", "root.key"] {
        fs::copy(other.path(".leafseal").join(file), folder.path(".leafseal").join(file)).expect("copied");
    }
    let id = |folder: &TestFolder| {
        let check: Value = serde_json::from_slice(&folder.run(&["store", "check", "--json"]).ok()).expect("JSON");
        check["store_id"].as_str().expect("an id").to_owned()
    };
    let refused = folder.run(&["keys", "list"]).fails(1);
    assert!(refused.contains(&format!("--accept-store {}", id(&other))), "{refused}");
    folder.run(&["store", "restore", "--accept-store", &"0a".repeat(16)]).fails(1);
    folder.run(&["store", "restore", "--accept-store", &id(&other)]).ok();
    folder.run(&["keys", "list"]).ok();
    let expect = |id: &str| folder.run(&["keys", "list", "--set", &format!("keystore.store_id={id}")]);
    expect(&id(&other)).ok();
    let refused = expect(&"0a".repeat(16)).fails(1);
    assert!(refused.contains("is set in keystore.store_id"), "{refused}");
}

/// Accepts one call and writes an answer again and again, `times` times at most, until the caller has enough.
fn answering(answer: &'static [u8], times: usize) -> (String, JoinHandle<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    let thread = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("called");
        (0..times).all(|_| socket.write_all(answer).is_ok())
    });
    (address, thread)
}

#[test]
fn a_machine_that_has_never_seen_the_keystore_learns_from_its_peers_that_it_was_put_back() {
    let (folder, other) = (TestFolder::new(), TestFolder::new());
    folder.run(&["keys", "create", "acme"]).ok();
    folder.run(&["certs", "init"]).ok();
    folder.run(&["certs", "issue", "shop", "--app", "acme", "--allow", "encrypt"]).ok();
    let copied = Command::new("cp").arg("-a").args([folder.path(".leafseal"), other.path(".leafseal")]).status();
    assert!(copied.expect("run").success());
    let forget = || drop(fs::remove_dir_all(other.path(".leafseal/seen")));
    forget();
    let line = |engine: &Running| {
        engine.probe("/keystore?challenge=0123456789abcdef0123456789abcdef").split("\r\n\r\n").nth(1).map(str::to_owned)
    };
    let engine = serve(&folder);
    let before = line(&engine).expect("a body");
    assert!(before.starts_with("leafseal-store-sighting-1 store=") && before.ends_with('\n'), "{before}");
    folder.run(&["keys", "rotate", "acme"]).ok();
    until("the engine has seen the change", || line(&engine).is_some_and(|line| line != before));

    other.write("payment.json", r#"{"card": "4111111111111111"}"#);
    let encrypt = |engine: &Running| {
        let flags = ["--app", "acme", "--connect", engine.address(), "--client", "shop", "--select", "$.card"];
        other.run(&[&["encrypt", "payment.json"], &flags[..]].concat()).code
    };
    let shows = |engine: &Running, line: &str| engine.probe("/metrics").lines().any(|found| found == line);
    let alone = serve(&other);
    assert_eq!(encrypt(&alone), 0);
    assert!(shows(&alone, "leafseal_keystore_memory_known 0") && alone.probe("/readyz").starts_with("HTTP/1.1 200"));
    drop(alone);
    forget();

    let hanging = TcpListener::bind("127.0.0.1:0").expect("bound");
    let hanging = (hanging.local_addr().expect("an address").to_string(), hanging);
    let (nonsense, _) = answering(b"HTTP/1.1 200 OK\r\n\r\nleafseal-store-sighting-1 store=00 mac=00\n", 1);
    let (endless, wrote) = answering(&[b'x'; 1 << 16], 1 << 16);
    let useless = format!("server.peers={} {nonsense} {endless} 127.0.0.1:1", hanging.0);
    let quick = ["--set", "server.peers_timeout=500ms", "--set", "engine.store_silence_max=100ms", "--set"];
    let misled = serve_with(&other, &[&quick[..], &[&useless]].concat());
    assert_eq!(encrypt(&misled), 0);
    assert!(shows(&misled, "leafseal_keystore_memory_known 0"));
    assert!(!wrote.join().expect("ended"), "an answer without end is not read to its end");
    drop(misled);
    forget();

    let peer = engine.ready["operator"].as_str().expect("an operator port");
    let peers = format!("server.peers={} {peer}", hanging.0);
    let informed = serve_with(&other, &[&quick[..], &[&peers]].concat());
    assert_ne!(encrypt(&informed), 0);
    assert!(shows(&informed, "leafseal_keystore_memory_known 1"));
    until("it says so", || shows(&informed, "leafseal_keystore_rolled_back 1"));
    until("it is not ready", || informed.probe("/readyz").starts_with("HTTP/1.1 503"));
}

#[test]
fn an_engine_does_not_serve_beside_a_peer_with_another_keystore() {
    let (folder, other) = (TestFolder::new(), TestFolder::new());
    for folder in [&folder, &other] {
        folder.run(&["keys", "create", "acme"]).ok();
        folder.run(&["certs", "init"]).ok();
    }
    let peer = serve(&other);
    let address = peer.ready["operator"].as_str().expect("an operator port");
    let peers = format!("server.peers={address}");
    // It knows its keystore from before: the peer may be the one that is wrong.
    let engine = serve_with(&folder, &["--set", &peers]);
    let answer = engine.probe("/readyz");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains(address) && answer.contains("another"), "{answer}");
    drop(engine);
    fs::remove_dir_all(folder.path(".leafseal/seen")).expect("removed");
    let refused =
        folder.run(&[&SERVE[..], &["--set", &peers, "--set", "keystore.memory_folder=off"]].concat()).fails(1);
    assert!(refused.contains(address) && refused.contains("another keystore"), "{refused}");
}
