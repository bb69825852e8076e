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

/// The versions of an export, opened by its recipient to files that an import reads. Returns the signer, of which standard error says the
/// same.
fn open_export(folder: &TestFolder, holder: &EscrowHolder, app: &str) -> String {
    folder.write("to.pem", holder.public_pem());
    let exported = folder.run(&["keys", "export", app, "--recipient", "to.pem", "--confirm", app]);
    let noted = exported.stderr.clone();
    let export: Value = serde_json::from_slice(&exported.ok()).expect("JSON");
    for key in export["keys"].as_array().expect("a list") {
        folder.write(&format!("{app}-{}", key["version"]), holder.open(key["jwe"].as_str().expect("text")));
    }
    let signer = export["signer"].as_str().expect("text").to_owned();
    assert!(noted.contains(&format!("signer {signer}: note it")), "{noted}");
    signer
}

#[test]
fn values_open_under_another_name_after_a_recovery_from_escrow() {
    let (folder, holder) = (TestFolder::with_app(), EscrowHolder::default());
    seal(&folder, &[]);
    folder.run(&["keys", "accept", "acme", "--kinds", "public-key,symmetric"]).ok();
    let signer = open_export(&folder, &holder, "acme");
    let recover = |app: &str, files: &[&str], flags: &[&str]| {
        let command = ["keys", "import", app, "--escrow"];
        folder.run(&[&command[..], files, flags].concat())
    };
    let all = ["acme-2", "acme-1"];
    // Another store, where nothing vouches for the keys, or the wrong one does, and another name, which must be meant.
    let unsigned = "version 1 of app acme is not signed by this keystore";
    let from = ["--from-app", "acme", "--dir", "new"];
    assert!(recover("billing", &all, &from).fails(1).contains(unsigned));
    assert!(
        recover("billing", &all, &[&from[..], &["--signer", &"0f".repeat(32)]].concat()).fails(1).contains(unsigned)
    );
    let trusted = [&from[..], &["--signer", &signer]].concat();
    let unnamed = recover("billing", &all, &["--dir", "new", "--signer", &signer]).fails(1);
    assert!(unnamed.contains("these are keys of app acme, not of billing") && unnamed.contains("--from-app acme"));
    let imported = recover("billing", &all, &trusted).text();
    let lines: Vec<&str> = imported.lines().collect();
    assert!(
        lines[0].starts_with("imported version 1 of app billing: it was version 1 of app acme, created 20"),
        "{imported}"
    );
    assert!(
        lines[1].starts_with("imported version 2 of app billing: it was version 2 of app acme, created 20"),
        "{imported}"
    );
    assert_opens(&folder, "billing", &["--dir", "new"]);
    assert!(folder.run(&["keys", "list", "--dir", "new"]).text().contains("accepts public-key,symmetric"));
    // Each is one version's of one app.
    let taken = recover("acme", &["acme-1"], &[]).fails(1);
    assert!(taken.contains("this r1 key is already version 1 of app acme"), "{taken}");
    // The store's own need no signer, also under a later root, and change nothing else.
    folder.run(&["keys", "accept", "acme", "--kinds", "all"]).ok();
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
    let kept = recover("acme", &["acme-1"], &[]);
    let noted = kept.stderr.clone();
    assert!(
        noted.contains("app acme accepts all as before, not public-key,symmetric as the exported app did"),
        "{noted}"
    );
    kept.ok();
    assert_opens(&folder, "acme", &[]);
}

#[test]
fn an_escrow_that_others_may_have_signed_is_refused() {
    let (folder, holder) = (TestFolder::with_app(), EscrowHolder::default());
    let signer = open_export(&folder, &holder, "acme");
    folder.run(&["keys", "rotate", "acme"]).ok();
    folder.run(&["keys", "disable", "acme", "--version", "1"]).ok();
    folder.run(&["keys", "trim", "acme", "--version", "1", "--yes"]).ok();
    folder.run(&["slot", "rotate-root", "--compromised"]).ok();
    for flags in [&[][..], &["--signer", &signer]] {
        let refused = folder.run(&[&["keys", "import", "acme", "--escrow", "acme-1"], flags].concat()).fails(1);
        let expected = "leafseal: the statement of version 1 of app acme is signed under a root of this keystore that others may have \
                        had (slot rotate-root --compromised), so that they may have signed it: take the keys from a backup of the \
                        keystore instead\n";
        assert_eq!(refused, expected);
    }
    // Unless only the private keys are taken, as those from anywhere are.
    let text = String::from_utf8(folder.read("acme-1")).expect("text");
    let at = text.find("-----BEGIN").expect("a key");
    let end = text.find("-----END PRIVATE KEY-----\n").expect("its end") + 26;
    folder.write("r1.pem", &text[at..end]);
    folder.run(&["keys", "import", "acme", "--r1", "r1.pem"]).ok();
    // What is exported under the new root comes back.
    open_export(&folder, &holder, "acme");
    folder.run(&["keys", "disable", "acme", "--version", "2"]).ok();
    folder.run(&["keys", "trim", "acme", "--version", "2", "--yes"]).ok();
    folder.run(&["keys", "import", "acme", "--escrow", "acme-2"]).ok();
}
