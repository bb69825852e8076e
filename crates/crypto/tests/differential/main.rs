//! The kernels of the lanes against two libraries each, on random input by seeds that are always the same. Longer runs are
//! `cargo bench -p leafseal-crypto --bench differential`.

mod agreements;
mod ecdsa;
mod messages;
mod products;
mod signatures;

use leafseal_crypto::Curve;
use leafseal_lanes::ec::FixedBase;
use leafseal_lanes::{ec, rsa};

const MESSAGES: u64 = 40_000;
const PRODUCTS: u64 = 600;
const AGREEMENTS: u64 = 400;
const ECDSA_SIGNATURES: u64 = 600;
/// By each kernel, of each length of keys; the model is slow.
const SIGNATURES: usize = 40;
const SIGNATURES_BY_MODEL: usize = 4;

/// Checks groups by ascending seeds until there were so many.
fn run<G>(wanted: u64, group: impl Fn(u64) -> G, check: impl Fn(&G) -> Result<(), String>, len: impl Fn(&G) -> u64) {
    let mut done = 0;
    for seed in 0.. {
        let group = group(seed);
        check(&group).unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
        done += len(&group);
        if done >= wanted {
            break;
        }
    }
}

#[test]
fn messages_agree_with_two_libraries() {
    let kernels = messages::kernels();
    run(MESSAGES, messages::Group::new, |group| group.check(&kernels), messages::Group::len);
}

fn curve_kernels() -> Vec<ec::Kernel> {
    ec::Kernel::detect().into_iter().chain([ec::Kernel::Model]).collect()
}

#[test]
fn products_agree_with_two_libraries() {
    let kernels = curve_kernels();
    for curve in Curve::ALL {
        let group = |seed| products::Group::new(curve, seed);
        run(PRODUCTS, group, |group| group.check(&kernels), products::Group::len);
    }
}

#[test]
fn agreements_agree_with_two_libraries() {
    let kernels = curve_kernels();
    for curve in Curve::ALL {
        let group = |seed| agreements::Group::new(curve, seed);
        run(AGREEMENTS, group, |group| group.check(&kernels), agreements::Group::len);
    }
}

#[test]
fn ecdsa_signatures_agree_with_two_libraries() {
    let generators: Vec<_> =
        curve_kernels().into_iter().map(|kernel| FixedBase::generator(kernel, ec::LaneCurve::P256)).collect();
    run(ECDSA_SIGNATURES, ecdsa::Group::new, |group| group.check(&generators), ecdsa::Group::len);
}

#[test]
fn signatures_agree_with_two_libraries() {
    let by_instructions = rsa::Kernel::detect().map(|kernel| (kernel, SIGNATURES));
    let kernels: Vec<_> = by_instructions.into_iter().chain([(rsa::Kernel::Model, SIGNATURES_BY_MODEL)]).collect();
    for size in [256, 384, 512] {
        let group = |seed| signatures::Group::new(size, SIGNATURES, seed);
        run(1, group, |group| group.check(&kernels), signatures::Group::len);
    }
}
