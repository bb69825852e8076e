//! Values of both schemes open wherever their keys have come: to another database, another machine, from a backup, back from escrow, under
//! another name.

use leafseal_testkit::EscrowHolder;
use serde_json::Value;

use crate::common::TestFolder;
use crate::shared_store::Place;

const DOCUMENT: &str = r#"{"id": "row 17", "card": "4111111111111111"}"#;
const FILE: &[u8] = b"a file of some bytes";
/// Where values were encrypted, with the flags that decrypt them.
const DOCUMENTS: [(&str, &[&str]); 4] = [
    ("public.json", &[]),
    ("symmetric.json", &[]),
    ("bound.json", &["--context", "row 17"]),
    ("old.json", &["--context-select", "id", "--bind", "path", "--select", "$.card"]),
];

/// Encrypts in both schemes, in two key versions; documents and a file of each.
fn seal(folder: &TestFolder, flags: &[&str]) {
    folder.write("document.json", DOCUMENT);
    folder.write("file.txt", FILE);
    let run = |arguments: &[&str]| folder.run(&[arguments, flags].concat()).ok();
    let encrypt = |scheme: &str, more: &[&str], to: &str| {
        let fixed = ["encrypt", "--app", "acme", "--select", "$.card", "document.json", "--scheme", scheme];
        folder.write(to, run(&[&fixed[..], more].concat()));
    };
    encrypt("symmetric", &DOCUMENTS[3].1[..4], DOCUMENTS[3].0);
    run(&["keys", "rotate", "acme"]);
    encrypt("public-key", &[], DOCUMENTS[0].0);
    encrypt("symmetric", &[], DOCUMENTS[1].0);
    encrypt("symmetric", DOCUMENTS[2].1, DOCUMENTS[2].0);
    run(&["encrypt", "--app", "acme", "--file", "--scheme", "symmetric", "file.txt", "-o", "file.sealed"]);
}

/// Asserts that all of it opens for an app of the store that the flags name.
#[track_caller]
fn assert_opens(folder: &TestFolder, app: &str, flags: &[&str]) {
    let decrypt = |more: &[&str]| folder.run(&[&["decrypt", "--app", app], more, flags].concat()).ok();
    for (name, bound) in DOCUMENTS {
        assert_eq!(decrypt(&[&[name], bound].concat()), DOCUMENT.as_bytes(), "{name}");
    }
    assert_eq!(decrypt(&["--file", "file.sealed"]), FILE);
    // What is encrypted there opens there.
    let again = ["encrypt", "--app", app, "--select", "$.card", "--scheme", "symmetric", "document.json"];
    folder.write("again.json", folder.run(&[&again[..], flags].concat()).ok());
    assert_eq!(decrypt(&["again.json"]), DOCUMENT.as_bytes());
}

#[test]
fn values_open_in_copies_backups_and_databases() {
    let place = Place::new();
    let (folder, file) = (&place.folder, &["--set", "keystore.url="][..]);
    folder.run(&[&["keys", "create", "acme"], file].concat()).ok();
    seal(folder, file);
    let from = folder.path(".leafseal/keystore.db");
    let from = from.to_str().expect("text");
    place.run(&["store", "copy", "--from", from]).ok();
    assert_opens(folder, "acme", &[]);
    place.run(&["store", "copy", "--to", "copied.db"]).ok();
    let in_file = |name: &str| format!("keystore.path={}", folder.path(name).display());
    assert_opens(folder, "acme", &[file, &["--set", &in_file("copied.db")]].concat());
    // A backup of the database, restored to a file, and one of the file, restored to another database.
    place.run(&["store", "backup", "database.backup"]).ok();
    let restored = in_file("restored/keystore.db");
    std::fs::create_dir(folder.path("restored")).expect("a folder");
    let to_file = [file, &["--set", &restored]].concat();
    folder.run(&[&["store", "restore", "database.backup"], &to_file[..]].concat()).ok();
    assert_opens(folder, "acme", &to_file);
    folder.run(&[&["store", "backup", "file.backup"], &to_file[..]].concat()).ok();
    let other = Place::on(place.server);
    for name in [".leafseal/root.key", "file.backup"] {
        std::fs::copy(folder.path(name), other.folder.path(name)).expect("copied");
    }
    other.run(&["store", "restore", "file.backup"]).ok();
    for name in ["document.json", "file.sealed"].into_iter().chain(DOCUMENTS.map(|(name, _)| name)) {
        other.folder.write(name, folder.read(name));
    }
    assert_opens(&other.folder, "acme", &[]);
}

