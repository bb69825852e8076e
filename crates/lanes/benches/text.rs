//! Base64 of short values: every kernel of this CPU and two libraries, nanoseconds per call over many values one after another, and
//! the whole text of an encrypted value.
//!
//! Medians of rounds that take all rows in turn; in brackets how many times faster than the faster library.

use std::hint::black_box;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use leafseal_lanes::text::{Kernel, TextFrame, decoded_size, encoded_size};

/// Bytes: a nonce, a point, a sealed 32-byte value, and longer ones.
const SIZES: [usize; 7] = [12, 33, 48, 50, 272, 1_040, 65_552];
/// Bytes of values in a round.
const ROUND_SIZE: usize = 32 << 10;
const ROUNDS: usize = 101;

/// Base64 of chunks of bytes, or the reverse, and how many libraries precede the kernels.
type Work<'a> = Box<dyn FnMut(&[u8], &mut [u8]) + 'a>;
const LIBRARIES: usize = 2;
/// Nanoseconds a chunk by name.
type Figures = Vec<(&'static str, f64)>;

struct Row<'a> {
    name: &'static str,
    work: Work<'a>,
    times: Vec<f64>,
}

fn row<'a>(name: &'static str, work: impl FnMut(&[u8], &mut [u8]) + 'a) -> Row<'a> {
    Row { name, work: Box::new(work), times: Vec::new() }
}

fn encoders<'a>() -> Vec<Row<'a>> {
    let mut rows = vec![
        row("base64-simd", |bytes, out| {
            let _ = base64_simd::STANDARD_NO_PAD.encode(bytes, base64_simd::Out::from_slice(out));
        }),
        row("base64", |bytes, out| {
            STANDARD_NO_PAD.encode_slice(bytes, out).expect("room");
        }),
    ];
    rows.extend(
        Kernel::detect().into_iter().map(|kernel| row(kernel.name(), move |bytes, out| kernel.encode(bytes, out))),
    );
    rows
}

fn decoders<'a>() -> Vec<Row<'a>> {
    let mut rows = vec![
        row("base64-simd", |text, out| {
            let _ = base64_simd::STANDARD_NO_PAD.decode(text, base64_simd::Out::from_slice(out)).expect("base64");
        }),
        row("base64", |text, out| {
            STANDARD_NO_PAD.decode_slice_unchecked(text, out).expect("base64");
        }),
    ];
    rows.extend(Kernel::detect().into_iter().map(|kernel| {
        row(kernel.name(), move |text, out| {
            assert!(kernel.decode(text, out));
        })
    }));
    rows
}

/// Nanoseconds a chunk of every row.
fn measure(mut rows: Vec<Row<'_>>, input: &[u8], chunk: usize, out_chunk: usize, rounds: usize) -> Figures {
    let count = input.len() / chunk;
    let mut out = vec![0; count * out_chunk];
    for _ in 0..rounds {
        for row in &mut rows {
            let start = Instant::now();
            for (input, out) in input.chunks_exact(chunk).zip(out.chunks_exact_mut(out_chunk)) {
                (row.work)(input, out);
            }
            row.times.push(start.elapsed().as_nanos() as f64 / count as f64);
            black_box(&out);
        }
    }
    rows.into_iter()
        .map(|mut row| {
            row.times.sort_by(f64::total_cmp);
            (row.name, row.times[rounds / 2])
        })
        .collect()
}

fn table(title: &str, columns: &[Figures]) {
    println!("\n{title}\n");
    print!("{:<14}", "bytes");
    SIZES.iter().for_each(|size| print!("{size:>16}"));
    println!();
    for (place, (name, _)) in columns[0].iter().enumerate() {
        print!("{name:<14}");
        for column in columns {
            let library = column[..LIBRARIES].iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
            let time = column[place].1;
            print!("{:>16}", format!("{time:.1} ({:.2})", library / time));
        }
        println!();
    }
}

/// The text of sealed values of 32 bytes, appended one after the other.
fn frames(rounds: usize) {
    const COUNT: usize = 200;
    let frame = TextFrame::new(b"ev:Tk9D:", &[b'm'; 46], *b":$");
    let sealed = vec![7; 48 * COUNT];
    let mut out = Vec::with_capacity(137 * COUNT);
    println!("\nNanoseconds for the text of a sealed value of 32 bytes\n");
    for kernel in Kernel::detect() {
        let mut times: Vec<f64> = (0..rounds)
            .map(|_| {
                out.clear();
                let start = Instant::now();
                sealed.chunks_exact(48).for_each(|sealed| kernel.append(&frame, &[1; 12], sealed, &mut out));
                let time = start.elapsed().as_nanos() as f64 / COUNT as f64;
                black_box(&out);
                time
            })
            .collect();
        times.sort_by(f64::total_cmp);
        println!("{:<14}{:>16.1}", kernel.name(), times[rounds / 2]);
    }
}

fn main() {
    let rounds = if std::env::args().any(|argument| argument == "--test") { 1 } else { ROUNDS };
    let bytes: Vec<u8> = (0..2 * ROUND_SIZE.max(SIZES[SIZES.len() - 1])).map(|i| (i * 31 % 251) as u8).collect();
    let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
    for size in SIZES {
        let bytes = &bytes[..(ROUND_SIZE / size).max(1) * size];
        let text: Vec<u8> =
            bytes.chunks_exact(size).flat_map(|bytes| STANDARD_NO_PAD.encode(bytes).into_bytes()).collect();
        encoded.push(measure(encoders(), bytes, size, encoded_size(size), rounds));
        let text_size = encoded_size(size);
        decoded.push(measure(decoders(), &text, text_size, decoded_size(text_size).expect("a length"), rounds));
    }
    table("Nanoseconds to encode", &encoded);
    table("Nanoseconds to decode", &decoded);
    frames(rounds);
}
