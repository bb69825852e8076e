//! Logs of many sizes: what was appended is read, verified and found, also after a start.

use leafseal_audit::{
    Hashes as _, LogReader, LogRules, ReadError, VerifyOptions, leaf_hash, prove_record, verify_consistency,
    verify_inclusion, verify_proof,
};

use crate::place::{Place, append, entry, root};

#[test]
fn logs_of_all_sizes_have_the_root_of_the_definition() {
    let place = Place::new();
    let sizes = [1, 2, 255, 256, 257, 511, 512, 700, 65_535, 65_536, 65_537, 66_000];
    let mut kept = Vec::new();
    let mut before: Option<(u64, [u8; 32])> = None;
    for size in sizes {
        // Each size by a writer of its own.
        drop(place.filled(&[size]));
        let reader = LogReader::open(&place.path(), &place.key()).expect("a log");
        assert_eq!((reader.size(), reader.minimum(), reader.checkpoint().root), (size, 0, root(size)), "{size}");
        for index in [0, 1, size / 2, size - 1] {
            let (start, entries) = reader.bundle_of(index.min(size - 1)).expect("there");
            assert_eq!(entries[(index.min(size - 1) - start) as usize], entry(index.min(size - 1)));
            let index = index.min(size - 1);
            let proof = reader.inclusion(index, size).expect("a proof");
            assert!(verify_inclusion(&leaf_hash(&entry(index)), index, size, &root(size), &proof));
        }
        if let Some((old, old_root)) = before {
            let proof = reader.consistency(old, size).expect("a proof");
            assert!(verify_consistency(old, &old_root, size, &root(size), &proof), "{old} to {size}");
        }
        before = Some((size, root(size)));
        kept.push(std::fs::read(place.path().join("checkpoint")).expect("a checkpoint"));
        let report = place.verify(&VerifyOptions { kept: kept.clone(), ..VerifyOptions::default() });
        assert!(report.faults.is_empty(), "{size}: {:?}", report.faults);
        assert_eq!((report.first, report.entries), (0, size));
    }
}

#[test]
fn what_is_appended_is_durable_before_it_is_published() {
    let place = Place::new();
    let rules = LogRules { segment_bytes: 300, pending_bytes_max: 4000 };
    let mut size = 0;
    for count in [0, 1, 3, 250, 2, 1, 500, 7, 1] {
        let (mut log, recovery) = place.open(rules);
        assert_eq!((log.size(), recovery.replayed, recovery.torn_bytes), (size, size - log.published(), 0));
        append(&mut log, count);
        append(&mut log, 1);
        size += count + 1;
        assert_eq!(log.size(), size);
    }
    let (mut log, _) = place.open(rules);
    log.publish().expect("published");
    drop(log);
    let report = place.verify(&VerifyOptions::default());
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    assert_eq!(report.entries, size);
    assert_eq!(std::fs::read_dir(place.path().join("journal")).expect("a folder").count(), 1);
}

#[test]
fn entries_are_found_by_an_order() {
    for size in [1, 255, 256, 300, 1000] {
        let place = Place::new();
        let mut log = place.open(LogRules::default()).0;
        let numbers: Vec<_> = (0..size).map(|index: u64| (index / 3).to_be_bytes()).collect();
        log.append(numbers.iter().map(|number| &number[..])).expect("appended");
        log.publish().expect("published");
        for minimum in [0, size / 2] {
            log.prune(minimum).expect("pruned");
            let reader = LogReader::open(&place.path(), &place.key()).expect("a log");
            for wanted in [0, 1, size / 6, size / 4, (size - 1) / 3, size] {
                let found =
                    reader.partition_point(&(0..size), |entry| entry < &wanted.to_be_bytes()[..]).expect("read");
                assert_eq!(found, (wanted * 3).clamp(minimum, size), "{wanted} in {minimum}..{size}");
            }
        }
    }
}

#[test]
fn a_pruned_log_is_verified_from_its_minimum_on() {
    let place = Place::new();
    let mut log = place.filled(&[100, 66_000]);
    let files = |folder: &str| std::fs::read_dir(place.path().join(folder)).expect("a folder").count();
    let before = files("tile/entries");
    let first = std::fs::read(place.path().join("checkpoint")).expect("a checkpoint");
    assert!(log.prune(1000).expect("pruned") > 0);
    assert_eq!(before - files("tile/entries"), 3, "bundles of 256 below 1,000");
    append(&mut log, 1000);
    log.publish().expect("published");
    drop(log);
    let (log, _) = place.open(LogRules::default());
    let options = VerifyOptions { kept: vec![first], minimum: Some(1000), ..VerifyOptions::default() };
    let report = place.verify(&options);
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    assert_eq!((report.first, report.entries), (1000, log.size() - 1000));
    let report = place.verify(&VerifyOptions { minimum: Some(999), ..options });
    assert_eq!(report.faults[0].to_string(), "records before 1000 were removed");
    let reader = LogReader::open(&place.path(), &place.key()).expect("a log");
    assert!(matches!(reader.bundle_of(999), Err(ReadError::Outside { index: 999, minimum: 1000, .. })));
    let size = reader.size();
    for index in [1000, 1023, 1024, 65_536, size - 1] {
        let proof = reader.inclusion(index, size).expect("a proof");
        assert!(verify_inclusion(&leaf_hash(&entry(index)), index, size, &reader.checkpoint().root, &proof));
    }
    for old in [1000, 1024, 66_000] {
        let proof = reader.consistency(old, size).expect("a proof");
        assert!(verify_consistency(old, &root(old), size, &reader.checkpoint().root, &proof));
    }
}

#[test]
fn a_record_is_proved_without_the_log() {
    let place = Place::new();
    drop(place.filled(&[700]));
    let reader = LogReader::open(&place.path(), &place.key()).expect("a log");
    for index in [0, 255, 256, 699] {
        let proof = prove_record(&reader, index).expect("a proof");
        let proved = verify_proof(&proof, &place.key()).expect("proved");
        assert_eq!((proved.index, proved.record, proved.checkpoint.size), (index, entry(index), 700));
        // Another record, another number, another hash, another log.
        for (from, to) in
            [("extra ", "extra AAAA"), ("index ", "index 1"), ("\n\n", "\nAAAA\n\n"), ("\n700\n", "\n701\n")]
        {
            assert!(verify_proof(&proof.replacen(from, to, 1), &place.key()).is_err(), "{from:?}");
        }
        for at in 0..proof.len() {
            let mut changed = proof.clone().into_bytes();
            changed[at] ^= 1;
            let verified = String::from_utf8(changed).ok().and_then(|text| verify_proof(&text, &place.key()).ok());
            assert_eq!(verified, None, "{at}");
        }
    }
    assert!(prove_record(&reader, 700).is_err());
}
