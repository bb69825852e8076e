//! Records of several logs in the order of their times.

use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use leafseal_engine::audit::{
    ExportFormat, Hashes as _, LogReader, ReadError, VerifierKey, export_record, printable, time_of_record,
};
use serde_json::Value;

use super::origin::key_of_origin;
use super::time;
use crate::arguments::{ExportLogArguments, LogPlace, RecordFilter, RecordFormat, ShowLogArguments};
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::note::note;
use crate::output::OpenOutput;

/// Between two looks for new records.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

/// `audit show`.
pub(super) fn show(context: &RunContext, arguments: &ShowLogArguments) -> CommandOutcome {
    let mut output = OpenOutput::standard()?;
    let logs = FollowedLog::open_all(context, &arguments.place)?;
    for log in &logs {
        let (folder, origin, size) = (log.folder.display(), log.key.name(), log.reader.size());
        note(format_args!("{folder}: origin {origin}; checkpoint of {size} records, the newest of {}", log.newest()?));
    }
    let sources = sources(&logs, &arguments.filter)?;
    merge(sources, &arguments.filter, |_, _, entry| {
        output.write(printable(entry).as_bytes())?;
        output.write(b"\n")
    })?;
    output.finish()
}

/// `audit export`.
pub(super) fn export(context: &RunContext, arguments: &ExportLogArguments) -> CommandOutcome {
    let mut output = OpenOutput::standard()?;
    let format = match arguments.format {
        RecordFormat::Json => ExportFormat::Json,
        RecordFormat::Ocsf => ExportFormat::Ocsf,
        RecordFormat::Ecs => ExportFormat::Ecs,
    };
    let mut logs = FollowedLog::open_all(context, &arguments.place)?;
    let mut new = sources(&logs, &arguments.filter)?;
    loop {
        merge(new, &arguments.filter, |log, index, entry| {
            output.write(export_record(format, log.key.name(), index, entry).as_bytes())?;
            output.write(b"\n")
        })?;
        if !arguments.follow {
            return output.finish();
        }
        output.flush().map_err(|error| CommandFailure::writing("standard output", &error))?;
        std::thread::sleep(FOLLOW_INTERVAL);
        let seen: Vec<_> = logs.iter().map(|log| log.reader.size()).collect();
        logs = logs.into_iter().map(FollowedLog::reopen).collect::<CommandOutcome<_>>()?;
        new = Vec::new();
        for (log, seen) in logs.iter().zip(seen) {
            new.extend(log.eras_from(seen)?);
        }
    }
}

/// A log, as its checkpoint was when it was last looked at.
#[derive(Clone)]
struct FollowedLog {
    folder: PathBuf,
    key: VerifierKey,
    reader: Rc<LogReader>,
}

impl FollowedLog {
    fn open_all(context: &RunContext, place: &LogPlace) -> CommandOutcome<Vec<Self>> {
        let open = |folder: &PathBuf| {
            let key = key_of_origin(context, folder, place)?;
            let log = Self::open(folder, key)?;
            if log.reader.minimum() > 0 {
                note(format_args!("{}: records before {} were removed", folder.display(), log.reader.minimum()));
            }
            Ok(log)
        };
        place.folders.iter().map(open).collect()
    }

    fn open(folder: &Path, key: VerifierKey) -> CommandOutcome<Self> {
        let reader = LogReader::open(folder, &key).map_err(|error| failed(folder, &error))?;
        Ok(Self { folder: folder.to_owned(), key, reader: Rc::new(reader) })
    }

    /// The time of the newest record; empty if there is none.
    fn newest(&self) -> CommandOutcome<String> {
        let Some(last) = self.reader.size().checked_sub(1) else { return Ok(String::new()) };
        let (_, entries) = self.reader.bundle_of(last).map_err(|error| failed(&self.folder, &error))?;
        Ok(entries.last().map(|entry| time_of_record(entry).to_owned()).unwrap_or_default())
    }

