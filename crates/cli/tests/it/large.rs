//! Documents of 60,000 fields and of 100 MB through both doors: they come back as they were, time follows the work, and memory
//! stays within bounds that are stated here.

use std::time::{Duration, Instant};

use crate::common::{Ran, Workplace, document, memory, with};

const MIB: u64 = 1 << 20;

/// Bytes of text that make a document of 60,000 fields one of 100 MB.
const PADDING: usize = 2340;

struct Trip {
    sealed: Ran,
    opened: Ran,
    time: Duration,
}

/// Encrypts `input` to a file and decrypts that to another.
fn trip(workplace: &Workplace, door: &[&str], input: &str) -> Trip {
    let start = Instant::now();
    let arguments = ["encrypt", "--app", "acme", input, "-o", "sealed.json"];
    let sealed = workplace.run(&with(&arguments, door));
    assert_eq!(sealed.code, 0, "{}", sealed.stderr);
    let opened = workplace.run(&with(&["decrypt", "--app", "acme", "sealed.json", "-o", "opened.json"], door));
    assert_eq!(opened.code, 0, "{}", opened.stderr);
    Trip { sealed, opened, time: start.elapsed() }
}

#[test]
fn sixty_thousand_fields_and_a_hundred_megabytes() {
    let workplace = Workplace::new();
    let engine = workplace.engine(&[]);
    let many = document(60_000, 0);
    let big = document(60_000, PADDING);
    assert!((95 << 20..110 << 20).contains(&big.len()), "{} bytes", big.len());
    for (name, content) in [("many.json", &many), ("big.json", &big)] {
        workplace.write(name, content);
        for door in [vec![], engine.flags()] {
            let place = if door.is_empty() { "in process" } else { "over mTLS" };
            let Trip { sealed, opened, time } = trip(&workplace, &door, name);
            assert!(workplace.read("opened.json") == **content, "{name} {place}");
            let (size, output) = (content.len() as u64, workplace.read("sealed.json").len() as u64);
            let (most, engine_most) = (sealed.memory_max.max(opened.memory_max), memory(engine.child.id()));
            println!(
                "{name} {place}: {time:?} both ways, {size} bytes, {output} sealed, memory {} MiB, the engine {} MiB",
                most / MIB,
                engine_most / MIB
            );
            // Input and output whole, the output with the room that a growing vector leaves, and the program itself. Over
            // the network the request and the answer are messages besides.
            let copies = if door.is_empty() { size + 2 * output } else { 2 * (size + output) };
            assert!(most > size, "memory was not measured");
            assert!(most < copies + 64 * MIB, "{name} {place}: {} MiB", most / MIB);
            if !door.is_empty() {
                assert!(engine_most < size + 3 * output + 128 * MIB, "the engine: {} MiB", engine_most / MIB);
            }
        }
    }
}

/// JSON Lines of any length pass with the memory of some blocks.
#[test]
fn lines_pass_in_bounded_memory() {
    let workplace = Workplace::with_app();
    let line = "{\"id\": 1, \"note\": \"some text that is neither long nor short, as exports have it\", \"card\": \"4242424242424242\"}\n";
    let content = line.repeat(400_000);
    assert!(content.len() > 40 << 20);
    workplace.write("many.jsonl", &content);
    let sealed = workplace.run(&["encrypt", "--app", "acme", "--select", "$.card", "many.jsonl", "-o", "sealed.jsonl"]);
    assert_eq!(sealed.code, 0, "{}", sealed.stderr);
    let opened = workplace.run(&["decrypt", "--app", "acme", "sealed.jsonl", "-o", "opened.jsonl"]);
    assert_eq!(opened.code, 0, "{}", opened.stderr);
    assert!(workplace.read("opened.jsonl") == content.as_bytes());
    println!("memory {} MiB, {} MiB", sealed.memory_max / MIB, opened.memory_max / MIB);
    assert!(
        sealed.memory_max.max(opened.memory_max) < 48 * MIB,
        "{} MiB",
        sealed.memory_max.max(opened.memory_max) / MIB
    );
}
