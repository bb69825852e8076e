//! Random messages and products through every kernel of the lanes against two libraries each, as long as one likes: what
//! `tests/differential` does for some seeds.
//!
//! `cargo bench -p fieldseal-crypto --bench differential -- [MESSAGES [PRODUCTS [SEED]]]`. Any difference ends it and prints its
//! seed.

#[path = "../tests/differential/messages.rs"]
mod messages;
#[path = "../tests/differential/products.rs"]
mod products;

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fieldseal_crypto::Curve;

const MESSAGES: u64 = 1_000_000;
const PRODUCTS: u64 = 10_000;

/// Checks groups from the seed `first` on until there were so many; the next seed.
fn run(what: &str, wanted: u64, first: u64, check: impl Fn(u64) -> Result<u64, String>) -> Result<(), String> {
    let start = Instant::now();
    let (mut done, mut seed) = (0, first);
    while done < wanted {
        done += check(seed).map_err(|difference| format!("{what}, seed {seed}: {difference}"))?;
        seed = seed.wrapping_add(1);
    }
    println!("{done} {what} agree, seeds {first} to {seed}, in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let number = |place: usize| numbers.get(place).copied();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let first = number(2).unwrap_or_else(now);
    let kernels = messages::kernels();
    println!("through {}", kernels.iter().map(|lanes| lanes.name()).collect::<Vec<_>>().join(", "));
    let message_groups = |seed| {
        let group = messages::Group::new(seed);
        group.check(&kernels).map(|()| group.len())
    };
    let product_groups = |curve| {
        move |seed| {
            let group = products::Group::new(curve, seed);
            group.check().map(|()| group.len())
        }
    };
    let products = number(1).unwrap_or(PRODUCTS);
    let all = run("products on r1", products, first, product_groups(Curve::P256))
        .and_then(|()| run("products on k1", products, first, product_groups(Curve::Secp256k1)))
        .and_then(|()| run("messages", number(0).unwrap_or(MESSAGES), first, message_groups));
    match all {
        Ok(()) => ExitCode::SUCCESS,
        Err(difference) => {
            println!("{difference}");
            ExitCode::FAILURE
        }
    }
}
