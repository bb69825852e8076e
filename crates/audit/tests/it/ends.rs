//! Writers that end at any moment, disks that refuse, folders that are another's.

use std::fs;

use leafseal_audit::{AuditLog, LogError, LogRules, VerifyOptions};

use crate::place::{Place, append, copy, open, signer};

/// The journal cut at every byte: the frames before the cut are there, nothing else, and the log goes on.
#[test]
fn a_torn_write_loses_only_itself() {
    let place = Place::new();
    let mut log = place.filled(&[3]);
    let mut ends = Vec::new();
    let segment = place.path().join("journal").join(format!("{:020}", 0));
    for count in [1, 4, 2] {
        append(&mut log, count);
        ends.push((fs::metadata(&segment).expect("there").len(), log.size()));
    }
    drop(log);
    let whole = fs::read(&segment).expect("there");
    for cut in 0..=whole.len() as u64 {
        let copied = Place::new();
        copy(&place.path(), &copied.path());
        fs::write(copied.path().join("journal").join(format!("{:020}", 0)), &whole[..cut as usize]).expect("written");
        let expected = ends.iter().rev().find(|(end, _)| *end <= cut).map_or(3, |(_, size)| *size);
        let opened = open(&copied.path(), LogRules::default());
        // A head that was durable before the entries of the checkpoint is missing.
        let Ok((mut log, recovery)) = opened else {
            let Err(LogError::Damaged { what, .. }) = opened else { panic!("{opened:?}") };
            assert!(cut < 80 && what.contains("journal"), "{cut}: {what}");
            continue;
        };
        assert_eq!((log.size(), recovery.replayed), (expected, expected - 3), "{cut}");
        append(&mut log, 300);
        log.publish().expect("published");
        drop(log);
        let report = copied.verify(&VerifyOptions::default());
        assert!(report.faults.is_empty(), "{:?}", report.faults);
        assert_eq!(report.entries, expected + 300);
    }
}

/// Each bit of the journal counts: a start finds the change, except in the last frame, which may be a write that did not end.
#[test]
fn a_changed_journal_is_found() {
    let place = Place::new();
    let mut log = place.filled(&[3]);
    append(&mut log, 4);
    append(&mut log, 5);
    drop(log);
    let segment = place.path().join("journal").join(format!("{:020}", 0));
    let whole = fs::read(&segment).expect("there");
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(&segment, &changed).expect("written");
        match open(&place.path(), LogRules { segment_bytes: u64::MAX, ..LogRules::default() }) {
            Err(LogError::Damaged { what, .. }) => assert!(what.contains("journal"), "{what}"),
            Ok((log, recovery)) => {
                assert!(recovery.torn_bytes > 0 && log.size() < 12, "{at}");
                drop(log);
                let next = place.path().join("journal").join(format!("{:020}", 7));
                let _ = fs::remove_file(next);
                let next = place.path().join("journal").join(format!("{:020}", 3));
                let _ = fs::remove_file(next);
            }
            Err(error) => panic!("{at}: {error}"),
        }
    }
}

#[test]
fn a_folder_has_one_writer_and_one_log() {
    let place = Place::new();
    let log = place.filled(&[3]);
    let again = open(&place.path(), LogRules::default());
    assert!(matches!(again, Err(LogError::InUse { .. })), "{again:?}");
    drop(log);
    let other = AuditLog::open(&place.path(), signer(7), LogRules::default());
    assert!(matches!(other, Err(LogError::Foreign { .. })), "{other:?}");
    fs::remove_file(place.path().join("key")).expect("removed");
    let keyless = open(&place.path(), LogRules::default());
    assert!(matches!(keyless, Err(LogError::Damaged { .. })), "{keyless:?}");
}

/// What a start needs: without it, or changed, the log does not go on as if nothing was there.
#[test]
fn a_log_with_a_missing_file_is_damaged() {
    let place = Place::new();
    drop(place.filled(&[100]));
    // Its publication removes the journal of the writer before.
    drop(place.filled(&[300]));
    for name in ["tile/0/001.p/44", "tile/1/000.p/1", "tile/entries/001.p/44", "checkpoint"] {
        let path = place.path().join(name);
        let content = fs::read(&path).expect("there");
        fs::remove_file(&path).expect("removed");
        let opened = open(&place.path(), LogRules::default());
        // Without the checkpoint, the journal does not begin where the log would.
        assert!(matches!(opened, Err(LogError::Damaged { .. })), "{name}: {opened:?}");
        let mut changed = content.clone();
        changed[content.len() / 2] ^= 1;
        fs::write(&path, changed).expect("written");
        let opened = open(&place.path(), LogRules::default());
        assert!(matches!(opened, Err(LogError::Damaged { .. })), "{name}: {opened:?}");
        fs::write(&path, content).expect("written");
    }
    assert_eq!(place.open(LogRules::default()).0.size(), 300);
}

/// A disk that refuses to begin a segment, or to publish, for a while: nothing is lost, and nothing is there twice.
#[test]
fn a_disk_may_refuse_for_a_while() {
    let place = Place::new();
    let rules = LogRules { segment_bytes: 1, ..LogRules::default() };
    let mut log = place.open(rules).0;
    append(&mut log, 3);
    let (journal, aside) = (place.path().join("journal"), place.path().join("aside"));
    fs::rename(&journal, &aside).expect("moved");
    fs::write(&journal, "in the way").expect("written");
    let refused = log.append([&b"lost"[..]]);
    assert!(matches!(refused, Err(LogError::Io { .. })), "{refused:?}");
    assert_eq!(log.size(), 3);
    fs::remove_file(&journal).expect("removed");
    fs::rename(&aside, &journal).expect("moved");
    append(&mut log, 2);
    let tiles = place.path().join("tile");
    fs::write(&tiles, "in the way").expect("written");
    assert!(matches!(log.publish(), Err(LogError::Io { .. })));
    append(&mut log, 500);
    assert!(matches!(log.publish(), Err(LogError::Io { .. })));
    assert_eq!((log.size(), log.published()), (505, 0));
    fs::remove_file(&tiles).expect("removed");
    append(&mut log, 1);
    log.publish().expect("published");
    drop(log);
    let report = place.verify(&VerifyOptions::default());
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    assert_eq!(report.entries, 506);
}

#[test]
fn entries_have_a_bound() {
    let place = Place::new();
    let mut log = place.open(LogRules::default()).0;
    let (longest, longer) = (vec![7; 65_535], vec![7; 65_536]);
    assert!(matches!(log.append([&longer[..]]), Err(LogError::EntrySize { size: 65_536 })));
    // More than a frame holds.
    log.append(std::iter::repeat_n(&longest[..], 300)).expect("appended");
    log.publish().expect("published");
    assert_eq!(log.size(), 300);
    drop(log);
    assert_eq!(place.open(LogRules::default()).0.size(), 300);
}
