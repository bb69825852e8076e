//! Whether the time of a product tells its scalar: measurements of one scalar and of random ones, in random order, and Welch's t of the two
//! (Reparaz, Balasch and Verbauwhede, "Dude, is my code constant time?"). Beyond ±10 there is a leak for sure. A function that leaks is
//! measured beside, so that the test shows what it can see.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use fieldseal_lanes::ec::{Curve, FixedBase, Kernel, Point, SCALAR_SIZE, Scalar, multiply};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const MEASUREMENTS: usize = 40_000;
/// Random scalars, so many that none is known to a branch predictor.
const SCALARS: usize = 4_096;
/// What is slower than nine of ten measurements was disturbed.
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

/// Welch's t of the time that `work` takes with the first scalar and with any other. What it takes is made before, by `prepare`, in
/// the same place for both, so that they do not differ by what the caches hold.
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

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--test") {
        return ExitCode::SUCCESS;
    }
    let bytes = scalar_bytes();
    let mut is_right = true;
    let mut tell = |name: &str, t: f64, may_leak: bool| {
        println!("{name:<32} t = {t:>8.2}");
        is_right &= (t.abs() > T_MAX) == may_leak;
    };
    for curve in [Curve::P256, Curve::Secp256k1] {
        for kernel in Kernel::detect() {
            let base = FixedBase::generator(kernel, curve);
            // A random number below 2^256 is below the order but for once in 2^32.
            let scalar = |bytes: &[u8; SCALAR_SIZE]| [Scalar::new(curve, bytes).expect("in range")];
            let mut out = [Point::default()];
            let t = welch_t(&bytes, scalar, |scalar| multiply(&[&base], scalar, black_box(&mut out)));
            tell(&format!("{curve:?} product, {}", kernel.name()), t, false);
        }
        let t = welch_t(&bytes, |bytes| *bytes, |bytes| drop(black_box(Scalar::new(curve, bytes))));
        tell(&format!("{curve:?} recoding"), t, false);
    }
    tell("a function that leaks", welch_t(&bytes, |bytes| *bytes, leak), true);
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
