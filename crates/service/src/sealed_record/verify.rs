//! Checks the records in a log with the store whose engines wrote them.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

use leafseal_engine::admin::{Keystore, RECORD_SIGNATURE_SIZE, RecordKey, StoreError, is_signer};
use serde_json::{Value, json};

use super::line::{MARK, SignedLine, signed_bytes};

/// Longest line of a log that is read, in bytes: longer ones are skipped.
const LINE_SIZE_MAX: usize = 64 << 10;

/// Why the records of a log are not as the engines wrote them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// A line that contains the mark of a record, and no record.
    #[error("line {0}: not a whole line of a record")]
    Unreadable(u64),
    /// A record of another store.
    #[error("line {0}: of another keystore")]
    OtherStore(u64),
    /// A record under a root that the store never had.
    #[error("line {line}: signed under root number {epoch}, from which the keystore does not come")]
    OtherRoot {
        /// The line.
        line: u64,
        /// The number.
        epoch: u32,
    },
    /// Not what the engine has signed.
    #[error("line {0}: changed after the engine {1} has signed it, or never signed")]
    Signature(u64, String),
    /// The line before this one is not in the log.
    #[error("line {line}: the line of engine {engine} that was written before it is missing")]
    Gap {
        /// The line.
        line: u64,
        /// The engine.
        engine: String,
    },
    /// The last lines of a record are not in the log.
    #[error("the last record of engine {engine} is cut: {missing} lines are missing")]
    Cut {
        /// The engine.
        engine: String,
        /// How many.
        missing: u64,
    },
}

/// Why a log cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A record whose lines were signed by the engine that it names.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifiedRecord {
    /// What its first line has beside the events.
    pub facts: Value,
    /// The public key of the engine.
    pub public_key: String,
    /// What happened, in this order.
    pub events: Vec<Value>,
}

/// What a log contains.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordReport {
    /// In the order of their first lines.
    pub records: Vec<VerifiedRecord>,
    /// By lines.
    pub faults: Vec<RecordFault>,
}

/// Checks all records in a log, in either form of log lines, whatever is before them in a line.
///
/// # Errors
/// [`VerifyError`]; what is wrong with the records is in the report.
pub fn verify_records(mut log: impl BufRead, store: &dyn Keystore) -> Result<RecordReport, VerifyError> {
    let mut verifier = Verifier { store, store_id: None, chains: BTreeMap::new(), report: RecordReport::default() };
    let (mut text, mut number) = (Vec::new(), 0);
    while read_line(&mut log, &mut text)? {
        number += 1;
        if let Some(line) = std::str::from_utf8(&text).ok().filter(|line| has_mark(line)) {
            verifier.add(number, line)?;
        }
    }
    Ok(verifier.finish())
}

/// Reads the next line; one that is too long is empty.
fn read_line(log: &mut impl BufRead, text: &mut Vec<u8>) -> io::Result<bool> {
    text.clear();
    let limit = LINE_SIZE_MAX as u64;
    if log.by_ref().take(limit).read_until(b'\n', text)? == 0 {
        return Ok(false);
    }
    while text.len() == LINE_SIZE_MAX && text.last() != Some(&b'\n') {
        let mut rest = Vec::new();
        if log.by_ref().take(limit).read_until(b'\n', &mut rest)? == 0 || rest.last() == Some(&b'\n') {
            text.clear();
        }
    }
    Ok(true)
}

fn has_mark(line: &str) -> bool {
    // Inside of a JSON string.
    line.contains(&format!("{{\\\"{MARK}\\\":"))
}

/// The fields of a log line, in one of the two forms.
fn read_fields(line: &str) -> Option<SignedLine> {
    if let Some(fields) = line.find("{\"").and_then(|at| serde_json::from_str::<Value>(line[at..].trim_end()).ok()) {
        let field = |name: &str| fields[name].as_str().map(str::to_owned);
        let (record, public_key, signature) = (field("record")?, field("public_key")?, field("signature")?);
        return Some(SignedLine { record, public_key, signature });
    }
    let (_, quoted) = line.split_once(" record=")?;
    let record = serde_json::Deserializer::from_str(quoted).into_iter::<String>().next()?.ok()?;
    let field = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)).map(str::to_owned);
    Some(SignedLine { record, public_key: field("public_key=")?, signature: field("signature=")? })
}

