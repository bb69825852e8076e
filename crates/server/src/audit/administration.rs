//! Changes of the keystore in the audit log: each row of its history becomes a record, once in each engine's log and in order.
//!
//! How far the log has them is found from the log itself: its records of changes have generations. A file beside the log says up to which
//! record that was known last, so that a start reads the records after it alone. It is signed: a wrong one could keep changes out of the
//! log.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leafseal_engine::Engine;
use leafseal_engine::admin::{
    ChangeKind, Generation, HistoryEntry, Readers, RecordKey, StoreChange, StoreError, replace_file,
};
use leafseal_engine::audit::{CARRIED, LogReader, ReadError, RecordText, RecordTicket, Recorder, VerifierKey};
use leafseal_engine::system_random;

use super::CANARY;

/// Longest file that is read.
const FILE_SIZE_MAX: usize = 1024;
/// Changes that are read at once.
const PAGE_SIZE: u32 = 100;
/// How often the file is written, while there are new records.
const SAVE_INTERVAL: Duration = Duration::from_secs(600);

/// The kind of these records.
const KIND: &str = "change";

/// Up to which change a log has the history of its store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CarriedMark {
    generation: u64,
    number: u64,
}

/// Brings the changes of a store into one log.
#[derive(Debug)]
pub(super) struct ChangeCarrier {
    file: PathBuf,
    key: RecordKey,
    /// What the log has.
    mark: CarriedMark,
    /// The last record with a change.
    last: Option<RecordTicket>,
    /// Records of the log when the recorder began.
    base: u64,
    saved: Option<(u64, Instant)>,
    seen: Option<Generation>,
}

/// Why it is not known how far a log has the changes.
#[derive(Debug, thiserror::Error)]
pub enum CarriedFault {
    /// The log does not read.
    #[error("the changes in the audit log: {0}")]
    Log(#[from] ReadError),
}

impl ChangeCarrier {
    /// Finds out which changes the log in `folder` has. All of its `size` records are published, and nobody writes yet.
    pub(super) fn find(folder: &Path, log: &VerifierKey, key: RecordKey, size: u64) -> Result<Self, CarriedFault> {
        let file = folder.join(CARRIED);
        let (from, mut mark) = read(&file, log.name(), &key).unwrap_or_default();
        if size > 0 {
            let reader = LogReader::open(folder, log)?;
            let mut next = from.max(reader.minimum());
            while next < reader.size() {
                let (start, bundle) = reader.bundle_of(next)?;
                for entry in bundle.iter().skip((next - start) as usize) {
                    mark = mark_of(entry).unwrap_or(mark);
                }
                next = start + bundle.len() as u64;
            }
        }
        let found = Self { file, key, mark, last: None, base: size, saved: None, seen: None };
        found.save(log.name(), 0);
        Ok(found)
    }

    /// Records the changes that the log does not have yet; returns whether the store may have changed.
    pub(super) fn carry(&mut self, engine: &Engine, recorder: &Recorder) -> Result<bool, StoreError> {
        let generation = engine.store_generation()?;
        if self.seen == Some(generation) || recorder.fault().is_some() {
            return Ok(false);
        }
        loop {
            let Some(page) = engine.store_changes(self.mark.generation, PAGE_SIZE)? else { return Ok(false) };
            let is_last = page.entries.len() < PAGE_SIZE as usize;
            for entry in page.entries {
                let (text, mark) = match entry {
                    HistoryEntry::Change(change) => {
                        let missing = change.number.saturating_sub(self.mark.number.saturating_add(1));
                        let mark = CarriedMark { generation: change.generation, number: change.number };
                        let mut text = text_of(&change);
                        text.number("missing", missing);
                        (text, mark)
                    }
                    HistoryEntry::Edited(generation) => {
                        let mut text = RecordText::new(KIND);
                        text.text("outcome", "edited").number("generation", generation);
                        (text, CarriedMark { generation, ..self.mark })
                    }
                };
                if !self.record(recorder, text, mark) {
                    return Ok(false);
                }
            }
            if is_last {
                let missing = page.newest_number.saturating_sub(self.mark.number);
                let mark = CarriedMark { generation: page.up_to, number: page.newest_number };
                let mut text = RecordText::new(KIND);
                text.text("outcome", "missing").number("generation", page.up_to).number("missing", missing);
                if missing > 0 && !self.record(recorder, text, mark) {
                    return Ok(false);
                }
                self.seen = Some(generation);
                return Ok(true);
            }
        }
    }

