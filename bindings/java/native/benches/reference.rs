//! The reference that the Java provider is measured against: the `crypto` crate in Rust, with the same sizes, shapes and directions.
//!
//! Prints a line for each: mode, size, calls, direction, nanoseconds a message (median of rounds).

use std::hint::black_box;
use std::time::{Duration, Instant};

use leafseal_crypto::{AeadAlgorithm, AeadKey, CipherAlgorithm, CipherKey, Nonce};

const SIZES: [usize; 8] = [32, 256, 1024, 16_384, 65_536, 1 << 20, 10 << 20, 100 << 20];
const CHUNK_SIZE: usize = 16 * 1024;
const ROUNDS: usize = 7;
const ROUND_TIME: Duration = Duration::from_millis(150);

/// The median time of a call in nanoseconds, and the number of calls in each round.
fn measure(mut call: impl FnMut()) -> f64 {
    call();
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let (start, mut calls) = (Instant::now(), 0_u32);
            while start.elapsed() < ROUND_TIME || calls == 0 {
                call();
                calls += 1;
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn gcm(size: usize) {
    let key = AeadKey::new(AeadAlgorithm::Aes256Gcm, &[0; 32]).expect("length");
    let (text, mut sealed, mut opened) = (vec![7; size], vec![1; size], vec![1; size]);
    let (nonce, mut tag) = (Nonce([3; 12]), [0; 16]);
    let print = |calls, direction, time| println!("GCM {size} {calls} {direction} {time:.1}");
    print("entire", "encrypt", measure(|| key.seal_detached(&nonce, &[], black_box(&text), &mut sealed, &mut tag)));
    let open = || key.open_detached(&nonce, &[], black_box(&sealed), &mut opened, &tag).expect("the right tag");
    print("entire", "decrypt", measure(open));
    if size <= CHUNK_SIZE {
        return;
    }
    let seal_chunks = || {
        let mut stream = key.seal_stream(&nonce, &[]);
        text.chunks(CHUNK_SIZE).zip(sealed.chunks_mut(CHUNK_SIZE)).for_each(|(from, to)| stream.update(from, to));
        black_box(stream.finish());
    };
    print("chunked", "encrypt", measure(seal_chunks));
    let open_chunks = || {
        let mut stream = key.open_stream(&nonce, &[]);
        sealed.chunks(CHUNK_SIZE).zip(opened.chunks_mut(CHUNK_SIZE)).for_each(|(from, to)| stream.update(from, to));
        stream.finish(&tag).expect("the right tag");
    };
    print("chunked", "decrypt", measure(open_chunks));
}

fn ctr(size: usize) {
    let key = CipherKey::new(CipherAlgorithm::Aes256Ctr, &[0; 32]).expect("length");
    let (text, mut out) = (vec![7; size], vec![1; size]);
    println!("CTR {size} entire encrypt {:.1}", measure(|| key.apply(&[3; 16], black_box(&text), &mut out)));
}

fn main() {
    for size in SIZES {
        gcm(size);
        ctr(size);
    }
}
