//! How fast documents are walked: bytes that nothing selects, and fields that are matched.
//!
//! Each shape of text is walked with full validation by selectors that match nothing: one that lets the walk skip, one that makes
//! it compare every name. The other libraries parse the same bytes into nothing (`serde_json` and `sonic-rs` into `IgnoredAny`; the
//! former does not validate UTF-8). After criterion's figures a table gives the fastest rounds and ratios. `cargo test --benches`
//! runs all of it on tiny documents.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use leafseal_document::{DocumentLimits, Match, Purpose, Selection, WalkProgress, Walker};
use serde::de::IgnoredAny;

/// Size of each document of unselected text: larger than the caches of one core.
const SIZE: usize = 8 << 20;

/// The same for a trial run.
const SIZE_TINY: usize = 8 << 10;

/// Rounds of which the table takes the fastest: the work is the same in each, the slower ones show interference.
const ROUNDS: usize = 21;

/// A document with its name in the table.
struct Shape {
    name: &'static str,
    document: Vec<u8>,
}

/// Pseudo-random numbers that are the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// An array of about `size` bytes, element by element.
fn array_of(size: usize, separator: &str, mut element: impl FnMut(&mut Random, usize) -> String) -> Vec<u8> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut text = String::from("[");
    let mut count = 0;
    while text.len() < size {
        text.push_str(if count == 0 { "" } else { separator });
        text.push_str(&element(&mut random, count));
        count += 1;
    }
    text.push(']');
    text.into_bytes()
}

