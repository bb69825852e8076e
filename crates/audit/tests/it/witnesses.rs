//! Witnesses of logs: they sign only what continues what they have signed before.

use std::fs;

use leafseal_audit::{
    LogReader, LogWitness, NoteSigner, VerifyOptions, WitnessAnswer, WitnessFault, WitnessRequest,
    write_cosigned_checkpoint,
};
use leafseal_crypto::{Ed25519PrivateKey, Secret};

use crate::place::{Place, append, copy};

fn witness(place: &Place, seed: u8) -> LogWitness {
    let private = Ed25519PrivateKey::from_seed(Secret::from_bytes(&[seed; 32]));
    let signer = NoteSigner::of_witness(&format!("example.org/w{seed}"), private).expect("a name");
    LogWitness::open(signer, vec![place.key()], &place.folder.path().join(format!("witness{seed}"))).expect("opened")
}

fn reader(place: &Place) -> LogReader {
    LogReader::open(&place.path(), &place.key()).expect("a log")
}

fn ask(place: &Place, witness: &mut LogWitness, old: u64) -> Result<String, WitnessFault> {
    let request = WitnessRequest::new(&reader(place), old)?;
    let WitnessAnswer { status, body, .. } = witness.add_checkpoint(request.body.as_bytes(), 1_700_000_000);
    request.cosignature(witness.public(), status, body.as_bytes())
}

#[test]
fn a_log_that_grows_is_cosigned() {
    let place = Place::new();
    let (mut one, mut two) = (witness(&place, 8), witness(&place, 9));
    let mut log = place.filled(&[3]);
    let mut signed = 0;
    for more in [0, 1, 300, 70_000] {
        append(&mut log, more);
        log.publish().expect("published");
        // A witness that has signed nothing yet, or another size than is thought, says so.
        if signed > 0 {
            assert!(matches!(ask(&place, &mut one, signed - 1), Err(WitnessFault::Conflict(size)) if size == signed));
        }
        let lines = [ask(&place, &mut one, signed).expect("signed"), ask(&place, &mut two, signed).expect("signed")];
        signed = log.size();
        // The same once more, as after an answer that was lost; also by a witness that has started again.
        one = witness(&place, 8);
        assert_eq!(ask(&place, &mut one, signed).expect("signed"), lines[0]);
        // One after the other: what the first has signed is kept.
        let both = [one.public().clone(), two.public().clone()];
        let write =
            |lines: &[String], min| write_cosigned_checkpoint(&reader(&place), lines, &both, min).expect("written");
        assert_eq!((write(&lines[..1], 1), write(&lines[1..], 2), write(&[], 1), write(&lines[..1], 1)), (1, 2, 2, 2));
        assert_eq!(reader(&place).cosigned(&place.key()).expect("read"), signed);
        append(&mut log, 1);
        log.publish().expect("published");
        assert_eq!((write(&lines[..1], 2), reader(&place).cosigned(&place.key()).expect("read")), (1, signed));
    }
    append(&mut log, 7);
    log.publish().expect("published");
    let both = vec![one.public().clone(), two.public().clone()];
    let options = VerifyOptions { witnesses: both, witnesses_min: 2, ..VerifyOptions::default() };
    let report = place.verify(&options);
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    assert_eq!(report.witnessed, (2, signed));
    // When they have, is in what they have signed.
    let since = |time| VerifyOptions { witnessed_since: Some(time), ..options.clone() };
    assert!(place.verify(&since(1_700_000_000)).faults.is_empty());
    let faults: Vec<_> = place.verify(&since(1_700_000_001)).faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        ["0 of the witnesses have cosigned a checkpoint since 2023-11-14T22:13:21.000000Z; 2 must have"]
    );
    let third = witness(&place, 10).public().clone();
    let options = VerifyOptions { witnesses: vec![third], witnesses_min: 1, ..VerifyOptions::default() };
    let faults: Vec<_> = place.verify(&options).faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults, ["0 of the witnesses have cosigned a checkpoint; 1 must have"]);
    // Each byte of the cosigned checkpoint counts.
    let path = place.path().join("checkpoint.cosigned");
    let note = fs::read(&path).expect("there");
    let options = VerifyOptions {
        witnesses: vec![one.public().clone(), two.public().clone()],
        witnesses_min: 2,
        faults_max: 1,
        ..VerifyOptions::default()
    };
    for at in (0..note.len()).step_by(7) {
        let mut changed = note.clone();
        changed[at] ^= 1;
        fs::write(&path, changed).expect("written");
        assert!(!place.verify(&options).faults.is_empty(), "{at}");
    }
}

/// What a witness has signed already costs no write, and new checkpoints of one log so many and no more.
#[test]
fn a_witness_cannot_be_made_to_write_in_a_flood() {
    use std::os::unix::fs::MetadataExt as _;
    let place = Place::new();
    let mut witness = witness(&place, 8);
    let mut log = place.filled(&[3]);
    ask(&place, &mut witness, 0).expect("signed");
    let state = fs::read_dir(place.folder.path().join("witness8/log")).expect("a folder").next().expect("a file");
    let state = state.expect("an entry").path();
    let inode = || fs::metadata(&state).expect("there").ino();
    let before = inode();
    for _ in 0..100 {
        ask(&place, &mut witness, 3).expect("signed");
    }
    assert_eq!(inode(), before, "it was written again");
    let refused = (0..1000).find_map(|_| {
        let old = log.size();
        append(&mut log, 1);
        log.publish().expect("published");
        ask(&place, &mut witness, old).err()
    });
    assert!(matches!(refused, Some(WitnessFault::Refused { status: 429, .. })), "{refused:?}");
}

