//! Random edits of a log's files: each is found by a verification with the key and the newest checkpoint, kept elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use leafseal_audit::VerifyOptions;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::place::{Place, copy};

/// Edits in an ordinary run; `LEAFSEAL_AUDIT_EDITS` says another number.
const EDITS: u32 = 300;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for file in fs::read_dir(folder).expect("a folder") {
        let path = file.expect("an entry").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Changes a file in one of the ways that an enemy with the disk has. Returns what it was, or `None` if nothing has changed.
fn edit(random: &mut StdRng, all: &[(PathBuf, Vec<u8>)], own: &Path) -> Option<(String, Vec<PathBuf>)> {
    let (path, content) = &all[random.random_range(0..all.len())];
    let mut changed = content.clone();
    let place = random.random_range(0..content.len().max(1));
    let what = match random.random_range(0..8) {
        0 if !content.is_empty() => {
            changed[place] ^= 1 << random.random_range(0..8);
            "a bit"
        }
        1 => {
            changed.truncate(place);
            "cut"
        }
        2 => {
            changed.insert(place.min(changed.len()), random.random());
            "a byte more"
        }
        3 if !content.is_empty() => {
            changed.remove(place);
            "a byte less"
        }
        4 => {
            let (_, other) = &all[random.random_range(0..all.len())];
            changed.clone_from(other);
            "another file's content"
        }
        5 => {
            fs::remove_file(path).expect("removed");
            return Some((format!("{} removed", path.display()), vec![path.clone()]));
        }
        6 => {
            // Not 000: those entries are pruned, and what lies in their place is no part of the log.
            let new = path.with_file_name(format!("{:03}", random.random_range(1..1000)));
            if new.exists() {
                return None;
            }
            fs::write(&new, content).expect("written");
            return Some((format!("{} added", new.display()), vec![new]));
        }
        _ if content.len() > 64 => {
            // Two hashes, or as many bytes of entries, change places.
            let (a, b) = (random.random_range(0..content.len() / 32), random.random_range(0..content.len() / 32));
            for i in 0..32 {
                changed.swap(a * 32 + i, b * 32 + i);
            }
            "moved"
        }
        _ => return None,
    };
    assert!(path.starts_with(own));
    if changed == *content {
        return None;
    }
    fs::write(path, &changed).expect("written");
    Some((format!("{}: {what}", path.display()), vec![path.clone()]))
}

#[test]
fn each_edit_is_found() {
    let place = Place::new();
    let mut log = place.filled(&[100, 300, 1100]);
    log.prune(300).expect("pruned");
    drop(log);
    fs::remove_dir_all(place.path().join("journal")).expect("removed");
    fs::remove_dir_all(place.path().join("tmp")).expect("removed");
    let kept = fs::read(place.path().join("checkpoint")).expect("a checkpoint");
    let options = VerifyOptions { kept: vec![kept], minimum: Some(300), faults_max: 1, ..VerifyOptions::default() };
    assert!(place.verify(&options).faults.is_empty());
    let mut paths = Vec::new();
    files(&place.path(), &mut paths);
    paths.retain(|path| !path.ends_with("lock"));
    let all: Vec<_> = paths.iter().map(|path| (path.clone(), fs::read(path).expect("there"))).collect();
    assert!(all.len() > 10, "{all:?}");
    let mut random = StdRng::seed_from_u64(44);
    let edits = std::env::var("LEAFSEAL_AUDIT_EDITS").map_or(EDITS, |edits| edits.parse().expect("a number"));
    let mut done = 0;
    while done < edits {
        let Some((what, touched)) = edit(&mut random, &all, &place.path()) else { continue };
        let report = place.verify(&options);
        // A lower minimum than the true one asks for what is gone; a higher one is more than was allowed.
        assert!(!report.faults.is_empty(), "not found: {what}");
        for path in touched {
            match all.iter().find(|(known, _)| *known == path) {
                Some((_, content)) => fs::write(&path, content).expect("written"),
                None => fs::remove_file(&path).expect("removed"),
            }
        }
        done += 1;
    }
    assert!(place.verify(&options).faults.is_empty());
}

/// An older state of the whole folder, or another log of the same key, is found by a checkpoint that was kept.
#[test]
fn a_cut_or_another_history_is_found() {
    let (place, older, other) = (Place::new(), Place::new(), Place::new());
    let mut log = place.filled(&[100, 300]);
    copy(&place.path(), &older.path());
    let first = fs::read(place.path().join("checkpoint")).expect("a checkpoint");
    log.append([&b"one more"[..]]).expect("appended");
    log.publish().expect("published");
    let newest = fs::read(place.path().join("checkpoint")).expect("a checkpoint");
    let found = |path: &Path, kept: &[u8]| {
        let options = VerifyOptions { kept: vec![kept.to_vec()], ..VerifyOptions::default() };
        let report = leafseal_audit::verify_log(path, &place.key(), &options, |_, _| ());
        report.faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(found(&place.path(), &newest), [""; 0]);
    assert_eq!(found(&place.path(), &first), [""; 0]);
    assert_eq!(found(&older.path(), &newest), ["the newest records were cut off: kept checkpoint 0 covers 301"]);
    let mut forged = other.open(leafseal_audit::LogRules::default()).0;
    let forgeries: Vec<_> = (0..301_u64).map(|number| format!("forged {number}")).collect();
    forged.append(forgeries.iter().map(String::as_bytes)).expect("appended");
    forged.publish().expect("published");
    let expected = "records before 301 were replaced: kept checkpoint 0 is of another log";
    assert_eq!(found(&other.path(), &newest), [expected]);
    let foreign = String::from_utf8(newest).expect("text").replace("store", "stare");
    assert_eq!(found(&place.path(), foreign.as_bytes()), ["kept checkpoint 0: not signed by a known key"]);
}
