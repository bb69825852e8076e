//! Tests whether the time of a product depends on its scalar, that of an RSA signature on its message, that of encryption on its key
//! or text, and that of decryption on the position of a tag's fault: measurements of one secret and of random ones, in random order,
//! and Welch's t of the two (Reparaz, Balasch and Verbauwhede, "Dude, is my code constant time?"). Beyond ±10 there is certainly a
//! leak. Functions that leak are measured too, to show the sensitivity of the test.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use leafseal_lanes::ec::ecdsa::SigningKey;
use leafseal_lanes::ec::{
    COMPRESSED_SIZE, CurveScalar, FixedBase, Kernel, LaneCurve, ProductPoint, SCALAR_SIZE, agree, multiply,
};
use leafseal_lanes::gcm::{
    self, GcmKey, Nonce, OpenItem, SealItem, TAG_SIZE, XaesKeyParts, XaesNonce, XaesOpenItem, XaesSealItem,
};
use leafseal_lanes::rsa;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const MEASUREMENTS: usize = 40_000;
/// Random secrets, too many for a branch predictor to learn.
const SCALARS: usize = 4_096;
/// Measurements slower than nine of ten were disturbed.
const KEPT: f64 = 0.9;
const T_MAX: f64 = 10.0;

/// A class of measurements: how many, their mean, and the sum of squares around it (Welford).
#[derive(Default)]
struct Class {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Class {
    fn push(&mut self, value: f64) {
        self.count += 1.0;
        let difference = value - self.mean;
        self.mean += difference / self.count;
        self.squares += difference * (value - self.mean);
    }

