//! The lines of a record: JSON texts of bounded length, each signed, each with the signature of the one before.

use leafseal_engine::admin::RecordKey;
use serde_json::json;

use super::{Recording, now_ms};

/// Bytes of events in a line, unless one event is longer.
const EVENTS_SIZE_AIMED: usize = 6 << 10;
/// What is signed begins with this, so that no other signature of the key could be one of a line.
const SIGNED_TITLE: &[u8] = b"leafseal sealed record 1\n";
/// The first name in a line: nothing else in a log has it.
pub(super) const MARK: &str = "sealed_record";

/// A line for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignedLine {
    /// JSON.
    pub(crate) record: String,
    /// The public key in hexadecimal digits.
    pub(crate) public_key: String,
    /// The signature in hexadecimal digits.
    pub(crate) signature: String,
}

/// Where a line is in the records of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// By which the records of one process are recognised: random.
    pub(super) start: String,
    /// Counts its records.
    pub(super) number: u64,
    /// The signature of the line before; empty for the first.
    pub(super) before: String,
}

/// What is signed of a line.
pub(super) fn signed_bytes(record: &str) -> Vec<u8> {
    [SIGNED_TITLE, record.as_bytes()].concat()
}

/// The lines of a record; `place` moves on.
pub(super) fn signed_lines(recording: &Recording, engine: &str, key: &RecordKey, place: &mut Place) -> Vec<SignedLine> {
    let (parts, public_key) = (parts(&recording.events), hex::encode(key.public_key()));
    let mut lines = Vec::with_capacity(parts.len());
    for (part, events) in parts.iter().enumerate() {
        let mut head = json!({
            MARK: 1, "store": key.store_id().to_string(), "engine": engine, "epoch": key.epoch(), "start": place.start,
            "number": place.number, "part": part, "parts": parts.len(), "before": place.before,
        });
        if part == 0 {
            head["sealed_at_ms"] = recording.sealed_at_ms.into();
            head["opened_at_ms"] = now_ms().into();
            head["opened_by"] = recording.opened_by.clone().unwrap_or_default();
            head["omitted"] = json!(recording.omitted);
        }
        let head = head.to_string();
        let head = head.strip_suffix('}').unwrap_or(&head);
        let record = format!("{head},\"events\":[{}]}}", events.join(","));
        let signature = hex::encode(key.sign(&signed_bytes(&record)));
        place.before.clone_from(&signature);
        lines.push(SignedLine { record, public_key: public_key.clone(), signature });
    }
    place.number += 1;
    lines
}

/// The events of each line: at least one line, and in each at least one event if there are any.
fn parts(events: &[String]) -> Vec<&[String]> {
    let (mut parts, mut rest) = (Vec::new(), events);
    loop {
        let mut size = 0;
        let fits = |event: &&String| {
            size += event.len();
            size <= EVENTS_SIZE_AIMED
        };
        let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (part, further) = rest.split_at(count);
        parts.push(part);
        rest = further;
        if rest.is_empty() {
            return parts;
        }
    }
}