fn record(random: &mut Random, number: usize) -> String {
    let names = ["Ana", "Bartholomew", "Chidi", "Dorothée", "Édith", "Ferdinand-Louis", "Gül", "Ho"];
    let name = names[random.next() as usize % names.len()];
    let (card, amount, street) = (random.next() % 10_000, random.next() % 100_000, random.next() % 300);
    let contact =
        format!(r#""name":"{name} Example","email":"user{card}@example.com","card":"4242 4242 4242 {card:04}""#);
    let money = format!(r#""amount":{}.{:02},"active":{}"#, amount / 100, amount % 100, amount % 3 == 0);
    let address = format!(r#"{{"street":"{street} Long Road","city":"Springfield","zip":null}}"#);
    let tags = format!(r#"["a","customer-{}"]"#, card % 7);
    format!(r#"{{"id":{number},{contact},{money},"address":{address},"tags":{tags}}}"#)
}

fn pretty(random: &mut Random, number: usize) -> String {
    let value: serde_json::Value = serde_json::from_str(&record(random, number)).expect("a record is JSON");
    serde_json::to_string_pretty(&value).expect("a value can be written")
}

fn shapes(size: usize) -> Vec<Shape> {
    let sentence = "The quick brown fox jumps over the lazy dog, and nobody minds. ";
    let shape = |name, document| Shape { name, document };
    vec![
        shape("compact records", array_of(size, ",", record)),
        shape("pretty-printed records", array_of(size, ",\n", pretty)),
        shape(
            "long strings",
            array_of(size, ",", |random, _| format!("\"{}\"", sentence.repeat(20 + random.next() as usize % 60))),
        ),
        shape(
            "long strings, Greek",
            array_of(size, ",", |random, _| {
                format!("\"{}\"", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ".repeat(20 + random.next() as usize % 60))
            }),
        ),
        shape(
            "integers",
            array_of(size, ",", |random, _| {
                let digits = random.next() % 12;
                (random.next() % 10_u64.pow(digits as u32 + 1)).to_string()
            }),
        ),
        shape(
            "coordinates",
            array_of(size, ",", |random, _| {
                let (x, y) = (random.next() % 180_000_000, random.next() % 90_000_000);
                format!("[-{}.{:06},{}.{:06}]", x / 1_000_000, x % 1_000_000, y / 1_000_000, y % 1_000_000)
            }),
        ),
        shape(
            "escapes",
            array_of(size, ",", |random, _| format!(r#""line {}\nC:\\dir\\file\t\u00e9\"""#, random.next() % 1000)),
        ),
    ]
}

/// Walks a document as the engine does, and returns the number of matches.
fn walk(document: &[u8], selection: &Selection, matches: &mut Vec<Match>) -> usize {
    let limits = DocumentLimits::default();
    let mut walker = Walker::new(document, selection, Purpose::Encrypt, &limits).expect("within the limits");
    let mut count = 0;
    loop {
        matches.clear();
        let progress = walker.next_batch(matches, 1024, 64 << 10).expect("well-formed");
        count += black_box(&matches).len();
        if progress == WalkProgress::Done {
            return count;
        }
    }
}

/// The parsers that are compared.
#[derive(Clone, Copy)]
enum Reader {
    Walker,
    SerdeJson,
    SonicRs,
}

const READERS: [(&str, Reader); 3] =
    [("walker", Reader::Walker), ("serde_json", Reader::SerdeJson), ("sonic-rs", Reader::SonicRs)];

fn read(reader: Reader, document: &[u8], selection: &Selection, matches: &mut Vec<Match>) {
    match reader {
        Reader::Walker => assert_eq!(walk(document, selection, matches), 0),
        Reader::SerdeJson => {
            black_box(serde_json::from_slice::<IgnoredAny>(document).expect("well-formed"));
        }
        Reader::SonicRs => {
            black_box(sonic_rs::from_slice::<IgnoredAny>(document).expect("well-formed"));
        }
    }
}

fn fastest(mut once: impl FnMut()) -> Duration {
    let time = |_| {
        let begin = Instant::now();
        once();
        begin.elapsed()
    };
    (0..ROUNDS).map(time).min().expect("there are rounds")
}

/// A selector that makes the automaton compare every name and selects nothing.
fn searching() -> Selection {
    Selection::parse(&["$..absent"], &DocumentLimits::default()).expect("a valid selector")
}

fn skipping() -> Selection {
    Selection::parse(&["$.absent"], &DocumentLimits::default()).expect("a valid selector")
}

fn unselected(criterion: &mut Criterion, size: usize) {
    let (searching, skipping, mut matches) = (searching(), skipping(), Vec::new());
    let shapes = shapes(size);
    for shape in &shapes {
        let mut group = criterion.benchmark_group(format!("unselected/{}", shape.name));
        group.throughput(Throughput::Bytes(shape.document.len() as u64)).sample_size(10);
        group.bench_function("walker", |bencher| {
            bencher.iter(|| read(Reader::Walker, &shape.document, &skipping, &mut matches));
        });
        group.finish();
    }
    println!("\nGB/s of unselected text, {} MiB each, fastest of {ROUNDS}; the ratio is walker / peer", size >> 20);
    print!("{:24}{:>10}{:>12}", "", "walker", "searching");
    READERS[1..].iter().for_each(|(name, _)| print!("{name:>20}"));
    println!();
    for shape in &shapes {
        let gigabytes = shape.document.len() as f64 / 1e9;
        let mut speed = |reader, selection: &Selection| {
            gigabytes / fastest(|| read(reader, &shape.document, selection, &mut matches)).as_secs_f64()
        };
        let ours = speed(Reader::Walker, &skipping);
        print!("{:24}{ours:>10.2}{:>12.2}", shape.name, speed(Reader::Walker, &searching));
        for (_, reader) in &READERS[1..] {
            let peer = speed(*reader, &skipping);
            print!("{:>12.2} ({:>4.1}x)", peer, ours / peer);
        }
        println!();
    }
}

/// Documents of `fields` records, the last of 100 MB, and selectors that select fields of them in different ways.
fn matched(criterion: &mut Criterion, field_counts: &[usize]) {
    let limits = DocumentLimits::default();
    let selections = [
        ("everything", Selection::everything()),
        ("$[*].card", Selection::parse(&["$[*].card"], &limits).expect("valid")),
        ("$..card", Selection::parse(&["$..card"], &limits).expect("valid")),
        ("$[-1000000:].card", Selection::parse(&["$[-1000000:].card"], &limits).expect("valid")),
        ("$[?@.card].card", Selection::parse(&["$[?@.card].card"], &limits).expect("valid")),
    ];
    println!("\nns a field matched, fastest of {ROUNDS}; of documents with so many records: one field of each, or all");
    let mut random = Random(7);
    let mut matches = Vec::new();
    for (name, selection) in &selections {
        print!("{name:24}");
        let mut first = None;
        for &fields in field_counts {
            let records: Vec<_> = (0..fields).map(|number| record(&mut random, number)).collect();
            let document = format!("[{}]", records.join(",")).into_bytes();
            let count = walk(&document, selection, &mut matches);
            assert!(count >= fields);
            if *name == "$[*].card" {
                let mut group = criterion.benchmark_group("matched");
                group.sample_size(10).bench_function(fields.to_string(), |bencher| {
                    bencher.iter(|| walk(&document, selection, &mut matches));
                });
                group.finish();
            }
            let time = fastest(|| assert_eq!(walk(&document, selection, &mut matches), count)).as_nanos() as f64;
            let each = time / count as f64;
            print!("{fields:>10}: {each:>7.1} ns ({:.2}x)", each / *first.get_or_insert(each));
        }
        println!();
    }
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let mut criterion = Criterion::default().configure_from_args();
    let (size, fields): (_, &[usize]) =
        if is_bench { (SIZE, &[2_000, 60_000, 450_000]) } else { (SIZE_TINY, &[3, 30]) };
    unselected(&mut criterion, size);
    matched(&mut criterion, fields);
    criterion.final_summary();
}
