//! `audit`: verifies audit logs, prints and proves their records, and removes old ones.

mod origin;
mod records;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leafseal_engine::audit::{
    AuditLog, Durability, LogName, LogReader, LogReport, LogRules, NoteSigner, ReadError, Recorder, RecorderRules,
    VerifierKey, VerifyOptions, printable, prove_record, record_time, time_of_record, verify_log, verify_proof,
};
use serde_json::{Value, json};

use crate::arguments::{
    AuditCommand, CheckProofArguments, ProveRecordArguments, PruneLogArguments, VerifyLogArguments,
};
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::output::{print, print_json};
use origin::key_of_origin;

/// Records are removed in so many.
const BUNDLE_SIZE: u64 = 256;

/// `leafseal audit`.
pub(super) fn run(context: &RunContext, command: &AuditCommand) -> CommandOutcome {
    match command {
        AuditCommand::Verify(arguments) => verify(context, arguments),
        AuditCommand::Show(arguments) => records::show(context, arguments),
        AuditCommand::Export(arguments) => records::export(context, arguments),
        AuditCommand::Prove(arguments) => prove(context, arguments),
        AuditCommand::Check(arguments) => check(arguments),
        AuditCommand::Prune(arguments) => prune(context, arguments),
    }
}

/// The key of the log in a folder: the given one, or that of the engine and root that the log names, from the keystore.
fn key(context: &RunContext, folder: &Path, given: Option<&str>) -> CommandOutcome<VerifierKey> {
    match given {
        Some(given) => VerifierKey::parse(given.trim()).map_err(|error| CommandFailure::usage(error.to_string())),
        None => Ok(signer(context, folder)?.public().clone()),
    }
}

/// The private key of the log in a folder, from the keystore.
fn signer(context: &RunContext, folder: &Path) -> CommandOutcome<NoteSigner> {
    let wrong = |error: &dyn std::fmt::Display| CommandFailure::usage(error.to_string());
    let file = folder.join("key");
    let text = fs::read_to_string(&file).map_err(|error| CommandFailure::reading(&file, &error))?;
    let named = VerifierKey::parse(text.trim_end()).map_err(|error| wrong(&format!("{}: {error}", file.display())))?;
    let name = LogName::of_origin(named.name());
    let name = name.ok_or_else(|| wrong(&format!("{} names no engine, root and log", file.display())))?;
    let key = context.store()?.record_key(&name.signer(), Some(name.epoch))?;
    let key = key.ok_or_else(|| wrong(&"the keystore has no such root: give the log's key with --key"))?;
    let origin = name.origin(key.store_id());
    if named.name() != origin {
        return Err(wrong(&format!("{} is of another keystore: {}", file.display(), named.name())));
    }
    NoteSigner::of_log(&origin, key.into_private_key()).map_err(|error| wrong(&error))
}

fn prune(context: &RunContext, arguments: &PruneLogArguments) -> CommandOutcome {
    let folder = &arguments.folder;
    let before = time(arguments.before.as_deref())?;
    let failed = |error: &dyn std::fmt::Display| CommandFailure::failed(format!("{}: {error}", folder.display()));
    let signer = signer(context, folder)?;
    let key = signer.public().clone();
    let (mut log, _) = AuditLog::open(folder, signer, LogRules::default()).map_err(|error| failed(&error))?;
    log.publish().map_err(|error| failed(&error))?;
    let reader = LogReader::open(folder, &key).map_err(|error| failed(&error))?;
    let wanted = match (&before, arguments.keep) {
        (Some(before), _) => reader.first_since(before).map_err(|error| failed(&error))?,
        (None, keep) => reader.size().saturating_sub(keep.unwrap_or(u64::MAX)),
    };
    let minimum = wanted.min(reader.size().saturating_sub(1)) / BUNDLE_SIZE * BUNDLE_SIZE;
    if minimum <= reader.minimum() {
        return print(&format!(
            "{}: nothing to remove: records from {} on are there\n",
            folder.display(),
            reader.minimum()
        ));
    }
    // The log says so itself, before anything is removed.
    let recorder = Recorder::start(log, RecorderRules::default(), Box::new(unix_us));
    let ticket = recorder
        .record(format!("{{\"kind\":\"pruned\",\"minimum\":{minimum}}}").as_bytes())
        .map_err(|error| failed(&error))?;
    let (sender, durability) = std::sync::mpsc::channel();
    recorder.when_durable(ticket, move |durability| sender.send(durability).unwrap_or_default());
    if durability.recv() != Ok(Durability::Durable) {
        let fault = recorder.fault().unwrap_or_default();
        return Err(failed(&format!("nothing was removed, because the log takes no record of it: {fault}")));
    }
    let mut log =
        recorder.close().ok_or_else(|| failed(&"nothing was removed: its thread has ended, which is a bug"))?;
    log.publish().map_err(|error| failed(&error))?;
    let removed = log.prune(minimum).map_err(|error| failed(&error))?;
    print(&format!("{}: records before {minimum} were removed: {removed} files\n", folder.display()))
}

fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn verify(context: &RunContext, arguments: &VerifyLogArguments) -> CommandOutcome {
    let read = |path| fs::read(path).map_err(|error| CommandFailure::reading(path, &error));
    let kept: Vec<_> = arguments.kept.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let witness = |text: &String| VerifierKey::parse(text.trim()).ok().filter(VerifierKey::is_of_witness);
    let witnesses: Option<Vec<_>> = arguments.witness.iter().map(witness).collect();
    let witnesses =
        witnesses.ok_or_else(|| CommandFailure::usage("--witness must be the public key of a witness".to_owned()))?;
    let witnesses_min = arguments.witnesses_min.unwrap_or(witnesses.len());
    let since = |within: Duration| (unix_us() / 1_000_000).saturating_sub(within.as_secs());
    let witnessed_since = arguments.witnessed_within.map(since);
    let minimum = arguments.minimum;
    let options = VerifyOptions { kept, minimum, witnesses, witnesses_min, witnessed_since, faults_max: 0 };
    let (mut faults, mut too_old) = (0, 0);
    for folder in &arguments.place.folders {
        let key = key_of_origin(context, folder, &arguments.place)?;
        let (mut kinds, mut newest) = (BTreeMap::<String, u64>::new(), String::new());
        let report = verify_log(folder, &key, &options, |_, entry| {
            *kinds.entry(kind_of(entry)).or_default() += 1;
            time_of_record(entry).clone_into(&mut newest);
        });
        faults += report.faults.len();
        too_old += report.too_old.iter().filter(|old| old.kept.is_some()).count();
        if arguments.form.json {
            print_json(&to_json(folder, &key, &report, (&kinds, &newest)))?;
        } else {
            print(&to_text(folder, &key, &report, (&kinds, &newest)))?;
        }
    }
    match (faults, too_old) {
        (0, 0) => Ok(()),
        (0, _) => Err(CommandFailure::failed(format!("{too_old} kept checkpoints are too old: keep newer ones"))),
        _ => Err(CommandFailure::failed(format!("{faults} faults: a log is not what it was"))),
    }
}

fn kind_of(entry: &[u8]) -> String {
    let record: Value = serde_json::from_slice(entry).unwrap_or_default();
    record["kind"].as_str().unwrap_or("other").to_owned()
}

/// Records by kind, and the time of the newest.
type FoundKinds<'r> = (&'r BTreeMap<String, u64>, &'r str);

fn to_json(folder: &Path, key: &VerifierKey, report: &LogReport, (kinds, newest): FoundKinds<'_>) -> Value {
    json!({
        "folder": folder.display().to_string(), "origin": key.name(), "first": report.first, "records": report.entries, "kinds": kinds,
        "newest": newest, "size": report.checkpoint.as_ref().map(|checkpoint| checkpoint.size),
        "witnesses": report.witnessed.0, "witnessed": report.witnessed.1,
        "faults": report.faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "too_old": report.too_old.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn to_text(folder: &Path, key: &VerifierKey, report: &LogReport, (kinds, newest): FoundKinds<'_>) -> String {
    let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    let mut text = format!("{}: {} records verified, from number {}", folder.display(), report.entries, report.first);
    if !kinds.is_empty() {
        text += &format!(" ({})", kinds.join(", "));
    }
    if let (witnesses @ 1.., size) = report.witnessed {
        text += &format!("; {witnesses} witnesses have cosigned the first {size}");
    }
    text.push('\n');
    text += &format!("  origin {}", key.name());
    if let Some(checkpoint) = &report.checkpoint {
        text += &format!("; checkpoint of {} records, the newest of {newest}", checkpoint.size);
    }
    text.push('\n');
    for fault in &report.faults {
        text += &format!("  fault: {fault}\n");
    }
    for checkpoint in &report.too_old {
        text += &format!("  not compared: {checkpoint}\n");
    }
    text
}

/// A time as records have it.
fn time(text: Option<&str>) -> CommandOutcome<Option<String>> {
    let wrong = |text| CommandFailure::usage(format!("{text} is no time: write it as 2026-11-28T09:00:00Z"));
    text.map(|text| record_time(text).ok_or_else(|| wrong(text))).transpose()
}

fn prove(context: &RunContext, arguments: &ProveRecordArguments) -> CommandOutcome {
    let key = key(context, &arguments.folder, arguments.key.as_deref())?;
    let failed = |error: ReadError| CommandFailure::failed(format!("{}: {error}", arguments.folder.display()));
    let reader = LogReader::open(&arguments.folder, &key).map_err(failed)?;
    print(&prove_record(&reader, arguments.index).map_err(failed)?)
}

fn check(arguments: &CheckProofArguments) -> CommandOutcome {
    let file = &arguments.file;
    let key = VerifierKey::parse(arguments.key.trim()).map_err(|error| CommandFailure::usage(error.to_string()))?;
    let text = fs::read_to_string(file).map_err(|error| CommandFailure::reading(file, &error))?;
    let proved = verify_proof(&text, &key);
    let proved = proved.map_err(|error| CommandFailure::failed(format!("{}: {error}", file.display())))?;
    print(&format!("{}\n", printable(&proved.record)))
}
