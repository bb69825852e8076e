//! Values of 32 bytes, each under its own key, in groups as in a step of the engine: microseconds per value to its envelope's text,
//! by the library alone and with a recipient's table. And many values under one key, also a symmetric one with a nonce prefix for all
//! or for each: nanoseconds per value to text and back.
//!
//! Medians of rounds that take all rows in turn; in brackets how many times faster than the library.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use leafseal_crypto::random::system_random;
use leafseal_crypto::symmetric::{SymmetricKey, SymmetricRoot};
use leafseal_crypto::{Curve, EcContext, PrivateKey, Recipient};
use leafseal_envelope::{
    Binding, Marking, NoncePrefixes, SymmetricEnvelope, SymmetricOpening, SymmetricProfile, SymmetricSealing,
    SymmetricVersion,
};
use leafseal_envelope::{
    OpenScratch, OpeningKey, Profile, PublicKeyEnvelope, SealScratch, SealedInput, SealingKey, ValueType, seal_each,
};
use rand::SeedableRng;
use rand::rngs::StdRng;

const ROUNDS: usize = 301;
const TEXT: [u8; 32] = [b'x'; 32];
/// Values under one key: a step of the engine.
const MANY: usize = 256;
/// Values that have a nonce prefix each.
const MANY_PREFIXES: usize = 2_000;
/// Neighbours that are taken apart before they are opened, as the engine does it.
const RUN: usize = 64;

struct Row {
    name: String,
    recipient: Recipient,
    count: usize,
    times: Vec<f64>,
}

fn seal(context: &EcContext, row: &Row, rng: &mut StdRng, out: &mut Vec<u8>) {
    let profile = Profile::plain(row.recipient.public().curve());
    let values = vec![SealedInput { value_type: ValueType::String, text: &TEXT }; row.count];
    let scratch = &mut SealScratch::default();
    out.clear();
    seal_each(context, &row.recipient, profile, None, &values, rng, scratch, out, |_, _, _| ());
}

fn open(key: &OpeningKey, texts: &[&[u8]], scratch: &mut OpenScratch) {
    let mut envelopes: Vec<PublicKeyEnvelope<'_>> = Vec::with_capacity(RUN);
    for texts in texts.chunks(RUN) {
        for text in texts {
            PublicKeyEnvelope::parse_next(text, &mut envelopes).expect("an envelope");
        }
        key.open_many(&envelopes, scratch, |_, opened| {
            black_box(opened.expect("opens"));
        });
        envelopes.clear();
    }
}

/// Many values under one key.
fn many(context: &EcContext, curve: Curve, rounds: usize, rng: &mut StdRng) {
    let private = PrivateKey::generate(curve, rng);
    let public = context.public_key(&private);
    let key = SealingKey::generate(context, &Recipient::from(public), Profile::plain(curve), 1 << 32, rng);
    let values = [SealedInput { value_type: ValueType::String, text: &TEXT }; MANY];
    let (mut scratch, mut out, mut sealing, mut opening) = (SealScratch::default(), Vec::new(), Vec::new(), Vec::new());
    let (mut open_scratch, mut opening_key) = (OpenScratch::default(), None);
    for _ in 0..rounds {
        out.clear();
        let start = Instant::now();
        let header = |_, size: usize, out: &mut Vec<u8>| out.extend_from_slice(&[0xd9, size as u8]);
        key.seal_many(None, rng, &values, &mut scratch, black_box(&mut out), header).expect("nonces are left");
        sealing.push(start.elapsed().as_nanos() as f64 / MANY as f64);
        let texts: Vec<&[u8]> = out.chunks(out.len() / MANY).map(|text| &text[2..]).collect();
        let opening_key = opening_key.get_or_insert_with(|| {
            let ephemeral = PublicKeyEnvelope::parse(texts[0]).expect("an envelope").ephemeral_key().expect("a point");
            OpeningKey::agree(context, &private, &public, &ephemeral)
        });
        let start = Instant::now();
        open(opening_key, black_box(&texts), &mut open_scratch);
        opening.push(start.elapsed().as_nanos() as f64 / MANY as f64);
    }
    for (name, mut times) in [("sealing", sealing), ("opening", opening)] {
        times.sort_by(f64::total_cmp);
        println!("{name:<24}{:>10.1} ns", times[rounds / 2]);
    }
}

/// How many values a request for which a prefix is drawn has.
#[derive(Clone, Copy)]
enum Requests {
    /// Those of one round.
    New,
    /// Those of all rounds: the prefix is known, as is the key of a row of a public key.
    One,
}

