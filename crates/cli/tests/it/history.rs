//! The history of the keystore: each command that changes it, or reads keys out, leaves one row that names it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::common::{TestFolder, finish};

/// The commands, as their help is listed.
const COMMANDS: &str = include_str!("../../../../docs/cli.md");

/// Commands that change nothing in the keystore, or act through an engine.
const READING: [&str; 31] = [
    "unseal",
    "relay",
    "probe",
    "encrypt",
    "decrypt",
    "rewrap",
    "inspect",
    "keys list",
    "keys public",
    "certs init",
    "certs relay-ca",
    "certs list",
    "api-keys list",
    "canaries list",
    "audit verify",
    "audit show",
    "store check",
    "store history",
    "store restore",
    "slot list",
    "config check",
    "config show",
    "config schema",
    "bench",
    "bench handshakes",
    "load",
    "load report",
    "load run",
    "info",
    "dev",
    "serve",
];

/// What is done first, the arguments, and the changes that the command makes.
type Case = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);

/// The others. A command without a case fails the test.
const CHANGING: [(&str, Case); 26] = [
    ("keys create", (&[], &["shop"], &["create-app"])),
    (
        "keys import",
        (
            &["!openssl ecparam -name prime256v1 -genkey -noout -out r1.pem"],
            &["other", "--r1", "r1.pem"],
            &["create-app"],
        ),
    ),
    ("keys rotate", (&[], &["acme"], &["add-version"])),
    ("keys disable", (&["keys rotate acme"], &["acme", "--version", "1"], &["disable-version"])),
    ("keys enable", (&["keys disable acme"], &["acme"], &["enable-app"])),
    (
        "keys trim",
        (
            &["keys rotate acme", "keys disable acme --version 1"],
            &["acme", "--version", "1", "--yes"],
            &["trim-versions"],
        ),
    ),
    (
        "keys export",
        (
            &[
                "!openssl ecparam -name prime256v1 -genkey -noout -out e.pem",
                "!openssl ec -in e.pem -pubout -out e.pub",
            ],
            &["acme", "--recipient", "e.pub", "--confirm", "acme"],
            &["export"],
        ),
    ),
    ("keys delete", (&[], &["acme", "--confirm", "acme"], &["schedule-deletion"])),
    ("keys undelete", (&["keys delete acme --confirm acme"], &["acme"], &["cancel-deletion"])),
    ("keys rotate-after", (&[], &["acme", "never"], &["set-rotation"])),
    ("keys accept", (&[], &["acme", "--kinds", "symmetric"], &["set-accepted"])),
    ("keys upkeep", (&["keys delete acme --confirm acme --delay 0s"], &[], &["delete"])),
    (
        "certs issue",
        (&["certs init --name localhost"], &["billing", "--app", "acme", "--allow", "encrypt"], &["put-client"]),
    ),
    (
        "certs renew",
        (
            &["certs init --name localhost", "certs issue billing --app acme --allow encrypt"],
            &["billing"],
            &["renew-client"],
        ),
    ),
    (
        "certs revoke",
        (
            &["certs init --name localhost", "certs issue billing --app acme --allow encrypt"],
            &["billing"],
            &["disable-client"],
        ),
    ),
    ("api-keys create", (&[], &["acme", "--allow", "encrypt"], &["create-api-key"])),
    ("api-keys revoke", (&["api-keys create acme --allow encrypt --json"], &["ID"], &["revoke-api-key"])),
    ("canaries add", (&[], &["acme"], &["add-canary"])),
    ("canaries remove", (&["canaries add acme --json"], &["acme", "ID"], &["remove-canary"])),
    ("store migrate", (&["keystore of schema 2"], &[], &["migrate"])),
    ("store backup", (&[], &["backup"], &["back-up"])),
    ("store copy", (&[], &["--to", "copy.db"], &["copy"])),
    ("store extract", (&[], &["acme", "--to", "extract"], &["extract"])),
    ("slot add", (&[], &["--root-key-file", "recovery.key"], &["add-slot"])),
    ("slot remove", (&["slot add --root-key-file recovery.key --json"], &["ID"], &["remove-slot"])),
    ("slot rotate-root", (&[], &["--link-seconds", "1"], &["rotate-root", "remove-root-links"])),
];

fn history(folder: &TestFolder) -> Vec<Value> {
    let text = folder.run(&["store", "history", "--last", "1000", "--json"]).text();
    let mut rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    rows.reverse();
    rows
}

/// Runs a step, and returns what it prints.
fn prepare(folder: &TestFolder, step: &str) -> Vec<u8> {
    let words: Vec<&str> = step.trim_start_matches('!').split(' ').collect();
    match step.strip_prefix('!') {
        Some(_) => {
            let mut command = std::process::Command::new(words[0]);
            finish(command.current_dir(folder.0.path()).args(&words[1..]), b"").ok()
        }
        None => folder.run(&words).ok(),
    }
}

#[test]
fn each_command_that_changes_the_keystore_leaves_a_row() {
    let cases: BTreeMap<&str, Case> = CHANGING.into_iter().collect();
    let headings = COMMANDS.lines().filter_map(|line| line.strip_prefix("## leafseal ")).collect::<Vec<_>>();
    let is_group = |name: &str| headings.iter().any(|other| other.starts_with(&format!("{name} ")));
    for command in &headings {
        if is_group(command) || READING.contains(command) || command.starts_with("audit ") {
            continue;
        }
        let (first, arguments, kinds) = cases.get(command).unwrap_or_else(|| panic!("no case for {command}"));
        if *command == "store migrate" {
            // Of a store that older programs have made: crates/keystore/tests/it/history.rs has it.
            continue;
        }
        let folder = TestFolder::with_app();
        let mut printed = Vec::new();
        for step in *first {
            printed = prepare(&folder, step);
        }
        let before = history(&folder).len();
        let words: Vec<&str> = command.split(' ').collect();
        // Of what the last step has made.
        let made: Value = serde_json::from_slice(&printed).unwrap_or_default();
        let id = made["id"].as_str().unwrap_or("none").to_owned();
        let arguments = arguments.iter().map(|argument| if *argument == "ID" { id.as_str() } else { *argument });
        let arguments: Vec<&str> = words.into_iter().chain(arguments).collect();
        folder.run(&arguments).ok();
        let rows = history(&folder);
        let made: Vec<&str> = rows[before..].iter().map(|row| row["change"].as_str().expect("text")).collect();
        assert_eq!(made, *kinds, "{command}");
        for row in &rows[before..] {
            assert_eq!(row["command"], **command);
            assert_eq!(row["uid"], u64::from(rustix::process::getuid().as_raw()), "{row}");
            assert!(row["host"].is_string(), "{row}");
        }
    }
}
