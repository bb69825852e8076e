//! Random input through every kernel of the lanes and their model against two libraries each, as long as one likes: what
//! `tests/differential` does for some seeds.
//!
//! `cargo bench -p leafseal-crypto --bench differential -- [MESSAGES [INPUTS [SEED [INPUTS_OF_MODEL]]]] [PART...]`. Any difference ends it
//! and prints its seed. All cores take part. With parts, only comparisons run that have one in their name: `ECDSA`, `"on k1"`, `RSA-2048`.

#[path = "../tests/differential/agreements.rs"]
mod agreements;
#[path = "../tests/differential/ecdsa.rs"]
mod ecdsa;
#[path = "../tests/differential/messages.rs"]
mod messages;
#[path = "../tests/differential/products.rs"]
mod products;
#[path = "../tests/differential/signatures.rs"]
mod signatures;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use leafseal_crypto::Curve;
use leafseal_lanes::ec::FixedBase;
use leafseal_lanes::{ec, rsa};

const MESSAGES: u64 = 1_000_000;
/// Products, agreements and signatures, of each curve and length.
const INPUTS: u64 = 10_000;
/// The same of the model, of signatures a hundredth: it takes milliseconds for one.
const INPUTS_OF_MODEL: u64 = 10_000;

/// Whether the arguments select `what`: they do if they name no part.
fn wanted_part(what: &str) -> bool {
    let mut parts = std::env::args().skip(1).filter(|argument| is_part(argument)).peekable();
    parts.peek().is_none() || parts.any(|part| what.contains(&part))
}

/// Neither a number nor an option, such as the `--bench` that cargo adds.
fn is_part(argument: &str) -> bool {
    argument.parse::<u64>().is_err() && !argument.starts_with('-')
}

/// Signatures by one key of RSA.
const MESSAGES_OF_KEY: usize = 10_000;

/// Checks groups from the seed `first` on until there were so many inputs, on all cores.
fn run(what: &str, wanted: u64, first: u64, check: impl Fn(u64) -> Result<u64, String> + Sync) -> Result<(), String> {
    if !wanted_part(what) {
        return Ok(());
    }
    let start = Instant::now();
    let (done, next) = (AtomicU64::new(0), AtomicU64::new(first));
    let found = Mutex::new(None);
    let work = || {
        while done.load(Ordering::Relaxed) < wanted {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            match check(seed) {
                Ok(count) => _ = done.fetch_add(count, Ordering::Relaxed),
                Err(difference) => {
                    let difference = format!("{what}, seed {seed}: {difference}");
                    found.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(difference);
                    done.store(wanted, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    if let Some(difference) = found.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(difference);
    }
    let (done, next) = (done.into_inner(), next.into_inner());
    println!("{done} {what} agree, seeds {first} to {next}, in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// All inputs of the kernels for curves and RSA that a name stands for.
fn run_curves_and_rsa(
    name: &str,
    wanted: u64,
    first: u64,
    curves: &[ec::Kernel],
    rsa: Option<rsa::Kernel>,
) -> Result<(), String> {
    for curve in Curve::ALL {
        let short = curve.short_name();
        run(&format!("products on {short} by {name}"), wanted, first, |seed| {
            let group = products::Group::new(curve, seed);
            group.check(curves).map(|()| group.len())
        })?;
        run(&format!("agreements on {short} by {name}"), wanted, first, |seed| {
            let group = agreements::Group::new(curve, seed);
            group.check(curves).map(|()| group.len())
        })?;
    }
    let generators: Vec<_> = curves.iter().map(|kernel| FixedBase::generator(*kernel, ec::LaneCurve::P256)).collect();
    run(&format!("ECDSA signatures by {name}"), wanted, first, |seed| {
        let group = ecdsa::Group::new(seed);
        group.check(&generators).map(|()| group.len())
    })?;
    let Some(kernel) = rsa else { return Ok(()) };
    let wanted = if matches!(kernel, rsa::Kernel::Model) { wanted / 100 } else { wanted };
    for size in [256, 384, 512] {
        run(&format!("signatures of RSA-{} by {}", 8 * size, kernel.name()), wanted, first, |seed| {
            let group = signatures::Group::new(size, MESSAGES_OF_KEY.min(wanted as usize), seed);
            group.check(&[(kernel, usize::MAX)]).map(|()| group.len())
        })?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let number = |place: usize| numbers.get(place).copied();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let first = number(2).unwrap_or_else(now);
    let lanes = messages::kernels();
    println!("messages through {}", lanes.iter().map(|lanes| lanes.name()).collect::<Vec<_>>().join(", "));
    let messages = |seed| {
        let group = messages::Group::new(seed);
        group.check(&lanes).map(|()| group.len())
    };
    let wanted = number(1).unwrap_or(INPUTS);
    let by_model = number(3).unwrap_or(INPUTS_OF_MODEL);
    let detected = ec::Kernel::detect();
    let names = detected.iter().map(|kernel| kernel.name()).collect::<Vec<_>>().join(", ");
    let all = run("messages", number(0).unwrap_or(MESSAGES), first, messages)
        .and_then(|()| run_curves_and_rsa("the model", by_model, first, &[ec::Kernel::Model], Some(rsa::Kernel::Model)))
        .and_then(|()| run_curves_and_rsa(&names, wanted, first, &detected, rsa::Kernel::detect()));
    match all {
        Ok(()) => ExitCode::SUCCESS,
        Err(difference) => {
            println!("{difference}");
            ExitCode::FAILURE
        }
    }
}
