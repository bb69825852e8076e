//! XAES-256-GCM of values of 32 bytes with 34 bytes of associated data: nanoseconds a value through each kernel of the lanes, under one
//! prefix and under one for each value, beside AES-256-GCM under a known key without associated data, and libraries that derive the key of
//! each value: BoringSSL (AES and `EVP_AEAD`) and RustCrypto; and the drawing of nonces.
//!
//! Medians of rounds that take all rows in turn; in brackets the ratio to the known key on the same kernel. `--json` prints the same as
//! JSON.

use std::hint::black_box;
use std::time::Instant;

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::AeadInPlace;
use aes_gcm::aes::Aes256;
use aes_gcm::aes::cipher::{BlockEncrypt, KeyInit};
use leafseal_crypto::Implementations;
use leafseal_crypto::aead::{AeadAlgorithm, AeadKey, SealItem, TAG_SIZE};
use leafseal_crypto::random::system_random;
use leafseal_crypto::xaes::{XaesKey, XaesNonce, XaesNonces, XaesOpenItem, XaesSealItem};

const COUNTS: [usize; 7] = [1, 2, 8, 16, 30, 200, 2_000];
const ROUNDS: usize = 101;
/// Values of a measurement.
const VALUES: usize = 4_000;
const SIZE: usize = 32;
const AAD: [u8; 34] = [3; 34];
const KEY: [u8; 32] = [7; 32];

struct Row<'a> {
    name: String,
    /// The row of the known key on the same kernel, by its place.
    base: usize,
    once: Box<dyn FnMut() + 'a>,
    times: Vec<f64>,
}

/// A row of the table: its name, the place of its base, nanoseconds a value.
type Figure = (String, usize, f64);

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn measure(mut rows: Vec<Row<'_>>, count: usize, rounds: usize) -> Vec<Figure> {
    for _ in 0..rounds {
        for row in &mut rows {
            let calls = VALUES.div_ceil(count);
            let start = Instant::now();
            (0..calls).for_each(|_| (row.once)());
            row.times.push(start.elapsed().as_nanos() as f64 / (calls * count) as f64);
        }
    }
    rows.into_iter().map(|mut row| (row.name, row.base, median(&mut row.times))).collect()
}

/// The steps of the specification by RustCrypto, which keeps its keys on the stack.
fn rust_crypto(aes: &Aes256, item: &XaesSealItem<'_>, out: &mut [u8]) {
    let mut blocks = [[0; 16]; 3];
    aes.encrypt_block((&mut blocks[2]).into());
    let subkey = u128::from_be_bytes(blocks[2]);
    let subkey = subkey << 1 ^ 0x87 & (subkey >> 127).wrapping_neg();
    for (counter, block) in (1..).zip(&mut blocks[..2]) {
        (block[1], block[2]) = (counter, b'X');
        block[4..].copy_from_slice(item.nonce.prefix());
        *block = (u128::from_be_bytes(*block) ^ subkey).to_be_bytes();
        aes.encrypt_block(block.into());
    }
    let (text, tag_place) = out.split_at_mut(item.plaintext.len());
    text.copy_from_slice(item.plaintext);
    let gcm = Aes256Gcm::new(blocks[..2].as_flattened().into());
    let tag = gcm.encrypt_in_place_detached(item.nonce.suffix().into(), item.aad, text).expect("seals");
    tag_place.copy_from_slice(&tag);
}

fn nonces(count: usize, are_of_one: bool) -> Vec<XaesNonce> {
    let mut rng = system_random();
    match are_of_one {
        true => XaesNonces::with_one_prefix(&mut rng).take(count).collect(),
        false => XaesNonces::with_prefix_each(&mut rng, count).collect(),
    }
}

fn items<'a>(nonces: &[XaesNonce], texts: &'a [[u8; SIZE]]) -> Vec<XaesSealItem<'a>> {
    nonces.iter().zip(texts).map(|(&nonce, plaintext)| XaesSealItem { nonce, aad: &AAD, plaintext }).collect()
}

