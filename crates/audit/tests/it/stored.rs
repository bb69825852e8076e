//! Logs whose records are durable in a store: their folder may be lost at any moment.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use leafseal_audit::{
    AuditLog, FrameFault, FrameStore, LogError, LogRules, StoredFrame, StoredFrames, VerifyOptions, verify_log,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::place::{Place, append, entry, root, signer};

/// A store in memory.
#[derive(Default)]
struct Frames(Mutex<Kept>);

#[derive(Default, Clone)]
struct Kept {
    base: Option<Vec<u8>>,
    frames: BTreeMap<u64, StoredFrame>,
    /// What becomes of the next frame that is put.
    next: Outcome,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Outcome {
    #[default]
    Taken,
    Refused,
    /// The store has it, and its answer is lost.
    Unknown,
}

impl FrameStore for Frames {
    fn is_known(&self) -> Result<bool, FrameFault> {
        let kept = self.0.lock().expect("no panic");
        Ok(kept.base.is_some() || !kept.frames.is_empty())
    }

    fn take_over(&self) -> Result<StoredFrames, FrameFault> {
        let kept = self.0.lock().expect("no panic");
        Ok(StoredFrames {
            base: kept.base.clone(),
            end: kept.frames.values().map(|frame| frame.end).max().unwrap_or(0),
        })
    }

    fn put(&self, frame: StoredFrame) -> Result<(), FrameFault> {
        let mut kept = self.0.lock().expect("no panic");
        let outcome = std::mem::take(&mut kept.next);
        if outcome != Outcome::Refused {
            kept.frames.insert(frame.start, frame);
        }
        if outcome == Outcome::Taken { Ok(()) } else { Err("no answer".into()) }
    }

    fn read(&self, from: u64, bytes: usize) -> Result<Vec<StoredFrame>, FrameFault> {
        let kept = self.0.lock().expect("no panic");
        let mut left = bytes;
        let found = kept.frames.values().filter(|frame| frame.end > from).take_while(|frame| {
            let has_room = left > 0;
            left = left.saturating_sub(frame.content.len());
            has_room
        });
        Ok(found.cloned().collect())
    }

