//! Replays the fuzzer's corpus of API keys, tokens and payloads.

use std::fs;
use std::path::Path;

use leafseal_engine::fuzzing;

#[test]
fn the_corpus_holds_every_property() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/token");
    let mut replayed = 0;
    for entry in fs::read_dir(corpus).expect("the corpus is there") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        let seed = fs::read(&path).expect("a file");
        fuzzing::check_token(&seed);
        // A small version of the fuzzer: each prefix, and each byte changed.
        for at in 0..seed.len().min(256) {
            fuzzing::check_token(&seed[..at]);
            for value in *b"\0\xff\"{,_0" {
                let mut changed = seed.clone();
                changed[at] = value;
                fuzzing::check_token(&changed);
            }
        }
        replayed += 1;
    }
    assert!(replayed > 20, "only {replayed} files");
}