/// How far the records of one process were read.
struct Chain {
    engine: String,
    signature: String,
    /// Lines that its record still has.
    missing: u64,
    /// The index of its record.
    record: usize,
}

struct Verifier<'s> {
    store: &'s dyn Keystore,
    store_id: Option<String>,
    /// By process.
    chains: BTreeMap<String, Chain>,
    report: RecordReport,
}

impl Verifier<'_> {
    fn add(&mut self, number: u64, line: &str) -> Result<(), VerifyError> {
        let verified = read_fields(line).and_then(|signed| {
            let record: Value = serde_json::from_str(&signed.record).ok()?;
            Some((signed, record))
        });
        let Some((signed, record)) = verified else { return self.fault(RecordFault::Unreadable(number)) };
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let (engine, epoch) = (text("engine"), record["epoch"].as_u64().and_then(|epoch| u32::try_from(epoch).ok()));
        let (Some(epoch), true) = (epoch, is_signer(&engine)) else {
            return self.fault(RecordFault::Unreadable(number));
        };
        if self.store_id()? != text("store") {
            return self.fault(RecordFault::OtherStore(number));
        }
        let Some(key) = self.store.record_key(&engine, Some(epoch))? else {
            return self.fault(RecordFault::OtherRoot { line: number, epoch });
        };
        if !is_signed(&key, &signed) {
            return self.fault(RecordFault::Signature(number, engine));
        }
        self.follow(number, engine, signed, &record);
        Ok(())
    }

    fn fault(&mut self, fault: RecordFault) -> Result<(), VerifyError> {
        self.report.faults.push(fault);
        Ok(())
    }

    fn store_id(&mut self) -> Result<&str, VerifyError> {
        if self.store_id.is_none() {
            // Any name will do.
            let key = self.store.record_key(MARK, None)?;
            self.store_id = key.map(|key| key.store_id().to_string());
        }
        Ok(self.store_id.as_deref().unwrap_or_default())
    }

    /// Adds a line that was signed.
    fn follow(&mut self, number: u64, engine: String, signed: SignedLine, record: &Value) {
        let text = |name: &str| record[name].as_str().unwrap_or_default();
        let count = |name: &str| record[name].as_u64().unwrap_or_default();
        let chain = self.chains.remove(text("start"));
        if chain.as_ref().map_or("", |chain| &chain.signature) != text("before") {
            self.report.faults.push(RecordFault::Gap { line: number, engine: engine.clone() });
        }
        let events = record["events"].as_array().cloned().unwrap_or_default();
        let records = &mut self.report.records;
        let record = match chain {
            Some(chain) if count("part") > 0 => {
                records[chain.record].events.extend(events);
                chain.record
            }
            _ => {
                let mut facts = record.clone();
                facts.as_object_mut().map(|facts| facts.remove("events"));
                records.push(VerifiedRecord { facts, public_key: signed.public_key, events });
                records.len() - 1
            }
        };
        let missing = count("parts").saturating_sub(count("part") + 1);
        let start = text_of(&self.report.records[record].facts, "start");
        self.chains.insert(start, Chain { engine, signature: signed.signature, missing, record });
    }

    fn finish(mut self) -> RecordReport {
        let cut = self.chains.into_values().filter(|chain| chain.missing > 0);
        let cut = cut.map(|Chain { engine, missing, .. }| RecordFault::Cut { engine, missing });
        self.report.faults.extend(cut);
        self.report
    }
}

fn text_of(facts: &Value, name: &str) -> String {
    facts[name].as_str().unwrap_or_default().to_owned()
}

fn is_signed(key: &RecordKey, line: &SignedLine) -> bool {
    let mut signature = [0; RECORD_SIGNATURE_SIZE];
    hex::decode_to_slice(&line.signature, &mut signature).is_ok()
        && line.public_key == hex::encode(key.public_key())
        && key.verify(&signed_bytes(&line.record), &signature)
}

impl VerifiedRecord {
    /// Facts and events as one value.
    pub fn to_json(&self) -> Value {
        let mut all = self.facts.clone();
        all["public_key"] = json!(self.public_key);
        all["events"] = json!(self.events);
        all
    }
}