/// A log whose key has signed two histories of one length: that is said, and both are kept.
#[test]
fn a_fork_is_said_and_kept() {
    let (place, other) = (Place::new(), Place::new());
    let mut witness = witness(&place, 8);
    drop(place.filled(&[100]));
    ask(&place, &mut witness, 0).expect("signed");
    let mut forged = other.open(leafseal_audit::LogRules::default()).0;
    let forgeries: Vec<_> = (0..100).map(|number| format!("forged {number}")).collect();
    forged.append(forgeries.iter().map(String::as_bytes)).expect("appended");
    forged.publish().expect("published");
    for old in [0, 100] {
        let request = WitnessRequest::new(&reader(&other), old).expect("a request");
        let answer = witness.add_checkpoint(request.body.as_bytes(), 1);
        assert_eq!(answer.status, 409);
        assert!(answer.fork.is_some_and(|fork| fork.contains("two histories with 100 records")));
    }
    let kept = fs::read_dir(place.folder.path().join("witness8/fork")).expect("a folder").next().expect("a file");
    let kept = fs::read(kept.expect("an entry").path()).expect("there");
    let report = place.verify(&VerifyOptions { kept: vec![kept], ..VerifyOptions::default() });
    assert!(matches!(report.faults[..], [leafseal_audit::LogFault::Replaced { size: 100, .. }]), "{:?}", report.faults);
    // What only another has signed is no fork.
    let body = WitnessRequest::new(&reader(&place), 100).expect("a request").body;
    let answer = witness.add_checkpoint(body.replace("\n100\n", "\n101\n").as_bytes(), 1);
    assert_eq!((answer.status, answer.fork), (403, None));
}

/// A log that was cut off, or that shows another history, gets no cosignature, and learns what the witness has signed.
#[test]
fn no_other_history_is_cosigned() {
    let (place, older, other) = (Place::new(), Place::new(), Place::new());
    let mut witness = witness(&place, 8);
    drop(place.filled(&[100]));
    copy(&place.path(), &older.path());
    drop(place.filled(&[400]));
    ask(&place, &mut witness, 0).expect("signed");
    assert!(matches!(ask(&older, &mut witness, 0), Err(WitnessFault::Ahead(400))));
    assert!(matches!(ask(&older, &mut witness, 400), Err(WitnessFault::Ahead(400))));
    // Another log of the same key: with as many entries, and with more.
    let mut forged = other.open(leafseal_audit::LogRules::default()).0;
    for count in [400_u64, 100] {
        let forgeries: Vec<_> = (0..count).map(|number| format!("forged {number}")).collect();
        forged.append(forgeries.iter().map(String::as_bytes)).expect("appended");
        forged.publish().expect("published");
        let refused = ask(&other, &mut witness, 400);
        let is_refused = match count {
            400 => matches!(refused, Err(WitnessFault::Conflict(400))),
            _ => matches!(refused, Err(WitnessFault::Refused { status: 422, .. })),
        };
        assert!(is_refused, "{refused:?}");
    }
    // It was not confused.
    ask(&place, &mut witness, 400).expect("signed");
}

#[test]
fn requests_are_answered_as_the_specification_says() {
    let place = Place::new();
    let mut witness = witness(&place, 8);
    drop(place.filled(&[5]));
    let body = WitnessRequest::new(&reader(&place), 0).expect("a request").body;
    let mut status = |body: &str| witness.add_checkpoint(body.as_bytes(), 1).status;
    let hash = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";
    for (changed, expected) in [
        (String::new(), 400),
        (body.replace("old 0", "old 00"), 400),
        (body.replace("old 0", "old -1"), 400),
        (body.replace("old 0\n", ""), 400),
        (body.replace("old 0\n", "old 0\nnot base64\n"), 400),
        (body.replace("old 0\n", &format!("old 0\n{}", hash.repeat(64))), 400),
        (body.replace("old 0", "old 6"), 400),
        (body.replace("leafseal/store/engine\n", "leafseal/store/other\n"), 404),
        (body.replace("\n5\n", "\n6\n"), 403),
        (body.replace("— leafseal/store/engine", "— other"), 403),
        (body.replace("old 0\n", &format!("old 0\n{hash}")), 422),
        (body.replace("old 0", "old 3"), 409),
        (body.clone(), 200),
        (body.clone(), 409),
        (body.replace("old 0", "old 5"), 200),
        ("x".repeat(100_000), 400),
    ] {
        assert_eq!(status(&changed), expected, "{changed:.60}");
    }
    // What was signed is lost or changed: nothing is signed any more.
    let state = fs::read_dir(place.folder.path().join("witness8/log")).expect("a folder").next().expect("a file");
    fs::write(state.expect("an entry").path(), "changed").expect("written");
    assert_eq!(status(&body.replace("old 0", "old 5")), 500);
}
