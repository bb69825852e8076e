//! Runs `examples/demo.sh`, which `make run` shows, with the program of this build.

use std::process::Command;

use crate::common::{PROGRAM, finish, root};

#[test]
fn the_demonstration_returns_every_document_unchanged() {
    let mut demo = Command::new(root().join("examples/demo.sh"));
    // A setting for another engine must not lead the demonstration there.
    demo.env("LEAFSEAL", PROGRAM).env("ONCE", "1").env("LEAFSEAL_SERVER_ADDRESS", "nowhere:1").env_remove("DIR");
    let output = finish(&mut demo, b"").text();
    for line in [
        "It came back byte for byte.",
        "With a symmetric key, bound to its row: byte for byte.",
        "In another row it does not open.",
        "Sealed by the engine, opened in process: byte for byte.",
        "Sealed in process, opened by the engine: byte for byte.",
        "Done.",
    ] {
        assert!(output.contains(line), "{line} is missing from {output}");
    }
    let is_large = |line: &&str| line.contains("encrypt") && line.contains("ms  byte for byte");
    assert_eq!(output.lines().filter(is_large).count(), 4, "{output}");
}

#[test]
fn without_a_program_the_demonstration_says_how_to_build_one() {
    let mut demo = Command::new(root().join("examples/demo.sh"));
    let message = finish(demo.env("LEAFSEAL", "target/none").env("ONCE", "1"), b"").fails(2);
    assert!(message.contains("build it with 'make run'"), "{message}");
}