    /// The log as it is now, if it continues what was read of it.
    fn reopen(self) -> CommandOutcome<Self> {
        let Self { folder, key, reader: before } = self;
        let now = Self::open(&folder, key)?;
        let (seen, size) = (before.size(), now.reader.size());
        let wrong = |what: &str| Err(CommandFailure::failed(format!("{}: {what}", folder.display())));
        if size < seen {
            return wrong(&format!("the log had {seen} records and has {size}: the newest were cut off"));
        }
        match now.reader.root(0, seen) {
            Ok(root) if root == before.checkpoint().root => {}
            Ok(_) => return wrong("the records that were read were replaced: this is another log"),
            // Nothing of them is left to be compared.
            Err(_) if now.reader.minimum() > seen => {
                note(format_args!(
                    "{}: records from {seen} on to {} were removed before they were read",
                    folder.display(),
                    now.reader.minimum()
                ));
            }
            Err(error) => return Err(failed(&folder, &error)),
        }
        Ok(now)
    }

    /// The records from a number on, of each era.
    fn eras_from(&self, first: u64) -> CommandOutcome<Vec<RecordSource>> {
        let eras = self.reader.eras().map_err(|error| failed(&self.folder, &error))?;
        let new = eras.into_iter().map(|era| era.start.max(first)..era.end).filter(|era| !era.is_empty());
        new.map(|era| RecordSource::open(self, era, None)).collect()
    }
}

fn failed(folder: &Path, error: &ReadError) -> CommandFailure {
    CommandFailure::failed(format!("{}: {error}", folder.display()))
}

/// The records of a log within which times do not go back, at the next of them.
struct RecordSource {
    log: FollowedLog,
    /// The number of the first of `bundle`, and its records.
    start: u64,
    bundle: Vec<Vec<u8>>,
    next: u64,
    end: u64,
}

impl RecordSource {
    fn open(log: &FollowedLog, range: Range<u64>, from: Option<&str>) -> CommandOutcome<Self> {
        let next = match from {
            Some(from) => log.reader.partition_point(&range, |entry| time_of_record(entry) < from),
            None => Ok(range.start),
        };
        let next = next.map_err(|error| failed(&log.folder, &error))?;
        Ok(Self { log: log.clone(), start: 0, bundle: Vec::new(), next, end: range.end })
    }

    /// The next record, which stays the next.
    fn peek(&mut self) -> CommandOutcome<Option<&[u8]>> {
        if self.next >= self.end {
            return Ok(None);
        }
        if !(self.start..self.start + self.bundle.len() as u64).contains(&self.next) {
            let read = self.log.reader.bundle_of(self.next);
            (self.start, self.bundle) = read.map_err(|error| failed(&self.log.folder, &error))?;
        }
        Ok(Some(&self.bundle[(self.next - self.start) as usize]))
    }
}

/// All records of logs from the filter's time on.
fn sources(logs: &[FollowedLog], filter: &RecordFilter) -> CommandOutcome<Vec<RecordSource>> {
    let from = time(filter.from.as_deref())?;
    let mut sources = Vec::new();
    for log in logs {
        for era in log.reader.eras().map_err(|error| failed(&log.folder, &error))? {
            sources.push(RecordSource::open(log, era, from.as_deref())?);
        }
    }
    Ok(sources)
}

/// Gives the records that a filter lets through to `write`, in the order of their times.
fn merge(
    mut sources: Vec<RecordSource>,
    filter: &RecordFilter,
    mut write: impl FnMut(&FollowedLog, u64, &[u8]) -> CommandOutcome,
) -> CommandOutcome {
    let to = time(filter.to.as_deref())?;
    loop {
        let mut first: Option<(usize, String)> = None;
        for (number, source) in sources.iter_mut().enumerate() {
            let Some(entry) = source.peek()? else { continue };
            let time = time_of_record(entry);
            let is_over = to.as_deref().is_some_and(|to| time >= to);
            if !is_over && first.as_ref().is_none_or(|(_, earliest)| time < earliest.as_str()) {
                first = Some((number, time.to_owned()));
            }
        }
        let Some((number, _)) = first else { return Ok(()) };
        let source = &mut sources[number];
        let (log, index) = (source.log.clone(), source.next);
        if let Some(entry) = source.peek()?
            && is_wanted(entry, filter)
        {
            write(&log, index, entry)?;
        }
        source.next += 1;
    }
}

fn is_wanted(entry: &[u8], filter: &RecordFilter) -> bool {
    let RecordFilter { client, app, outcome, kind, .. } = filter;
    let wanted = [("client", client), ("app", app), ("outcome", outcome), ("kind", kind)];
    if wanted.iter().all(|(_, value)| value.is_none()) {
        return true;
    }
    let record: Value = serde_json::from_slice(entry).unwrap_or_default();
    wanted.iter().all(|(name, value)| value.as_deref().is_none_or(|value| record[*name] == value))
}
