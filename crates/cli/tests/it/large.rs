//! Documents of 60,000 fields and of 100 MB through both backends: they round-round_trip, and memory stays within the limits stated here.

use std::time::{Duration, Instant};

use crate::common::{CommandResult, TestFolder, document, memory, with};

const MIB: u64 = 1 << 20;

/// Padding that makes a document of 60,000 fields one of 100 MB.
const PADDING: usize = 2340;

struct RoundTrip {
    sealed: CommandResult,
    opened: CommandResult,
    time: Duration,
}

/// Encrypts `input` to a file and decrypts that to another.
fn round_trip(test_folder: &TestFolder, backend: &[&str], input: &str) -> RoundTrip {
    let start = Instant::now();
    let arguments = ["encrypt", "--app", "acme", input, "-o", "sealed.json"];
    let sealed = test_folder.run(&with(&arguments, backend));
    assert_eq!(sealed.code, 0, "{}", sealed.stderr);
    let opened = test_folder.run(&with(&["decrypt", "--app", "acme", "sealed.json", "-o", "opened.json"], backend));
    assert_eq!(opened.code, 0, "{}", opened.stderr);
    RoundTrip { sealed, opened, time: start.elapsed() }
}

#[test]
fn sixty_thousand_fields_and_a_hundred_megabytes() {
    let test_folder = TestFolder::new();
    let engine = test_folder.engine(&[]);
    let many = document(60_000, 0);
    let big = document(60_000, PADDING);
    assert!((95 << 20..110 << 20).contains(&big.len()), "{} bytes", big.len());
    for (name, content) in [("many.json", &many), ("big.json", &big)] {
        test_folder.write(name, content);
        for backend in [vec![], engine.flags()] {
            let place = if backend.is_empty() { "in process" } else { "over mTLS" };
            let RoundTrip { sealed, opened, time } = round_trip(&test_folder, &backend, name);
            assert!(test_folder.read("opened.json") == **content, "{name} {place}");
            let (size, output) = (content.len() as u64, test_folder.read("sealed.json").len() as u64);
            let (most, engine_most) = (sealed.memory_max.max(opened.memory_max), memory(engine.child.id()));
            println!(
                "{name} {place}: {time:?} both ways, {size} bytes, {output} sealed, memory {} MiB, the engine {} MiB",
                most / MIB,
                engine_most / MIB
            );
            // Input and output completely, the output with the spare capacity of a growing vector, and the program itself. Over the network
            // also the messages of request and answer.
            let copies = if backend.is_empty() { size + 2 * output } else { 2 * (size + output) };
            assert!(most > size, "memory was not measured");
            assert!(most < copies + 64 * MIB, "{name} {place}: {} MiB", most / MIB);
            if !backend.is_empty() {
                assert!(engine_most < size + 3 * output + 128 * MIB, "the engine: {} MiB", engine_most / MIB);
            }
        }
    }
}

/// JSON Lines of any length need only the memory of some blocks.
#[test]
fn lines_pass_in_bounded_memory() {
    let test_folder = TestFolder::with_app();
    let line = "{\"id\": 1, \"note\": \"some text that is neither long nor short, as exports have it\", \"card\": \"4242424242424242\"}\n";
    let content = line.repeat(400_000);
    assert!(content.len() > 40 << 20);
    test_folder.write("many.jsonl", &content);
    let sealed =
        test_folder.run(&["encrypt", "--app", "acme", "--select", "$.card", "many.jsonl", "-o", "sealed.jsonl"]);
    assert_eq!(sealed.code, 0, "{}", sealed.stderr);
    let opened = test_folder.run(&["decrypt", "--app", "acme", "sealed.jsonl", "-o", "opened.jsonl"]);
    assert_eq!(opened.code, 0, "{}", opened.stderr);
    assert!(test_folder.read("opened.jsonl") == content.as_bytes());
    println!("memory {} MiB, {} MiB", sealed.memory_max / MIB, opened.memory_max / MIB);
    assert!(
        sealed.memory_max.max(opened.memory_max) < 48 * MIB,
        "{} MiB",
        sealed.memory_max.max(opened.memory_max) / MIB
    );
}