    fn remove_before(&self, index: u64, base: &[u8]) -> Result<(), FrameFault> {
        let mut kept = self.0.lock().expect("no panic");
        kept.base = Some(base.to_vec());
        kept.frames.retain(|_, frame| frame.end > index);
        Ok(())
    }
}

fn open(path: &Path, frames: &Arc<Frames>) -> Result<AuditLog, LogError> {
    let store: Arc<dyn FrameStore> = Arc::<Frames>::clone(frames);
    AuditLog::open_stored(path, signer(1), LogRules::default(), store).map(|(log, _)| log)
}

fn lose(path: &Path) {
    std::fs::remove_dir_all(path).expect("removed");
}

/// Whatever was appended is there after the folder was lost, with the same tree, also from a pruned one on.
#[test]
fn a_lost_folder_is_written_again() {
    let mut rng = StdRng::seed_from_u64(56);
    for _ in 0..20 {
        let (place, frames) = (Place::new(), Arc::<Frames>::default());
        let mut size = 0;
        let mut minimum = 0;
        for _ in 0..12 {
            let mut log = open(&place.path(), &frames).expect("opened");
            assert_eq!(log.size(), size);
            for _ in 0..rng.random_range(0..6) {
                let count = [1, rng.random_range(1..40), rng.random_range(200..700)][rng.random_range(0..3)];
                append(&mut log, count);
                size += count;
                if rng.random_bool(0.3) {
                    log.publish().expect("published");
                }
            }
            if size > 0 && rng.random_bool(0.3) {
                log.publish().expect("published");
                let wanted = rng.random_range(0..=size);
                log.prune(wanted).expect("pruned");
                minimum = minimum.max(wanted.min(size - 1));
            }
            drop(log);
            if rng.random_bool(0.7) {
                lose(&place.path());
                minimum = minimum >> 8 << 8;
            }
        }
        let log = open(&place.path(), &frames).expect("opened");
        drop(log);
        if size > 0 {
            let report = place.verify(&VerifyOptions::default());
            assert!(report.faults.is_empty(), "{:?}", report.faults);
            let checkpoint = report.checkpoint.expect("there");
            assert_eq!((checkpoint.size, checkpoint.root, report.first), (size, root(size), minimum));
        }
    }
}

/// A folder that was being written again when the writer ended: tiles without a checkpoint, any part of them.
#[test]
fn a_folder_that_was_begun_is_written_again() {
    let (place, frames) = (Place::new(), Arc::<Frames>::default());
    let mut log = open(&place.path(), &frames).expect("opened");
    append(&mut log, 700);
    log.publish().expect("published");
    drop(log);
    let tiles = ["tile/entries/000", "tile/entries/001", "tile/entries/002.p/188", "tile/0/000", "tile/1/000.p/2"];
    for missing in tiles {
        std::fs::remove_file(place.path().join("checkpoint")).expect("removed");
        std::fs::remove_file(place.path().join(missing)).expect("removed");
        let log = open(&place.path(), &frames).expect("opened");
        assert_eq!(log.size(), 700);
        drop(log);
        let report = place.verify(&VerifyOptions::default());
        assert!(report.faults.is_empty(), "{:?}", report.faults);
    }
    // Without frames, nothing says that the checkpoint was not there.
    std::fs::remove_file(place.path().join("checkpoint")).expect("removed");
    let other = open(&place.path(), &Arc::default());
    assert!(matches!(other, Err(LogError::Damaged { .. })), "{other:?}");
}

/// A store that someone changed: no start goes on as if nothing was, except without the newest.
#[test]
fn changed_frames_stop_the_start() {
    let (place, frames) = (Place::new(), Arc::<Frames>::default());
    let mut log = open(&place.path(), &frames).expect("opened");
    for _ in 0..8 {
        append(&mut log, 97);
    }
    log.publish().expect("published");
    log.prune(300).expect("pruned");
    drop(log);
    let whole = frames.0.lock().expect("no panic").clone();
    let mut rng = StdRng::seed_from_u64(57);
    for round in 0..600 {
        let mut kept = whole.clone();
        let starts: Vec<u64> = kept.frames.keys().copied().collect();
        let chosen = starts[rng.random_range(0..starts.len())];
        let is_last = chosen == *starts.last().expect("some");
        let mut is_cut = false;
        match round % 5 {
            0 => {
                let content = &mut kept.frames.get_mut(&chosen).expect("there").content;
                let at = rng.random_range(0..content.len());
                content[at] ^= 1 << rng.random_range(0..8);
            }
            1 => {
                let base = kept.base.as_mut().expect("pruned");
                let at = rng.random_range(0..base.len());
                base[at] ^= 1 << rng.random_range(0..8);
            }
            2 => {
                kept.frames.remove(&chosen);
                is_cut = is_last;
            }
            3 => {
                let other = starts[rng.random_range(0..starts.len())];
                if other == chosen {
                    continue;
                }
                let content = kept.frames[&other].content.clone();
                kept.frames.get_mut(&chosen).expect("there").content = content;
            }
            _ => kept.frames.get_mut(&chosen).expect("there").end += 1,
        }
        lose(&place.path());
        *frames.0.lock().expect("no panic") = kept;
        match open(&place.path(), &frames) {
            Ok(log) => assert!(is_cut && log.size() < 8 * 97, "round {round}: {}", log.size()),
            Err(LogError::Damaged { .. }) => assert!(!is_cut, "round {round}"),
            Err(error) => panic!("round {round}: {error}"),
        }
    }
}

/// A frame whose fate is not known is written again, and is there once.
#[test]
fn a_refused_frame_is_tried_again() {
    let (place, frames) = (Place::new(), Arc::<Frames>::default());
    let mut log = open(&place.path(), &frames).expect("opened");
    for number in 0..30 {
        let outcome = [Outcome::Taken, Outcome::Refused, Outcome::Unknown][number % 3];
        frames.0.lock().expect("no panic").next = outcome;
        let first = entry(log.size());
        let before = log.size();
        let appended = log.append([first.as_slice()]);
        assert_eq!(appended.is_ok(), outcome == Outcome::Taken);
        if let Err(error) = appended {
            assert!(matches!(error, LogError::NotStored { .. }) && log.size() == before);
            log.append([first.as_slice()]).expect("taken now");
        }
    }
    drop(log);
    lose(&place.path());
    assert_eq!(open(&place.path(), &frames).expect("opened").size(), 30);
    assert!(place.verify(&VerifyOptions::default()).faults.is_empty());
}

/// A log that was on a disk alone goes on in the store, and from then on not without it.
#[test]
fn a_log_of_a_disk_is_handed_in() {
    for prune in [0, 700, 768] {
        let (place, frames) = (Place::new(), Arc::<Frames>::default());
        let mut log = place.filled(&[10, 1000]);
        log.prune(prune).expect("pruned");
        // Durable in the journal alone.
        append(&mut log, 50);
        drop(log);
        drop(open(&place.path(), &frames).expect("opened"));
        assert!(matches!(
            AuditLog::open(&place.path(), signer(1), LogRules::default()),
            Err(LogError::KeptElsewhere { .. })
        ));
        lose(&place.path());
        let mut log = open(&place.path(), &frames).expect("opened");
        assert_eq!(log.size(), 1050);
        append(&mut log, 1);
        log.publish().expect("published");
        let report = verify_log(&place.path(), &place.key(), &VerifyOptions::default(), |index, found| {
            assert_eq!(found, entry(index));
        });
        assert!(report.faults.is_empty(), "{:?}", report.faults);
        assert_eq!((report.entries, report.first), (1051 - (prune >> 8 << 8), prune >> 8 << 8));
    }
}
