//! Encapsulation: a fresh ephemeral key and its shared secret with a recipient, in microseconds, by each library in the same run. Then
//! agreements of one private key with compressed points that are not known before, as decryption needs them.
//!
//! Medians of rounds that take all rows in turn; in brackets how many times faster than the fastest library.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use aws_lc_rs::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use aws_lc_rs::rand::SystemRandom;
use leafseal_crypto::recipient::TABLE_PIECES;
use leafseal_crypto::{Curve, EcContext, PrivateKey, PublicKey, Recipient, RecipientWork};
use leafseal_lanes::ec::{self, CurveScalar, FixedBase, ProductPoint, multiply};
use rand::SeedableRng;
use rand::rngs::StdRng;

const ROUNDS: usize = 301;

struct Row<'a> {
    name: String,
    count: usize,
    once: Box<dyn FnMut() + 'a>,
    times: Vec<f64>,
}

fn row<'a>(name: impl Into<String>, count: usize, once: impl FnMut() + 'a) -> Row<'a> {
    Row { name: name.into(), count, once: Box::new(once), times: Vec::new() }
}

fn measure(rows: &mut [Row<'_>], rounds: usize) {
    for _ in 0..rounds {
        for row in rows.iter_mut() {
            let start = Instant::now();
            (row.once)();
            row.times.push(start.elapsed().as_nanos() as f64 / row.count as f64 / 1_000.0);
        }
    }
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn aws_lc(recipient: &PublicKey) {
    let key = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).expect("generates");
    let public = key.compute_public_key().expect("computes");
    black_box(public.as_ref());
    let peer = UnparsedPublicKey::new(&ECDH_P256, recipient.uncompressed());
    let shared = agree_ephemeral(key, peer, (), |shared| {
        black_box(shared);
        Ok(())
    });
    shared.expect("agrees");
}

/// Rows through our tables: the public calls, and the kernels with groups of several sizes.
fn table_rows<'a>(context: &'a EcContext, recipient: &'a Recipient) -> Vec<Row<'a>> {
    let public = recipient.public();
    let mut rng = StdRng::seed_from_u64(2);
    let mut rows = vec![row("tables, one", 1, move || drop(black_box(recipient.encapsulate(context, &mut rng))))];
    for count in [2, 4, 8] {
        let mut rng = StdRng::seed_from_u64(3);
        rows.push(row(format!("tables, {count} a call"), count, move || {
            drop(black_box(recipient.encapsulate_many(context, count, &mut rng)));
        }));
    }
    rows.push(row("a table", 1, move || drop(black_box(Recipient::with_table(*public)))));
    let curve = if public.curve() == Curve::P256 { ec::LaneCurve::P256 } else { ec::LaneCurve::Secp256k1 };
    let (x, y) = public.uncompressed()[1..].split_at(32);
    let (x, y) = (x.try_into().expect("32 bytes"), y.try_into().expect("32 bytes"));
    for kernel in ec::Kernel::detect() {
        for count in BTreeSet::from([1, 2, kernel.batch_size()]) {
            let bases =
                [FixedBase::generator(kernel, curve), FixedBase::new(kernel, curve, x, y).expect("on the curve")];
            let scalars: Vec<_> =
                (1..=count).map(|i| CurveScalar::new(curve, &[i as u8; 32]).expect("in range")).collect();
            let mut out = vec![ProductPoint::default(); 2 * count];
            rows.push(row(format!("{}, {count} a call", kernel.name()), count, move || {
                multiply(&[&bases[0], &bases[1]], black_box(&scalars), &mut out);
            }));
        }
    }
    rows
}

/// Computes a table piece by piece in each round, and prints the median time of each piece.
fn tell_pieces(public: &PublicKey, rounds: usize) {
    let mut times = vec![Vec::new(); TABLE_PIECES];
    for _ in 0..rounds {
        let mut work = RecipientWork::new(*public).expect("a kernel");
        for times in &mut times {
            let start = Instant::now();
            let piece = work.go_on();
            times.push(start.elapsed().as_nanos() as f64 / 1_000.0);
            match piece {
                ControlFlow::Continue(rest) => work = rest,
                ControlFlow::Break(_) => break,
            }
        }
    }
    let mut medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
    medians.sort_by(f64::total_cmp);
    let longest = medians[TABLE_PIECES - 1];
    println!("{:<24}{:>10.2}, the longest {longest:.2}", "a piece of a table", median(&medians));
}

fn main() {
    let mut rng = StdRng::seed_from_u64(1);
    let context = EcContext::new(&mut rng);
    let rounds = if std::env::args().any(|argument| argument == "--test") { 1 } else { ROUNDS };
    for curve in Curve::ALL {
        let public = context.public_key(&PrivateKey::generate(curve, &mut rng));
        let (library, recipient) = (Recipient::from(public), Recipient::with_table(public));
        let (name, mut rng) =
            (if curve == Curve::P256 { "BoringSSL" } else { "libsecp256k1" }, StdRng::seed_from_u64(2));
        let (context, public) = (&context, &public);
        let mut rows = vec![row(name, 1, move || drop(black_box(library.encapsulate(context, &mut rng))))];
        if curve == Curve::P256 {
            rows.push(row("aws-lc-rs", 1, move || aws_lc(public)));
        }
        let library_count = rows.len();
        rows.extend(table_rows(context, &recipient));
        measure(&mut rows, rounds);
        tell(&format!("an encapsulation on {}", curve.short_name()), &rows, library_count);
        tell_pieces(public, rounds);
        let mut rows = agreement_rows(context, curve);
        measure(&mut rows, rounds);
        tell(&format!("an agreement with an unknown point on {}", curve.short_name()), &rows, 1);
    }
}

/// Prints the rows, and how many times as fast each is as the fastest library, which come first.
fn tell(what: &str, rows: &[Row<'_>], library_count: usize) {
    let best = rows[..library_count].iter().map(|row| median(&row.times)).fold(f64::INFINITY, f64::min);
    println!("\nMicroseconds {what}\n");
    for row in rows {
        let microseconds = median(&row.times);
        println!("{:<24}{:>10.2} ({:.2})", row.name, microseconds, best / microseconds);
    }
}

/// By the library one after the other, by the path that is in use for several, and by every kernel with lanes.
fn agreement_rows(context: &EcContext, curve: Curve) -> Vec<Row<'_>> {
    let mut rng = StdRng::seed_from_u64(4);
    let mut generate = || PrivateKey::generate(curve, &mut rng);
    let private = Arc::new(generate());
    let peers: Vec<_> = (0..8).map(|_| context.public_key(&generate()).compressed()).collect();
    let (one, peer) = (Arc::clone(&private), peers[0]);
    let library = move || {
        let peer = PublicKey::from_sec1(curve, &peer).expect("a point");
        drop(black_box(context.agree(&one, &peer)));
    };
    let mut rows = vec![row("library", 1, library)];
    for count in [2, 4, 8] {
        let (private, peers) = (Arc::clone(&private), peers[..count].to_vec());
        rows.push(row(format!("{count} a call"), count, move || {
            drop(black_box(context.agree_many(&private, &peers)));
        }));
    }
    let in_lanes = if curve == Curve::P256 { ec::LaneCurve::P256 } else { ec::LaneCurve::Secp256k1 };
    for kernel in ec::Kernel::detect().into_iter().filter(|kernel| kernel.has_lanes()) {
        for count in [1, kernel.batch_size()] {
            let scalar = CurveScalar::new(in_lanes, private.scalar().expose()).expect("in range");
            let (peers, mut out) = (peers[..count].to_vec(), vec![None; count]);
            rows.push(row(format!("{}, {count} a call", kernel.name()), count, move || {
                ec::agree(kernel, &scalar, black_box(&peers), &mut out);
            }));
        }
    }
    rows
}
