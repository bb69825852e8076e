//! Replays the fuzzer's corpus of coded bodies, with a limit on the memory of the whole process.

use std::alloc::System;
use std::fs;
use std::path::Path;

use cap::Cap;
use leafseal_relay::fuzzing;

/// Beyond the limit an allocation fails, and with it the test.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

#[test]
fn the_corpus_holds_every_property_within_its_memory() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/codings");
    let (mut taken, mut refused) = (0, 0);
    for entry in fs::read_dir(corpus).expect("the corpus is there") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        let bytes = fs::read(&path).expect("a file");
        ALLOCATOR.set_limit(ALLOCATOR.allocated() + fuzzing::MEMORY_MAX).expect("more than there is now");
        *(if fuzzing::check_coding(&bytes) { &mut taken } else { &mut refused }) += 1;
    }
    ALLOCATOR.set_limit(usize::MAX).expect("no limit");
    assert!(taken >= 9 && refused >= 12, "{taken} taken, {refused} refused");
}

/// A small version of the fuzzer: each short body of the corpus, with each byte changed.
#[test]
fn changed_bodies_hold_every_property() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/codings");
    for entry in fs::read_dir(corpus).expect("the corpus is there") {
        let bytes = fs::read(entry.expect("an entry").path()).expect("a file");
        for at in 0..bytes.len().min(64) {
            for value in [0, 0x11, 0x7f, 0xff, bytes[at] ^ 1] {
                let mut changed = bytes.clone();
                changed[at] = value;
                fuzzing::check_coding(&changed);
            }
        }
    }
}