    fn record(&mut self, recorder: &Recorder, mut text: RecordText, mark: CarriedMark) -> bool {
        text.number("number", mark.number);
        let Ok(ticket) = recorder.record(&text.finish()) else { return false };
        (self.mark, self.last) = (mark, Some(ticket));
        true
    }

    /// Writes the file once in a while, when all that was carried is durable.
    pub(super) fn save_due(&mut self, log: &str, recorder: &Recorder, now: Instant) {
        let is_durable = self.last.is_none_or(|ticket| recorder.is_durable(ticket));
        // After that look, so that it counts them.
        let durable = recorder.figures().durable;
        let is_due = |(saved, at): (u64, Instant)| saved < durable && now.duration_since(at) >= SAVE_INTERVAL;
        if is_durable && self.saved.is_none_or(is_due) {
            self.save(log, durable);
            self.saved = Some((durable, now));
        }
    }

    /// Without the file a start reads more, and nothing else.
    fn save(&self, log: &str, durable: u64) {
        let size = self.base + durable;
        let signature = hex::encode(self.key.sign(&message(log, size, self.mark)));
        let text = format!("{size} {} {} {signature}\n", self.mark.generation, self.mark.number);
        if let Err(error) = replace_file(&self.file, text.as_bytes(), Readers::Owner, &mut system_random()) {
            tracing::debug!(%error, file = %self.file.display(), "cannot save how far the audit log has changes");
        }
    }
}

fn message(log: &str, size: u64, mark: CarriedMark) -> Vec<u8> {
    format!("leafseal-carried-1 {log} {size} {} {}", mark.generation, mark.number).into_bytes()
}

/// The number of records that were looked at, and what they had. A file that does not verify is none: the whole log is read then.
fn read(file: &Path, log: &str, key: &RecordKey) -> Option<(u64, CarriedMark)> {
    let text = std::fs::read_to_string(file).ok().filter(|text| text.len() <= FILE_SIZE_MAX)?;
    let [size, generation, number, signature] = text.trim_end().split(' ').collect::<Vec<_>>()[..] else { return None };
    let size = size.parse().ok()?;
    let mark = CarriedMark { generation: generation.parse().ok()?, number: number.parse().ok()? };
    let signature = hex::decode(signature).ok()?.try_into().ok()?;
    key.verify(&message(log, size, mark), &signature).then_some((size, mark))
}

/// The change that a record is of.
fn mark_of(entry: &[u8]) -> Option<CarriedMark> {
    // Most are of requests. Those of canaries are of requests or of changes.
    let has = |kind: &str| {
        let kind = format!("\"kind\":\"{kind}\"");
        entry.windows(kind.len()).any(|window| window == kind.as_bytes())
    };
    (has(KIND) || has(CANARY)).then_some(())?;
    let record: serde_json::Value = serde_json::from_slice(entry).ok()?;
    (record["kind"] == KIND || record["kind"] == CANARY).then_some(())?;
    Some(CarriedMark { generation: record["generation"].as_u64()?, number: record["number"].as_u64().unwrap_or(0) })
}

fn text_of(change: &StoreChange) -> RecordText {
    let author = &change.author;
    let is_canary = change.kind == ChangeKind::OpenCanary.as_str();
    if is_canary {
        let (app, user) = (change.app.as_deref().unwrap_or_default(), author.user.as_deref().unwrap_or_default());
        let host = author.host.as_deref().unwrap_or_default();
        tracing::warn!(
            app,
            command = author.command,
            user,
            uid = author.uid,
            host,
            "a canary was decrypted by a command"
        );
    }
    let mut text = RecordText::new(if is_canary { CANARY } else { KIND });
    text.text("change", &change.kind)
        .maybe("app", change.app.as_deref())
        .maybe("client", change.client.as_deref())
        .number("version", change.version.unwrap_or(0).into())
        .maybe("detail", change.detail.as_deref())
        .text("command", &author.command)
        .maybe("engine", author.engine.as_deref())
        .maybe("user", author.user.as_deref())
        .shown("uid", author.uid)
        .maybe("host", author.host.as_deref())
        .number("changed_at", change.at)
        .number("generation", change.generation);
    text
}
