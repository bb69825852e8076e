//! Writes a long log for `benches/audit.py`: `fill_log FOLDER RECORDS` spreads records like those of an engine evenly over 30 days, and
//! prints the public key.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use leafseal_audit::{AuditLog, LogRules, NoteSigner};
use leafseal_crypto::{Ed25519PrivateKey, Secret};

const START: &str = "2026-01-01T00:00:00Z";
const DAYS: u64 = 30;
/// Records in one write to the journal, and writes in one checkpoint.
const GROUP: u64 = 4096;
const GROUPS: u64 = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(records)) = (arguments.next(), arguments.next()) else {
        return Err("fill_log FOLDER RECORDS".into());
    };
    let (records, start) = (records.parse::<u64>()?, START.parse::<Timestamp>()?);
    let private = Ed25519PrivateKey::from_seed(Secret::from_bytes(&[5; 32]));
    let signer = NoteSigner::of_log("leafseal/0123/engine/0", private)?;
    println!("{}", signer.public().to_text());
    let (mut log, _) = AuditLog::open(Path::new(&folder), signer, LogRules::default())?;
    let interval_us = DAYS * 24 * 3_600_000_000 / records.max(1);
    for group in 0..records.div_ceil(GROUP) {
        let numbers = group * GROUP..records.min((group + 1) * GROUP);
        let entries: Vec<_> = numbers
            .map(|number| {
                let since = SignedDuration::from_micros(i64::try_from(number * interval_us).unwrap_or(i64::MAX));
                record(start.saturating_add(since).expect("a duration"), number)
            })
            .collect();
        log.append(entries.iter().map(String::as_bytes))?;
        if group % GROUPS == GROUPS - 1 {
            log.publish()?;
        }
    }
    log.publish()?;
    Ok(())
}

/// A record of a decryption, as a server writes it.
fn record(time: Timestamp, number: u64) -> String {
    let certificate = format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(4);
    format!(
        "{{\"time\":\"{time:.6}\",\"kind\":\"request\",\"entry_point\":\"rpc\",\"caller\":\"client\",\"client\":\"shop-{client}\",\
         \"certificate\":\"{certificate}\",\"address\":\"10.0.{client}.17\",\"operations\":[\"decrypt\"],\"method\":\"decrypt\",\
         \"app\":\"acme\",\"outcome\":\"ok\",\"opened\":3,\"opened_symmetric\":3,\"versions\":[1],\"roles\":[\"pci\"],\
         \"bytes_in\":512,\"bytes_out\":128,\"duration_us\":{duration},\"request\":{number}}}",
        client = number % 10,
        duration = 40 + number % 100,
    )
}