/// Many values under one symmetric key.
fn many_symmetric(requests: Requests, prefixes: NoncePrefixes, count: usize, rounds: usize) {
    let key = Arc::new(SymmetricKey::new(&SymmetricRoot::generate(&mut system_random())));
    let profile = SymmetricProfile { version: SymmetricVersion::Weff, marking: Marking::Live };
    let binding = Binding::default();
    let values = vec![SealedInput { value_type: ValueType::String, text: &TEXT }; count];
    let (mut scratch, mut out, mut sealing, mut opening) = (SealScratch::default(), Vec::new(), Vec::new(), Vec::new());
    let mut open_scratch = OpenScratch::default();
    let rng = &mut system_random();
    let mut request = SymmetricSealing::new(Arc::clone(&key), profile, &binding, prefixes, rng);
    for _ in 0..rounds {
        out.clear();
        let start = Instant::now();
        let header = |_, size: usize, out: &mut Vec<u8>| out.extend_from_slice(&[0xd9, size as u8]);
        if matches!(requests, Requests::New) {
            request = SymmetricSealing::new(Arc::clone(&key), profile, &binding, prefixes, rng);
        }
        request.seal_many(None, rng, &values, &mut scratch, black_box(&mut out), header);
        sealing.push(start.elapsed().as_nanos() as f64 / count as f64);
        let texts: Vec<&[u8]> = out.chunks(out.len() / count).map(|text| &text[2..]).collect();
        let start = Instant::now();
        let mut run: Vec<SymmetricEnvelope<'_>> = Vec::with_capacity(RUN);
        for texts in black_box(&texts).chunks(RUN) {
            for text in texts {
                SymmetricEnvelope::parse_next(text, &mut run).expect("an envelope");
            }
            SymmetricOpening::new(&key, &binding).open_many(&run, &mut open_scratch, |_, opened| {
                black_box(opened.expect("opens"));
            });
            run.clear();
        }
        opening.push(start.elapsed().as_nanos() as f64 / count as f64);
    }
    for (name, mut times) in [("sealing", sealing), ("opening", opening)] {
        times.sort_by(f64::total_cmp);
        println!("{name:<24}{:>10.1} ns", times[rounds / 2]);
    }
}

fn main() {
    let rounds = if std::env::args().any(|argument| argument == "--test") { 1 } else { ROUNDS };
    let mut rng = StdRng::seed_from_u64(1);
    let context = EcContext::new(&mut rng);
    let mut out = Vec::new();
    for curve in Curve::ALL {
        let public = context.public_key(&PrivateKey::generate(curve, &mut rng));
        let row = |name: String, recipient, count| Row { name, recipient, count, times: Vec::new() };
        let mut rows = vec![row("library".to_owned(), Recipient::from(public), 1)];
        let groups =
            [1, 2, 4, 8].map(|count| row(format!("table, {count} a call"), Recipient::with_table(public), count));
        rows.extend(groups);
        for _ in 0..rounds {
            for row in &mut rows {
                let start = Instant::now();
                seal(&context, row, &mut rng, black_box(&mut out));
                row.times.push(start.elapsed().as_nanos() as f64 / row.count as f64 / 1_000.0);
            }
        }
        println!("\nMicroseconds a value on {}\n", curve.short_name());
        rows.iter_mut().for_each(|row| row.times.sort_by(f64::total_cmp));
        let library = rows[0].times[rounds / 2];
        for row in &rows {
            let median = row.times[rounds / 2];
            println!("{:<24}{median:>10.2} ({:.2})", row.name, library / median);
        }
        println!("\n{MANY} values under one key on {}\n", curve.short_name());
        many(&context, curve, 20 * rounds, &mut rng);
    }
    println!("\n{MANY} values with a symmetric key under a known nonce prefix\n");
    many_symmetric(Requests::One, NoncePrefixes::One, MANY, 20 * rounds);
    println!("\n{MANY} values with a symmetric key and a fresh nonce prefix\n");
    many_symmetric(Requests::New, NoncePrefixes::One, MANY, 20 * rounds);
    println!("\nOne value with a symmetric key and a fresh nonce prefix\n");
    many_symmetric(Requests::New, NoncePrefixes::One, 1, 20 * rounds);
    println!("\n{MANY_PREFIXES} values with a symmetric key and a nonce prefix each\n");
    many_symmetric(Requests::New, NoncePrefixes::Each, MANY_PREFIXES, 2 * rounds);
}
