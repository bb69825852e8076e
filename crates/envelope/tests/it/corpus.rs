//! Replays the fuzz target's corpus (`fuzz/corpus/envelope`) as an ordinary test.

#[test]
fn the_corpus_replays() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/envelope");
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let bytes = std::fs::read(entry.expect("readable").path()).expect("readable");
        leafseal_envelope::fuzzing::check_envelope(&bytes);
        replayed += 1;
    }
    assert!(replayed >= 10, "the corpus holds {replayed} inputs");
}
