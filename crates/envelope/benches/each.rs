//! Values of 32 bytes, each under a key of its own, in groups as a step of the engine has them: microseconds a value to its envelope's
//! text, by the library alone and with a recipient's table.
//!
//! Medians of rounds that take all rows in turn; in brackets how many times faster than the library.

use std::hint::black_box;
use std::time::Instant;

use fieldseal_crypto::{Curve, EcContext, PrivateKey, Recipient};
use fieldseal_envelope::{Profile, SealScratch, Value, ValueType, seal_each};
use rand::SeedableRng;
use rand::rngs::StdRng;

const ROUNDS: usize = 301;
const TEXT: [u8; 32] = [b'x'; 32];

struct Row {
    name: String,
    recipient: Recipient,
    count: usize,
    times: Vec<f64>,
}

fn seal(context: &EcContext, row: &Row, rng: &mut StdRng, out: &mut Vec<u8>) {
    let profile = Profile::plain(row.recipient.public().curve());
    let values = vec![Value { value_type: ValueType::String, text: &TEXT }; row.count];
    let scratch = &mut SealScratch::default();
    out.clear();
    seal_each(context, &row.recipient, profile, None, &values, rng, scratch, out, |_, _, _| ());
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
    }
}
