//! Changes of slots: what a change depends on comes before it, and no command takes the last way into a keystore.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::Value;

use crate::common::TestFolder;

const PASSPHRASE: &str = "correct horse battery staple";

fn slots(folder: &TestFolder) -> Vec<(String, String)> {
    let listed: Value = serde_json::from_slice(&folder.run(&["slot", "list", "--json"]).ok()).expect("JSON");
    let text = |slot: &Value, key: &str| slot[key].as_str().expect("text").to_owned();
    listed.as_array().expect("slots").iter().map(|slot| (text(slot, "id"), text(slot, "kind"))).collect()
}

/// The setting that has a command open the keystore with this text.
fn unseal_with(folder: &TestFolder, text: &str) -> String {
    let path = folder.write("given", text);
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("set");
    format!("keystore.unseal_file={}", path.display())
}

#[test]
fn a_slot_whose_shares_cannot_be_written_is_not_stored() {
    let folder = TestFolder::with_app();
    let before = slots(&folder);
    let (first, _) = before[0].clone();
    for more in [&["--replace", &first][..], &[], &["--json"]] {
        let arguments = [&["slot", "add", "--shares", "2/3"], more].concat();
        let full = File::options().write(true).open("/dev/full").expect("a device");
        let output = folder.command(&arguments).stdin(Stdio::null()).stdout(full).output().expect("run");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{errors}");
        assert!(errors.contains("of no use if this command fails"), "{errors}");
        assert_eq!(slots(&folder), before);
    }
    // A mistake in the id shows before there are shares.
    let refused = folder.run(&["slot", "add", "--shares", "2/3", "--replace", "0000000000000000"]).fails(1);
    assert!(refused.contains("no key slot") && !refused.contains("shares of"), "{refused}");
}

#[test]
fn shares_that_were_written_open_what_they_replace() {
    let folder = TestFolder::with_app();
    let (first, _) = slots(&folder)[0].clone();
    let shares = folder.path("shares");
    let arguments = ["slot", "add", "--shares", "2/3", "--replace", &first];
    let to = File::create(&shares).expect("made");
    assert!(folder.command(&arguments).stdout(to).status().expect("run").success());
    let text = String::from_utf8(folder.read("shares")).expect("text");
    let by_shares = unseal_with(&folder, &text.lines().skip(1).collect::<Vec<_>>().join("\n"));
    std::fs::remove_file(folder.path(".leafseal/root.key")).expect("removed");
    folder.run(&["store", "check", "--set", &by_shares]).ok();
}

#[test]
fn the_slot_that_opens_is_not_removed_unless_another_opens_or_a_person_says_so() {
    let folder = TestFolder::with_app();
    let (first, _) = slots(&folder)[0].clone();
    folder.run_with(&["slot", "add", "--passphrase", "-", "--argon2-memory", "1"], PASSPHRASE.as_bytes()).ok();
    let refused = folder.run(&["slot", "remove", &first]).fails(1);
    assert!(refused.contains("nothing that was given opens another slot"), "{refused}");
    assert!(refused.contains("--others-untested"), "{refused}");
    let by_words = unseal_with(&folder, PASSPHRASE);
    folder.run(&["slot", "remove", &first, "--set", &by_words]).ok();
    std::fs::remove_file(folder.path(".leafseal/root.key")).expect("removed");
    assert_eq!(folder.run(&["slot", "list", "--set", &by_words]).text().lines().count(), 1);

    let folder = TestFolder::with_app();
    let (first, _) = slots(&folder)[0].clone();
    folder.run_with(&["slot", "add", "--passphrase", "-", "--argon2-memory", "1"], PASSPHRASE.as_bytes()).ok();
    folder.run(&["slot", "remove", &first, "--others-untested"]).ok();
    folder.run(&["slot", "list"]).fails(3);
}
