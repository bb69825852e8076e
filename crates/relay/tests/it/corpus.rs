//! Replays the fuzzer's corpora: configurations, and paths of requests.

use std::fs;
use std::path::Path;

use leafseal_relay::fuzzing;

#[test]
fn the_corpus_holds_every_property() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/relay_config");
    let (mut taken, mut refused) = (0, 0);
    for entry in fs::read_dir(corpus).expect("the corpus is there") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        *(if fuzzing::check_configuration(&fs::read(&path).expect("a file")) { &mut taken } else { &mut refused }) += 1;
    }
    assert!(taken >= 8 && refused >= 12, "{taken} taken, {refused} refused");
}

/// A small version of the fuzzer: an example with each line removed, and each byte changed.
#[test]
fn changed_examples_hold_every_property() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/relay_config/route");
    let text = fs::read_to_string(example).expect("a file");
    let lines: Vec<&str> = text.lines().collect();
    for left_out in 0..lines.len() {
        let rest: Vec<&str> =
            lines.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, line)| *line).collect();
        fuzzing::check_configuration(rest.join("\n").as_bytes());
    }
    for at in 0..text.len() {
        for value in *b"\"\\[ 0\n*" {
            let mut changed = text.clone().into_bytes();
            changed[at] = value;
            fuzzing::check_configuration(&changed);
        }
    }
}

#[test]
fn the_path_corpus_holds_every_property() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/path");
    let mut read = 0;
    for entry in fs::read_dir(corpus).expect("the corpus is there") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        read += usize::from(fuzzing::check_path(&fs::read(&path).expect("a file")));
    }
    assert!(read >= 50, "{read} paths were compared with a pattern");
}