    /// The variance of the mean.
    fn variance(&self) -> f64 {
        self.squares / (self.count - 1.0) / self.count
    }
}

/// Welch's t of the time of `work` with the first scalar and with any other. `prepare` creates its input beforehand, in the same
/// place for both, so that the caches have the same content.
fn welch_t<T>(
    scalars: &[[u8; SCALAR_SIZE]],
    prepare: impl Fn(&[u8; SCALAR_SIZE]) -> T,
    mut work: impl FnMut(&T),
) -> f64 {
    let mut rng = StdRng::seed_from_u64(1);
    let mut times = Vec::with_capacity(MEASUREMENTS);
    for _ in 0..MEASUREMENTS {
        let is_fixed = rng.random::<bool>();
        let index = rng.random_range(1..SCALARS);
        let input = black_box(prepare(&scalars[if is_fixed { 0 } else { index }]));
        let start = Instant::now();
        work(&input);
        times.push((start.elapsed().as_nanos() as f64, is_fixed));
    }
    let mut sorted: Vec<f64> = times.iter().map(|(time, _)| *time).collect();
    sorted.sort_by(f64::total_cmp);
    let limit = sorted[(sorted.len() as f64 * KEPT) as usize];
    let (mut fixed, mut random) = (Class::default(), Class::default());
    for (time, is_fixed) in times.into_iter().filter(|(time, _)| *time <= limit) {
        if is_fixed { &mut fixed } else { &mut random }.push(time);
    }
    (fixed.mean - random.mean) / (fixed.variance() + random.variance()).sqrt()
}

/// The fixed scalar first: 1, which has an extreme digit in every window.
fn scalar_bytes() -> Vec<[u8; SCALAR_SIZE]> {
    let mut rng = StdRng::seed_from_u64(2);
    let mut one = [0; SCALAR_SIZE];
    one[SCALAR_SIZE - 1] = 1;
    std::iter::once(one).chain((1..SCALARS).map(|_| rng.random())).collect()
}

/// Does something for each bit that is set, as a careless multiplication would.
fn leak(scalar: &[u8; SCALAR_SIZE]) {
    let ones: u32 = scalar.iter().map(|byte| byte.count_ones()).sum();
    (0..ones).for_each(|i| _ = black_box(i));
}

/// Messages of a call: more than a group, so that both ways through the pipeline are taken.
const MESSAGES: usize = 9;
const AAD: [u8; 33] = [3; 33];

fn seal(key: &GcmKey, text: &[u8], out: &mut [u8]) {
    let items: [SealItem<'_>; MESSAGES] =
        std::array::from_fn(|i| SealItem { nonce: Nonce([i as u8; 12]), aad: &AAD, plaintext: text });
    key.seal(&items, out);
}

/// The tag of a message without text under a key, wrong in one byte: the first for the fixed secret, any for the others.
fn wrong_tag(tag: &[u8; TAG_SIZE], secret: &[u8; SCALAR_SIZE]) -> [u8; TAG_SIZE] {
    let mut wrong = *tag;
    wrong[usize::from(secret[SCALAR_SIZE - 1] - 1) % TAG_SIZE] ^= 0x80;
    wrong
}

/// Compares as a careless program would: up to the first byte that differs.
fn careless_comparison(tag: &[u8; TAG_SIZE], other: &[u8; TAG_SIZE]) -> bool {
    tag.iter().zip(other).all(|(byte, other)| black_box(*byte) == black_box(*other))
}

/// Rows of AES-GCM: name, t, and whether it must leak.
fn gcm_rows(bytes: &[[u8; SCALAR_SIZE]]) -> Vec<(String, f64, bool)> {
    let mut rows = Vec::new();
    let mut out = [0; MESSAGES * (SCALAR_SIZE + TAG_SIZE)];
    let secrets: Vec<[u8; SCALAR_SIZE]> = bytes.iter().map(|bytes| bytes.map(|byte| byte.max(1))).collect();
    for kernel in gcm::Kernel::detect() {
        let mut tell = |what: &str, t: f64| rows.push((format!("{what}, {}", kernel.name()), t, false));
        tell("key schedule", welch_t(bytes, |bytes| *bytes, |bytes| drop(black_box(GcmKey::new(kernel, bytes)))));
        let by_key = |key: &GcmKey| seal(key, &[7; SCALAR_SIZE], black_box(&mut out));
        tell("AES and GHASH by key", welch_t(bytes, |bytes| GcmKey::new(kernel, bytes), by_key));
        let key = GcmKey::new(kernel, &[7; 32]);
        tell("AES and GHASH by text", welch_t(bytes, |bytes| *bytes, |text| seal(&key, text, black_box(&mut out))));
        let mut tag = [0; TAG_SIZE];
        key.seal(&[SealItem { nonce: Nonce([1; 12]), aad: &AAD, plaintext: &[] }], &mut tag);
        let mut opened = [true; MESSAGES];
        let open = |wrong: &[u8; TAG_SIZE]| {
            let item = OpenItem { nonce: Nonce([1; 12]), aad: &AAD, sealed: wrong };
            key.open(&[item; MESSAGES], &mut [], black_box(&mut opened));
            assert!(!opened[0]);
        };
        tell("comparison of tags", welch_t(&secrets, |secret| wrong_tag(&tag, secret), open));
    }
    let tag = [0x5a; TAG_SIZE];
    let compare = |wrong: &[u8; TAG_SIZE]| _ = black_box(careless_comparison(&tag, wrong));
    let t = welch_t(&secrets, |secret| wrong_tag(&tag, secret), compare);
    rows.push(("a comparison that leaks".to_owned(), t, true));
    rows
}

/// Messages of XAES-256-GCM: more than a group.
const XAES_MESSAGES: usize = 20;

/// Of a prefix each, or of one.
fn xaes_nonces(are_of_one: bool) -> [XaesNonce; XAES_MESSAGES] {
    std::array::from_fn(|i| {
        let mut nonce = [i as u8; 24];
        nonce[..12].fill(if are_of_one { 1 } else { i as u8 });
        XaesNonce(nonce)
    })
}

fn expand_xaes(kernel: gcm::Kernel, key: &[u8; SCALAR_SIZE]) -> XaesKeyParts {
    let mut parts = XaesKeyParts::zero();
    kernel.expand_xaes(key, &mut parts);
    parts
}

/// Rows of XAES-256-GCM.
fn xaes_rows(bytes: &[[u8; SCALAR_SIZE]]) -> Vec<(String, f64, bool)> {
    let mut rows = Vec::new();
    let mut out = [0; XAES_MESSAGES * (SCALAR_SIZE + TAG_SIZE)];
    let secrets: Vec<[u8; SCALAR_SIZE]> = bytes.iter().map(|bytes| bytes.map(|byte| byte.max(1))).collect();
    for kernel in gcm::Kernel::detect() {
        let mut tell = |what: &str, t: f64| rows.push((format!("XAES {what}, {}", kernel.name()), t, false));
        tell("expansion", welch_t(bytes, |bytes| *bytes, |bytes| drop(black_box(expand_xaes(kernel, bytes)))));
        let key = expand_xaes(kernel, &[7; SCALAR_SIZE]);
        for (nonces, name) in [(xaes_nonces(true), "one prefix"), (xaes_nonces(false), "a prefix each")] {
            let mut seal = |key: &XaesKeyParts, plaintext: &[u8]| {
                let items = nonces.map(|nonce| XaesSealItem { nonce, aad: &AAD, plaintext });
                kernel.seal_xaes(key, &items, black_box(&mut out));
            };
            let by_key = welch_t(bytes, |bytes| expand_xaes(kernel, bytes), |key| seal(key, &[7; SCALAR_SIZE]));
            tell(&format!("by key, {name}"), by_key);
            tell(&format!("by text, {name}"), welch_t(bytes, |bytes| *bytes, |text| seal(&key, text)));
            let mut tag = [0; TAG_SIZE];
            kernel.seal_xaes(&key, &[XaesSealItem { nonce: nonces[0], aad: &AAD, plaintext: &[] }], &mut tag);
            let mut opened = [true; XAES_MESSAGES];
            let open = |wrong: &[u8; TAG_SIZE]| {
                let items = nonces.map(|nonce| XaesOpenItem { nonce, aad: &AAD, sealed: wrong });
                kernel.open_xaes(&key, &items, &mut [], black_box(&mut opened));
                assert!(!opened[0]);
            };
            tell(&format!("tags, {name}"), welch_t(&secrets, |secret| wrong_tag(&tag, secret), open));
        }
    }
    rows
}

/// SEC 1, 2.3.3.
fn compressed_generator(base: &FixedBase, curve: LaneCurve) -> [u8; COMPRESSED_SIZE] {
    let mut one = [0; SCALAR_SIZE];
    one[SCALAR_SIZE - 1] = 1;
    let mut product = [ProductPoint::default()];
    multiply(&[base], &[CurveScalar::new(curve, &one).expect("in range")], &mut product);
    let mut compressed = [2 | product[0].y[SCALAR_SIZE - 1] & 1; COMPRESSED_SIZE];
    compressed[1..].copy_from_slice(&product[0].x);
    compressed
}

/// The first key of `vectors/rsa`.
fn rsa_key(kernel: rsa::Kernel) -> rsa::RsaSigningKey {
    let text = include_str!("../../../vectors/rsa/primitive.rsp");
    let number = |name: &str| -> Vec<u8> {
        let digits = text.lines().find_map(|line| line.strip_prefix(&format!("{name} = "))).expect("a number");
        let digit = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal");
        digits.as_bytes().chunks(2).map(digit).collect()
    };
    let [n, e, p, q, dp, dq, q_inv] = ["n", "e", "p", "q", "dP", "dQ", "qInv"].map(number);
    let components = rsa::Components {
        modulus: &n,
        public_exponent: &e,
        prime_1: &p,
        prime_2: &q,
        exponent_1: &dp,
        exponent_2: &dq,
        coefficient: &q_inv,
    };
    rsa::RsaSigningKey::new(kernel, &components).expect("a supported key")
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    let bytes = scalar_bytes();
    let mut is_right = true;
    let mut tell = |name: &str, t: f64, may_leak: bool| {
        println!("{name:<38} t = {t:>8.2}");
        is_right &= (t.abs() > T_MAX) == may_leak;
    };
    for curve in [LaneCurve::P256, LaneCurve::Secp256k1] {
        for kernel in Kernel::detect() {
            let base = FixedBase::generator(kernel, curve);
            // A random number below 2^256 is below the order, except once in 2^32.
            let scalar = |bytes: &[u8; SCALAR_SIZE]| [CurveScalar::new(curve, bytes).expect("in range")];
            let mut out = [ProductPoint::default()];
            let t = welch_t(&bytes, scalar, |scalar| multiply(&[&base], scalar, black_box(&mut out)));
            tell(&format!("{curve:?} product, {}", kernel.name()), t, false);
            if kernel.has_lanes() {
                let mut out = [const { None }; 8];
                let points = [compressed_generator(&base, curve); 8];
                let t = welch_t(&bytes, scalar, |[scalar]| agree(kernel, scalar, &points, black_box(&mut out)));
                assert!(out.iter().all(Option::is_some));
                tell(&format!("{curve:?} agreement, {}", kernel.name()), t, false);
            }
        }
        let t = welch_t(&bytes, |bytes| *bytes, |bytes| drop(black_box(CurveScalar::new(curve, bytes))));
        tell(&format!("{curve:?} recoding"), t, false);
    }
    for kernel in Kernel::detect().into_iter().filter(|kernel| kernel.has_lanes()) {
        let generator = FixedBase::generator(kernel, LaneCurve::P256);
        // The key is secret, and so is the nonce; the digest is not.
        let signer = |bytes: &[u8; SCALAR_SIZE]| {
            (SigningKey::new(bytes).expect("in range"), [CurveScalar::new(LaneCurve::P256, bytes).expect("in range")])
        };
        let sign = |(key, nonce): &(SigningKey, [CurveScalar; 1])| {
            drop(black_box(key.sign(&generator, nonce, &[[7; SCALAR_SIZE]])));
        };
        tell(&format!("ECDSA by key and nonce, {}", kernel.name()), welch_t(&bytes, signer, sign), false);
    }
    if let Some(kernel) = rsa::Kernel::detect() {
        let key = rsa_key(kernel);
        let representative = |bytes: &[u8; SCALAR_SIZE]| {
            let mut representative = bytes.repeat(8);
            representative[0] = 0;
            representative
        };
        let t = welch_t(&bytes, representative, |message| drop(black_box(key.sign(&[message]))));
        tell(&format!("RSA-2048 by message, {}", kernel.name()), t, false);
    }
    gcm_rows(&bytes).into_iter().chain(xaes_rows(&bytes)).for_each(|(name, t, may_leak)| tell(&name, t, may_leak));
    tell("a function that leaks", welch_t(&bytes, |bytes| *bytes, leak), true);
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
