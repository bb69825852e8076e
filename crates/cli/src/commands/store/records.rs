//! `store check --verify-record`: the signed records in a log of what happened while the keystore was sealed.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use leafseal_engine::admin::Keystore;
use leafseal_net::utc;
use leafseal_service::{RecordReport, VerifyError, verify_records};
use serde_json::{Value, json};

use crate::failure::{CommandFailure, CommandOutcome};

/// Checks the records in a log; `-` is standard input.
pub(super) fn verify(store: &dyn Keystore, log: &Path) -> CommandOutcome<RecordReport> {
    let failed = |error: io::Error| CommandFailure::reading(log, &error);
    let lines: Box<dyn BufRead> = match log == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(BufReader::new(File::open(log).map_err(failed)?)),
    };
    verify_records(lines, store).map_err(|error| match error {
        VerifyError::Read(error) => failed(error),
        VerifyError::Store(error) => error.into(),
    })
}

/// Records and faults.
pub(super) fn to_json(report: &RecordReport) -> Value {
    let records: Vec<Value> = report.records.iter().map(|record| record.to_json()).collect();
    json!({ "verified": records, "faults": faults(report) })
}

/// One line for each record and event.
pub(super) fn to_text(report: &RecordReport) -> String {
    let mut text = String::new();
    for record in &report.records {
        let fact = |name: &str| word(&record.facts[name]);
        let at = |name: &str| utc(record.facts[name].as_u64().unwrap_or_default() / 1000);
        let opened_by = record.facts["opened_by"]["client"].as_str().unwrap_or("nobody: the keystore opened by itself");
        let _ = writeln!(
            text,
            "record of engine {}, root {}, key {}: sealed {}, opened {} by {opened_by}; events {}, omitted {}",
            fact("engine"),
            fact("epoch"),
            record.public_key,
            at("sealed_at_ms"),
            at("opened_at_ms"),
            record.events.len(),
            fact("omitted"),
        );
        for event in &record.events {
            let facts = event.as_object().into_iter().flatten().filter(|(name, _)| *name != "at_ms");
            let facts: Vec<String> = facts.map(|(name, value)| format!("{name}={}", word(value))).collect();
            let at = utc(event["at_ms"].as_u64().unwrap_or_default() / 1000);
            let _ = writeln!(text, "  {at} {}", facts.join(" "));
        }
    }
    text
}

/// Fails unless there are records and all are whole.
pub(super) fn refuse_faults(report: &RecordReport) -> CommandOutcome {
    let mut faults = faults(report);
    if report.records.is_empty() && faults.is_empty() {
        faults.push("the log contains no record".to_owned());
    }
    let advice = "compare the log with copies of it elsewhere: it is not as the engine wrote it";
    if faults.is_empty() { Ok(()) } else { Err(CommandFailure::failed(faults.join("\n")).advise(advice)) }
}

fn faults(report: &RecordReport) -> Vec<String> {
    report.faults.iter().map(ToString::to_string).collect()
}

/// A text without quotation marks and control characters, or JSON.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| text.escape_debug().to_string())
}
