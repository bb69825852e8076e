//! The cost of a field in the wire format: finding the frame, reading the values, writing the answer.
//!
//! 2,000 strings of 32 bytes to the engine, 2,000 envelopes of 136 bytes back. Peers in the same run: `rmp` (readers over
//! `std::io`, no owned values), `rmp-serde` (typed, strings borrowed) and `rmpv` (a tree). After criterion's own report a
//! table gives medians of interleaved rounds, in nanoseconds a field, and ratios.

use std::hint::black_box;
use std::time::Instant;

use criterion::{Criterion, Throughput};
use leafseal_protocol::{EncryptOptions, EncryptParams, FrameLimits, Message, Scalar, Scanner, answer, request, write};
use serde::{Deserialize, Serialize};

const FIELDS: usize = 2_000;
const VALUE: &str = "a field of thirty-two characters";
/// An envelope's length for a 32-byte string: `ev:Tk9D:`, 16 and 44 and 64 of base64, separators and `:$`.
const ENVELOPE_SIZE: usize = 8 + 16 + 1 + 44 + 1 + 64 + 2;

fn encrypt_frame() -> Vec<u8> {
    let mut frame = Vec::new();
    request::encrypt(1, &EncryptOptions::new("acme"), std::iter::repeat_n(Scalar::from(VALUE), FIELDS), &mut frame);
    frame
}

fn scan(frame: &[u8]) -> usize {
    Scanner::new(FrameLimits::default()).scan(frame).expect("within limits").expect("whole")
}

/// All that a worker does with a frame before it seals: parse, options, every value.
fn decode(frame: &[u8]) -> usize {
    let Ok(Message::Request { params, .. }) = Message::parse(frame) else { panic!("a request") };
    let params = EncryptParams::decode(params).expect("good parameters");
    let mut size = 0;
    for value in params.values.iter() {
        if let Scalar::Str(text) = value.expect("a scalar") {
            size += black_box(text.as_bytes()).len();
        }
    }
    size
}

fn scan_and_decode(frame: &[u8]) -> usize {
    decode(&frame[..scan(frame)])
}

#[derive(Serialize, Deserialize)]
struct Params<'a> {
    app: &'a str,
    #[serde(borrow)]
    values: Vec<&'a str>,
}

#[derive(Serialize, Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    values: Vec<&'a str>,
}

fn decode_rmp_serde(frame: &[u8]) -> usize {
    let (_, _, _, (params,)): (u8, u32, &str, (Params<'_>,)) = rmp_serde::from_slice(frame).expect("a request");
    params.values.iter().map(|text| black_box(text).len()).sum()
}

fn decode_rmpv(frame: &[u8]) -> usize {
    let message = rmpv::decode::read_value_ref(&mut &frame[..]).expect("a request");
    let message = message.to_owned();
    let values = message[3][0]["values"].as_array().expect("a list");
    values.iter().map(|value| black_box(value.as_str().expect("a string")).len()).sum()
}

/// Only the list, with `rmp`'s slice reader, which is its fastest.
fn decode_rmp(frame: &[u8]) -> usize {
    let list = frame.len() - FIELDS * (2 + VALUE.len());
    let mut rest = &frame[list..];
    let mut size = 0;
    for _ in 0..FIELDS {
        let (text, tail) = rmp::decode::read_str_from_slice(rest).expect("a string");
        size += black_box(text).len();
        rest = tail;
    }
    size
}

fn encode(envelope: &str, out: &mut Vec<u8>) {
    out.clear();
    answer::begin_values(1, FIELDS as u32, out);
    for _ in 0..FIELDS {
        write::string(black_box(envelope), out);
    }
}

fn encode_rmp(envelope: &str, out: &mut Vec<u8>) {
    out.clear();
    answer::begin_values(1, FIELDS as u32, out);
    for _ in 0..FIELDS {
        rmp::encode::write_str(out, black_box(envelope)).expect("a Vec takes everything");
    }
}

fn encode_rmp_serde(envelope: &str, out: &mut Vec<u8>) {
    out.clear();
    let answer = Answer { values: vec![black_box(envelope); FIELDS] };
    let mut serializer = rmp_serde::Serializer::new(out).with_struct_map();
    (1, 1, (), answer).serialize(&mut serializer).expect("a Vec takes everything");
}

/// The floor of an encoder: the bytes of the answer copied.
fn copy(answer: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(black_box(answer));
}

struct Row {
    name: &'static str,
    /// Name of the row it is compared with.
    ours: &'static str,
    run: Box<dyn FnMut() -> usize>,
}

fn row(name: &'static str, ours: &'static str, run: impl FnMut() -> usize + 'static) -> Row {
    Row { name, ours, run: Box::new(run) }
}

fn encode_row(name: &'static str, ours: &'static str, run: fn(&str, &mut Vec<u8>)) -> Row {
    let envelope = "e".repeat(ENVELOPE_SIZE);
    let mut out = Vec::with_capacity(FIELDS * (ENVELOPE_SIZE + 8));
    row(name, ours, move || {
        run(&envelope, &mut out);
        black_box(&out).len()
    })
}

fn rows() -> Vec<Row> {
    let decode_row = |name, run: fn(&[u8]) -> usize| {
        let frame = encrypt_frame();
        row(name, "scan + decode", move || run(black_box(&frame)))
    };
    let answer = vec![b'e'; FIELDS * (ENVELOPE_SIZE + 2)];
    let mut out = Vec::with_capacity(answer.len());
    vec![
        decode_row("scan", scan),
        decode_row("decode", decode),
        decode_row("scan + decode", scan_and_decode),
        decode_row("decode, rmp (list alone)", decode_rmp),
        decode_row("decode, rmp-serde", decode_rmp_serde),
        decode_row("decode, rmpv", decode_rmpv),
        encode_row("encode", "encode", encode),
        encode_row("encode, rmp", "encode", encode_rmp),
        encode_row("encode, rmp-serde", "encode", encode_rmp_serde),
        row("copy of the answer", "encode", move || {
            copy(&answer, &mut out);
            black_box(&out).len()
        }),
    ]
}

fn criterion_report(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frames");
    group.throughput(Throughput::Elements(FIELDS as u64));
    for mut row in rows() {
        group.bench_function(row.name, |bencher| bencher.iter(&mut row.run));
    }
    group.finish();
}

/// Medians over rounds in which every row has its turn, so that a busy neighbour slows all of them.
fn table() {
    const ROUNDS: usize = 301;
    let mut rows = rows();
    let mut times = vec![Vec::with_capacity(ROUNDS); rows.len()];
    for _ in 0..ROUNDS {
        for (row, times) in rows.iter_mut().zip(&mut times) {
            let start = Instant::now();
            black_box((row.run)());
            times.push(start.elapsed().as_secs_f64() * 1e9 / FIELDS as f64);
        }
    }
    let medians: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
    let of = |name: &str| medians[rows.iter().position(|row| row.name == name).expect("a row")];
    println!("\n{:<26} {:>10} {:>8}", "2,000 fields of 32 B", "ns/field", "ratio");
    for (row, median) in rows.iter().zip(&medians) {
        println!("{:<26} {median:>10.2} {:>8.2}", row.name, median / of(row.ours));
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    criterion_report(&mut criterion);
    criterion.final_summary();
    table();
}
