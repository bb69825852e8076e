//! Signatures by RSA (PKCS #1, SHA-256) and ECDSA (P-256, SHA-256), in microseconds each, by the libraries and in lanes in the same run.
//!
//! Medians of rounds that take all rows in turn; in brackets how many times faster than the fastest library.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256};
use boring::bn::BigNum;
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::PKey;
use boring::rsa::Rsa;
use boring::sign::Signer;
use leafseal_crypto::{
    Curve, EcdsaPrivateKey, HashFunction, PrivateKey, RsaComponents, RsaPrivateKey, RsaScheme, Secret,
};
use rand::SeedableRng;
use rand::rngs::StdRng;

const ROUNDS: usize = 101;
const MESSAGE: &[u8] = &[7; 146];
const NUMBERS: [&str; 8] = ["n", "e", "d", "p", "q", "dP", "dQ", "qInv"];

struct Row<'a> {
    name: String,
    count: usize,
    once: Box<dyn FnMut() + 'a>,
    times: Vec<f64>,
}

fn row<'a>(name: impl Into<String>, count: usize, once: impl FnMut() + 'a) -> Row<'a> {
    Row { name: name.into(), count, once: Box::new(once), times: Vec::new() }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The rows of one of the keys in `vectors/rsa`.
fn bench(group: &str, rounds: usize) {
    let lines = group.lines().filter_map(|line| line.split_once(" = "));
    let numbers: HashMap<&str, &str> = lines.filter(|(name, _)| NUMBERS.contains(name)).collect();
    let [n, e, d, p, q, dp, dq, q_inv] = NUMBERS.map(|name| hex::decode(numbers[name]).expect("hexadecimal"));
    let components = RsaComponents {
        modulus: &n,
        public_exponent: &e,
        private_exponent: &d,
        prime_1: &p,
        prime_2: &q,
        exponent_1: &dp,
        exponent_2: &dq,
        coefficient: &q_inv,
    };
    let ours = RsaPrivateKey::new(&components).expect("a key");
    let [n, e, d, p, q, dp, dq, q_inv] =
        [&n, &e, &d, &p, &q, &dp, &dq, &q_inv].map(|bytes| BigNum::from_slice(bytes).expect("a number"));
    let rsa = Rsa::from_private_components(n, e, d, p, q, dp, dq, q_inv).expect("a key");
    let aws = KeyPair::from_der(&rsa.private_key_to_der().expect("encodes")).expect("a key");
    let key = PKey::from_rsa(rsa).expect("a key");
    let size = ours.signature_size();
    let mut rows = vec![
        row("BoringSSL", 1, || {
            let mut signer = Signer::new(MessageDigest::sha256(), &key).expect("a signer");
            black_box(signer.sign_oneshot_to_vec(MESSAGE).expect("signs"));
        }),
        row("aws-lc-rs", 1, || {
            let mut signature = vec![0; size];
            aws.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), MESSAGE, &mut signature).expect("signs");
            black_box(signature);
        }),
    ];
    let library_count = rows.len();
    for count in [1, 2, 3, 4, 8] {
        let (ours, mut rng) = (&ours, StdRng::seed_from_u64(1));
        let messages = [(RsaScheme::Pkcs1(HashFunction::Sha256), MESSAGE); 8];
        rows.push(row(format!("sign_many, {count} a call"), count, move || {
            black_box(ours.sign_many(&messages[..count], &mut rng));
        }));
    }
    println!("\nMicroseconds a signature, RSA-{}, batches of {}\n", 8 * size, ours.batch_size());
    measure(&mut rows, library_count, rounds);
}

/// Prints a line for each row; the first rows are those of libraries.
fn measure(rows: &mut [Row<'_>], library_count: usize, rounds: usize) {
    for _ in 0..rounds {
        for row in &mut *rows {
            let start = Instant::now();
            (row.once)();
            row.times.push(start.elapsed().as_nanos() as f64 / row.count as f64 / 1_000.0);
        }
    }
    let medians: Vec<f64> = rows.iter_mut().map(|row| median(&mut row.times)).collect();
    let best = medians[..library_count].iter().copied().fold(f64::INFINITY, f64::min);
    for (row, median) in rows.iter().zip(medians) {
        println!("{:<24}{median:>10.1} ({:.2})", row.name, best / median);
    }
}

/// The rows of a key on P-256.
fn bench_ecdsa(rounds: usize) {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a curve");
    let boring = EcKey::generate(&group).expect("a key");
    let scalar = boring.private_key().to_vec_padded(32).expect("32 bytes");
    let private = PrivateKey::from_scalar(Curve::P256, Secret::from_slice(&scalar).expect("32 bytes")).expect("a key");
    let ours = EcdsaPrivateKey::new(&private).expect("P-256");
    let key = PKey::from_ec_key(boring).expect("a key");
    let pkcs8 = key.private_key_to_der_pkcs8().expect("encodes");
    let aws = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &pkcs8).expect("a key");
    let mut rows = vec![
        row("BoringSSL", 1, || {
            let mut signer = Signer::new(MessageDigest::sha256(), &key).expect("a signer");
            black_box(signer.sign_oneshot_to_vec(MESSAGE).expect("signs"));
        }),
        row("aws-lc-rs", 1, || _ = black_box(aws.sign(&SystemRandom::new(), MESSAGE).expect("signs"))),
    ];
    let library_count = rows.len();
    for count in [1, 2, 3, 4, 8, 16] {
        let (ours, mut rng) = (&ours, StdRng::seed_from_u64(1));
        let messages = [(HashFunction::Sha256, MESSAGE); 16];
        rows.push(row(format!("sign_many, {count} a call"), count, move || {
            black_box(ours.sign_many(&messages[..count], &mut rng));
        }));
    }
    println!("\nMicroseconds a signature, ECDSA P-256, batches of {}\n", ours.batch_size());
    measure(&mut rows, library_count, rounds);
}

fn main() {
    let rounds = if std::env::args().any(|argument| argument == "--test") { 1 } else { ROUNDS };
    let text = include_str!("../../../vectors/rsa/primitive.rsp");
    let groups: Vec<&str> = text.split("[mod").skip(1).filter(|group| group.contains("\ne = 010001")).collect();
    groups.into_iter().for_each(|group| bench(group, rounds));
    bench_ecdsa(20 * rounds);
}
