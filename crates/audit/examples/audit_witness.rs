//! One step of a witness for tests of other implementations. `sign FOLDER LOG-KEY` reads a request and prints status and answer of the
//! witness `example.org/ours`; without a request it prints the witness's key. `ask LOG OLD` prints a request for a log of `audit_log`;
//! `take LOG OLD WITNESS-KEY STATUS` reads the answer to it and writes the cosigned checkpoint.

use std::io::Read as _;
use std::path::Path;

use leafseal_audit::{LogReader, LogWitness, NoteSigner, VerifierKey, WitnessRequest, write_cosigned_checkpoint};
use leafseal_crypto::{Ed25519PrivateKey, Secret};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let mut input = Vec::new();
    match arguments[..] {
        ["sign", folder, key] => {
            std::io::stdin().read_to_end(&mut input)?;
            let private = Ed25519PrivateKey::from_seed(Secret::from_bytes(&[6; 32]));
            let signer = NoteSigner::of_witness("example.org/ours", private)?;
            if input.is_empty() {
                println!("{}", signer.public().to_text());
                return Ok(());
            }
            let mut witness = LogWitness::open(signer, vec![VerifierKey::parse(key)?], Path::new(folder))?;
            let answer = witness.add_checkpoint(&input, 1_700_000_000);
            println!("{}", answer.status);
            print!("{}", answer.body);
        }
        ["ask", log, old] => print!("{}", request(log, old)?.1.body),
        ["take", log, old, witness, status] => {
            std::io::stdin().read_to_end(&mut input)?;
            let (reader, request) = request(log, old)?;
            let line = request.cosignature(&VerifierKey::parse(witness)?, status.parse()?, &input)?;
            write_cosigned_checkpoint(&reader, &[line], &[], 1)?;
        }
        _ => return Err("sign FOLDER LOG-KEY, ask LOG OLD, or take LOG OLD WITNESS-KEY STATUS".into()),
    }
    Ok(())
}

fn request(log: &str, old: &str) -> Result<(LogReader, WitnessRequest), Box<dyn std::error::Error>> {
    let folder = Path::new(log);
    let key = VerifierKey::parse(std::fs::read_to_string(folder.join("key"))?.trim_end())?;
    let reader = LogReader::open(folder, &key)?;
    let request = WitnessRequest::new(&reader, old.parse()?)?;
    Ok((reader, request))
}
