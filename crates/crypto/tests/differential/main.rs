//! The kernels of the lanes against two libraries each, on random input by seeds that are always the same. Longer runs are
//! `cargo bench -p fieldseal-crypto --bench differential`.

mod messages;
mod products;

use fieldseal_crypto::Curve;

const MESSAGES: u64 = 40_000;
const PRODUCTS: u64 = 600;

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

#[test]
fn products_agree_with_two_libraries() {
    for curve in Curve::ALL {
        run(PRODUCTS, |seed| products::Group::new(curve, seed), products::Group::check, products::Group::len);
    }
}
