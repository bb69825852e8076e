//! Replays the fuzz corpora through the properties that the fuzz targets check.

use std::path::PathBuf;

use leafseal_document::fuzzing::{check_document, check_form, check_media_type, check_multipart_form, check_selectors};

fn replay(name: &str, check: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is part of the project") {
        let path = entry.expect("an entry can be read").path();
        println!("{}", path.display());
        check(&std::fs::read(&path).expect("a file can be read"));
        count += 1;
    }
    assert!(count > 10, "only {count} files were found");
}

#[test]
fn the_document_corpus_holds() {
    replay("document", check_document);
}

#[test]
fn the_selector_corpus_holds() {
    replay("selectors", check_selectors);
}

#[test]
fn the_form_corpus_holds() {
    replay("form", check_form);
}

#[test]
fn the_media_type_corpus_holds() {
    replay("media_type", check_media_type);
}

#[test]
fn the_multipart_corpus_holds() {
    replay("multipart", check_multipart_form);
}
