//! AES-256-GCM of many messages of one length with 33 bytes of associated data, as an envelope has them: nanoseconds a message through
//! each kernel of the lanes, the library's loop, and aws-lc-rs in the same run; one message at a time, by the public call and by the
//! kernels themselves; then groups of several sizes, and keys.
//!
//! Medians of rounds that take all rows in turn; in brackets how many times faster than the library's loop.

use std::hint::black_box;
use std::time::Instant;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce as LcNonce, UnboundKey};
use leafseal_crypto::Implementations;
use leafseal_crypto::aead::{AeadAlgorithm, AeadKey, Nonce, OpenItem, SealItem, TAG_SIZE};
use leafseal_lanes::gcm;

const SIZES: [usize; 16] = [0, 8, 16, 24, 32, 33, 48, 64, 100, 128, 192, 256, 384, 512, 1024, 4096];
/// Messages of a call, as an envelope has them.
const COUNT: usize = 32;
const ROUNDS: usize = 101;
const AAD: [u8; 33] = [3; 33];
const KEY: [u8; 32] = [7; 32];

type Work<'a> = Box<dyn FnMut(&mut [u8]) + 'a>;

struct Row<'a> {
    name: String,
    once: Work<'a>,
    times: Vec<f64>,
}

fn row<'a>(name: impl Into<String>, once: impl FnMut(&mut [u8]) + 'a) -> Row<'a> {
    Row { name: name.into(), once: Box::new(once), times: Vec::new() }
}

/// Nanoseconds of each row for one of `count`.
fn measure(rows: &mut [Row<'_>], count: usize, out: &mut [u8]) {
    for _ in 0..ROUNDS {
        for row in rows.iter_mut() {
            let calls = 2_000_usize.div_ceil(count);
            let start = Instant::now();
            for _ in 0..calls {
                (row.once)(black_box(out));
            }
            row.times.push(start.elapsed().as_nanos() as f64 / (calls * count) as f64);
        }
    }
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn available() -> Vec<(Implementations, AeadKey)> {
    let key = |lanes| Some((lanes, AeadKey::with_lanes(lanes, AeadAlgorithm::Aes256Gcm, &KEY).ok()?));
    Implementations::ALL.into_iter().skip(1).filter_map(key).collect()
}

fn aws_lc(key: &LessSafeKey, items: &[SealItem<'_>], out: &mut [u8]) {
    for (item, out) in items.iter().zip(out.chunks_exact_mut(items[0].plaintext.len() + TAG_SIZE)) {
        let (text, tag_place) = out.split_at_mut(item.plaintext.len());
        text.copy_from_slice(item.plaintext);
        let nonce = LcNonce::assume_unique_for_key(item.nonce.0);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(item.aad), text).expect("seals");
        tag_place.copy_from_slice(tag.as_ref());
    }
}

/// All rows for messages of one size: name and nanoseconds a message.
fn size_column(size: usize) -> Vec<(String, f64)> {
    let texts = vec![vec![1; size]; COUNT];
    let items: Vec<SealItem<'_>> =
        (0_u8..).zip(&texts).map(|(i, plaintext)| SealItem { nonce: Nonce([i; 12]), aad: &AAD, plaintext }).collect();
    let keys = available();
    let mut sealed = vec![0; COUNT * (size + TAG_SIZE)];
    keys[0].1.seal_many(&items, &mut sealed);
    let open_items: Vec<OpenItem<'_>> = items
        .iter()
        .zip(sealed.chunks_exact(size + TAG_SIZE))
        .map(|(item, sealed)| OpenItem { nonce: item.nonce, aad: item.aad, sealed })
        .collect();
    let lc = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &KEY).expect("32 bytes"));
    let mut rows = Vec::new();
    let (items, open_items) = (&items, &open_items);
    for (lanes, key) in &keys {
        rows.push(row(format!("seal {}", lanes.name()), move |out: &mut [u8]| key.seal_many(items, out)));
    }
    rows.push(row("seal aws-lc-rs", move |out: &mut [u8]| aws_lc(&lc, items, out)));
    for (lanes, key) in &keys {
        let mut results = [Ok(()); COUNT];
        rows.push(row(format!("open {}", lanes.name()), move |out: &mut [u8]| {
            key.open_many(open_items, &mut out[..COUNT * size], &mut results);
            assert!(results.iter().all(Result::is_ok));
        }));
    }
    for (lanes, key) in &keys {
        rows.push(row(format!("seal {}, one a call", lanes.name()), move |out: &mut [u8]| {
            for (item, out) in items.iter().zip(out.chunks_exact_mut(size + TAG_SIZE)) {
                key.seal(item, out);
            }
        }));
    }
    for kernel in gcm::Kernel::detect().into_iter().filter(|_| size <= gcm::MESSAGE_SIZE_MAX) {
        let key = gcm::GcmKey::new(kernel, &KEY);
        rows.push(row(format!("kernel {}, alone", kernel.name()), move |out: &mut [u8]| {
            for (item, out) in items.iter().zip(out.chunks_exact_mut(size + TAG_SIZE)) {
                key.seal(std::slice::from_ref(item), out);
            }
        }));
    }
    let mut out = vec![0; COUNT * (size + TAG_SIZE)];
    measure(&mut rows, COUNT, &mut out);
    rows.into_iter().map(|row| (row.name, median(&row.times))).collect()
}

