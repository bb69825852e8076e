//! Writes a log for tests of other implementations: `audit_log FOLDER SIZE…` publishes at each size and prints the public key, then each
//! checkpoint in base64, a line each. Entry N is the text `entry N` repeated N modulo 5 times.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leafseal_audit::{AuditLog, LogRules, NoteSigner};
use leafseal_crypto::{Ed25519PrivateKey, Secret};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder")?;
    let private = Ed25519PrivateKey::from_seed(Secret::from_bytes(&[5; 32]));
    let signer = NoteSigner::of_log("leafseal/0123/engine-1", private)?;
    println!("{}", signer.public().to_text());
    let (mut log, _) = AuditLog::open(Path::new(&folder), signer, LogRules::default())?;
    for size in arguments {
        let size: u64 = size.parse()?;
        let entries: Vec<_> =
            (log.size()..size).map(|number| format!("entry {number}").repeat(number as usize % 5)).collect();
        log.append(entries.iter().map(String::as_bytes))?;
        log.publish()?;
        println!("{}", STANDARD.encode(std::fs::read(Path::new(&folder).join("checkpoint"))?));
    }
    Ok(())
}