#[test]
fn values_open_in_an_extract() {
    let folder = TestFolder::with_app();
    folder.run(&["keys", "create", "other"]).ok();
    seal(&folder, &[]);
    folder.run(&["store", "extract", "acme", "--to", "extracted"]).ok();
    assert_opens(&folder, "acme", &["--dir", "extracted"]);
}

/// The keys of an export, opened by its recipient to files that an import reads. Returns the signer.
fn open_export(folder: &TestFolder, holder: &EscrowHolder, export: &[u8]) -> String {
    let export: Value = serde_json::from_slice(export).expect("JSON");
    for key in export["keys"].as_array().expect("a list") {
        let kind = key["curve"].as_str().unwrap_or("symmetric");
        folder.write(&format!("{}-{kind}", key["version"]), holder.open(key["jwe"].as_str().expect("text")));
    }
    export["signer"].as_str().expect("text").to_owned()
}

#[test]
fn values_open_under_another_name_after_a_recovery_from_escrow() {
    let (folder, holder) = (TestFolder::with_app(), EscrowHolder::default());
    seal(&folder, &[]);
    folder.write("to.pem", holder.public_pem());
    let export = folder.run(&["keys", "export", "acme", "--recipient", "to.pem", "--confirm", "acme"]).ok();
    let signer = open_export(&folder, &holder, &export);
    let recover = |version: u32, app: &str, flags: &[&str]| {
        let [r1, k1, symmetric] = ["r1", "k1", "symmetric"].map(|kind| format!("{version}-{kind}"));
        let keys = ["keys", "import", app, "--r1", &r1, "--k1", &k1, "--symmetric", &symmetric];
        folder.run(&[&keys[..], flags].concat())
    };
    // Another store, where nothing vouches for the root, or the wrong one does.
    let new = ["--dir", "new"];
    let unsigned = "not signed by this keystore";
    assert!(recover(1, "billing", &new).fails(1).contains(unsigned));
    let wrong = ["--dir", "new", "--signer", &"0f".repeat(32)];
    assert!(recover(1, "billing", &wrong).fails(1).contains(unsigned));
    let trusted = ["--dir", "new", "--signer", &signer];
    recover(1, "billing", &trusted).ok();
    recover(2, "billing", &trusted).ok();
    assert_opens(&folder, "billing", &new);
    // Each is one version's of one app.
    let taken = folder.run(&["keys", "import", "acme", "--symmetric", "1-symmetric"]).fails(1);
    assert!(taken.contains("already that of version 1 of app acme"), "{taken}");
    // A root of the store itself needs no signer, also under a later root of the store.
    folder.run(&["keys", "create", "spare"]).ok();
    folder.run(&["keys", "disable", "acme", "--version", "1"]).ok();
    folder.run(&["keys", "trim", "acme", "--version", "1", "--yes"]).ok();
    folder
        .run(&[
            "decrypt",
            "--app",
            "acme",
            "old.json",
            "--context-select",
            "id",
            "--bind",
            "path",
            "--select",
            "$.card",
        ])
        .fails(1);
    folder.run(&["slot", "rotate-root"]).ok();
    folder.run(&["keys", "import", "acme", "--symmetric", "1-symmetric"]).ok();
    assert_opens(&folder, "acme", &[]);
    // A root that someone has chosen has no signature.
    let text = String::from_utf8(folder.read("1-symmetric")).expect("text");
    let other = String::from_utf8(folder.read("2-symmetric")).expect("text");
    let signature = |text: &str| text.rsplit_once('=').expect("signed").1.to_owned();
    folder.write("forged", text.replace(&signature(&text), &signature(&other)));
    assert!(folder.run(&["keys", "import", "spare", "--symmetric", "forged"]).fails(1).contains(unsigned));
}