/// The rows of one kernel, or of the library.
fn rows_of(lanes: Implementations, count: usize, base: usize) -> Vec<Row<'static>> {
    let (Ok(key), Ok(gcm)) =
        (XaesKey::with_lanes(lanes, &KEY), AeadKey::with_lanes(lanes, AeadAlgorithm::Aes256Gcm, &KEY))
    else {
        return Vec::new();
    };
    // Rows live as long as the bench.
    let (key, texts): (&'static XaesKey, _) = (Box::leak(Box::new(key)), &*vec![[5; SIZE]; count].leak());
    let [one, each] = [true, false].map(|are_of_one| items(&nonces(count, are_of_one), texts));
    let known: Vec<SealItem<'_>> = one.iter().map(|item| SealItem { aad: &[], ..item.under_prefix() }).collect();
    let sealed = vec![[0; SIZE + TAG_SIZE]; count].leak();
    key.seal_many(&each, sealed.as_flattened_mut());
    let open: Vec<XaesOpenItem<'_>> = each
        .iter()
        .zip(&*sealed)
        .map(|(item, sealed)| XaesOpenItem { nonce: item.nonce, aad: item.aad, sealed })
        .collect();
    let [mut out, mut first, mut second] = [(); 3].map(|()| vec![[0; SIZE + TAG_SIZE]; count]);
    let row = |name: &str, once: Box<dyn FnMut()>| {
        let name = format!("{name}, {}", lanes.name());
        Row { name, base, once, times: Vec::new() }
    };
    let (mut plain, mut results) = (vec![[0; SIZE]; count], vec![Ok(()); count]);
    vec![
        row("known key", Box::new(move || gcm.seal_many(&known, black_box(out.as_flattened_mut())))),
        row("seal, one prefix", Box::new(move || key.seal_many(&one, black_box(first.as_flattened_mut())))),
        row("seal, a prefix each", Box::new(move || key.seal_many(&each, black_box(second.as_flattened_mut())))),
        row(
            "open, a prefix each",
            Box::new(move || {
                key.open_many(&open, black_box(plain.as_flattened_mut()), &mut results);
                assert!(results.iter().all(Result::is_ok));
            }),
        ),
    ]
}

fn column(count: usize, rounds: usize) -> Vec<Figure> {
    let mut rows = Vec::new();
    for lanes in Implementations::ALL.into_iter().skip(1) {
        rows.extend(rows_of(lanes, count, rows.len()));
    }
    let (texts, aes) = (&*vec![[5; SIZE]; count].leak(), Aes256::new(&KEY.into()));
    let (each, mut out) = (items(&nonces(count, false), texts), [0; SIZE + TAG_SIZE]);
    let mut other = |name: &str, once: Box<dyn FnMut()>| {
        rows.push(Row { name: name.to_owned(), base: 0, once, times: Vec::new() });
    };
    let one_by_one = Box::new(move || each.iter().for_each(|item| rust_crypto(&aes, item, black_box(&mut out))));
    other("seal, a prefix each, RustCrypto", one_by_one);
    other("nonces, one prefix", Box::new(move || drop(black_box(nonces(count, true)))));
    other("nonces, a prefix each", Box::new(move || drop(black_box(nonces(count, false)))));
    measure(rows, count, rounds)
}

fn main() {
    let has = |name: &str| std::env::args().any(|argument| argument == name);
    let (counts, rounds) = if has("--test") { (&COUNTS[..2], 1) } else { (&COUNTS[..], ROUNDS) };
    let columns: Vec<Vec<Figure>> = counts.iter().map(|&count| column(count, rounds)).collect();
    if has("--json") {
        let mut objects = Vec::new();
        for (count, column) in counts.iter().zip(&columns) {
            for (name, base, time) in column {
                let ratio = time / column[*base].2;
                objects.push(format!(
                    "  {{\"figure\": \"{name}\", \"values\": {count}, \"nanoseconds\": {time:.1}, \"ratio\": {ratio:.2}}}"
                ));
            }
        }
        println!("[\n{}\n]", objects.join(",\n"));
        return;
    }
    println!("\nNanoseconds a value of {SIZE} bytes by values a call (ratio to the known key)\n");
    print!("{:<32}", "values");
    counts.iter().for_each(|count| print!("{count:>16}"));
    println!();
    for (place, (name, ..)) in columns[0].iter().enumerate() {
        print!("{name:<32}");
        for column in &columns {
            let (_, base, time) = &column[place];
            print!("{:>16}", format!("{time:.1} ({:.2})", time / column[*base].2));
        }
        println!();
    }
}
