//! Replays the fuzzer's corpus of scenario files.

use std::fs;
use std::path::Path;

use leafseal_load::fuzzing;

#[test]
fn the_corpus_holds_every_property() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/scenario");
    let (mut taken, mut refused) = (0, 0);
    for entry in fs::read_dir(corpus).expect("the corpus is there") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        *(if fuzzing::check_scenario(&fs::read(&path).expect("a file")) { &mut taken } else { &mut refused }) += 1;
    }
    assert!(taken >= 5 && refused >= 12, "{taken} taken, {refused} refused");
}

/// A small version of the fuzz target: a scenario with each byte changed.
#[test]
fn a_changed_scenario_holds_every_property() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/scenario/incident");
    let text = fs::read(example).expect("a file");
    assert!(fuzzing::check_scenario(&text));
    for at in 0..text.len() {
        for value in *b"\"\\[{ 0\n*&-:\xff" {
            let mut changed = text.clone();
            changed[at] = value;
            fuzzing::check_scenario(&changed);
        }
    }
}