/// Messages of a call and how they are alike.
#[derive(Clone, Copy, PartialEq)]
enum Likeness {
    /// 32 bytes each, the same associated data.
    Alike,
    /// 32 bytes each, associated data of their own.
    OwnAad,
    /// From 1 to 63 bytes, 32 on average, the same associated data.
    Mixed,
}

/// Nanoseconds a message for calls of `count` messages, by each kernel.
fn count_column(count: usize, likeness: Likeness) -> Vec<(String, f64)> {
    let size = |i: usize| if likeness == Likeness::Mixed { 1 + (i * 37 + 31) % 63 } else { 32 };
    let texts: Vec<Vec<u8>> = (0..count).map(|i| vec![1; size(i)]).collect();
    let aads = vec![AAD; count];
    let aad = |i: usize| aads[if likeness == Likeness::OwnAad { i } else { 0 }].as_slice();
    let item = |(i, plaintext)| SealItem { nonce: Nonce([i as u8; 12]), aad: aad(i), plaintext };
    let items: Vec<SealItem<'_>> = texts.iter().map(Vec::as_slice).enumerate().map(item).collect();
    let keys = available();
    let mut rows: Vec<Row<'_>> =
        keys.iter().map(|(lanes, key)| row(lanes.name(), |out: &mut [u8]| key.seal_many(&items, out))).collect();
    let mut out = vec![0; texts.iter().map(|text| text.len() + TAG_SIZE).sum()];
    measure(&mut rows, count, &mut out);
    rows.into_iter().map(|row| (row.name, median(&row.times))).collect()
}

fn tell_counts() {
    let mut columns: Vec<(String, Vec<(String, f64)>)> =
        [1, 2, 4, 8, 16, 32, 63].map(|count| (count.to_string(), count_column(count, Likeness::Alike))).into();
    columns.push(("63, own AAD".to_owned(), count_column(63, Likeness::OwnAad)));
    columns.push(("63, mixed".to_owned(), count_column(63, Likeness::Mixed)));
    println!("\nNanoseconds a message of 32 bytes by messages a call\n");
    print!("{:<24}", "messages");
    columns.iter().for_each(|(name, _)| print!("{name:>14}"));
    println!();
    for (place, (name, _)) in columns[0].1.iter().enumerate() {
        print!("{name:<24}");
        columns.iter().for_each(|(_, column)| print!("{:>14.1}", column[place].1));
        println!();
    }
}

fn main() {
    let sizes: &[usize] = if std::env::args().any(|argument| argument == "--test") { &SIZES[..1] } else { &SIZES };
    let columns: Vec<Vec<(String, f64)>> = sizes.iter().map(|&size| size_column(size)).collect();
    println!("\nNanoseconds a message, {COUNT} a call (times faster than the library's loop)\n");
    print!("{:<24}", "bytes");
    sizes.iter().for_each(|size| print!("{size:>14}"));
    println!();
    for (place, (name, _)) in columns[0].iter().enumerate() {
        print!("{name:<24}");
        for column in columns.iter().filter(|column| place < column.len()) {
            let is_open = name.starts_with("open");
            let library =
                column.iter().find(|(name, _)| name == if is_open { "open portable" } else { "seal portable" });
            let (nanoseconds, library) = (column[place].1, library.expect("the library's row").1);
            print!("{:>14}", format!("{nanoseconds:.1} ({:.1})", library / nanoseconds));
        }
        println!();
    }
    tell_counts();
    let mut rows: Vec<Row<'_>> = Implementations::ALL
        .into_iter()
        .skip(1)
        .filter(|lanes| AeadKey::with_lanes(*lanes, AeadAlgorithm::Aes256Gcm, &KEY).is_ok())
        .map(|lanes| {
            row(format!("key {}", lanes.name()), move |out: &mut [u8]| {
                drop(black_box(AeadKey::with_lanes(lanes, AeadAlgorithm::Aes256Gcm, &out[..32])));
            })
        })
        .collect();
    measure(&mut rows, 1, &mut [7; 32]);
    println!();
    rows.iter().for_each(|row| println!("{:<24}{:>14.0}", row.name, median(&row.times)));
}
