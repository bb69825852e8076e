//! Followers of a log: what they have seen they do not see again, also after a start.

use leafseal_audit::{LogCursor, LogReader, NoteSigner, RecordBatch};
use leafseal_crypto::{Ed25519PrivateKey, Secret};

use crate::place::{Place, append, entry};

#[test]
fn a_follower_sees_each_record_once() {
    let place = Place::new();
    let mut log = place.filled(&[300]);
    let folder = place.folder.path().join("cursors");
    let (origin, key) = (place.key().name().to_owned(), place.signer().cursor_key());
    let mut seen = Vec::new();
    for more in [0, 1, 700] {
        append(&mut log, more);
        log.publish().expect("published");
        let mut cursor = LogCursor::open(&folder, "one", &origin, &key).expect("a cursor");
        let reader = LogReader::open(&place.path(), &place.key()).expect("a log");
        while cursor.next() < reader.size() {
            let batch = RecordBatch::read(&reader, cursor.next(), |entry| !entry.is_empty()).expect("read");
            assert!(batch.next > cursor.next() && batch.records.len() <= 256);
            seen.extend(batch.records);
            cursor.advance(batch.next).expect("written");
        }
        assert_eq!(RecordBatch::read(&reader, cursor.next(), |_| true).expect("read").records, []);
    }
    let expected: Vec<_> =
        (0..1001).map(|index| (index, entry(index))).filter(|(_, entry)| !entry.is_empty()).collect();
    assert_eq!(seen, expected);
    for (follower, log) in [("one", "another"), ("two", origin.as_str())] {
        let cursor = LogCursor::open(&folder, follower, log, &key).expect("a cursor");
        assert_eq!((cursor.next(), cursor.was_forged()), (0, false));
    }
}

/// Who writes a cursor without the log's key makes the engine skip nothing: the follower begins at the beginning, and the engine knows.
#[test]
fn a_forged_cursor_is_found() {
    let place = Place::new();
    let folder = place.folder.path().join("cursors");
    let (origin, key) = (place.key().name().to_owned(), place.signer().cursor_key());
    let open = |follower: &str| LogCursor::open(&folder, follower, &origin, &key).expect("a cursor");
    open("one").advance(1234).expect("written");
    open("two").advance(5).expect("written");
    assert_eq!((open("one").next(), open("one").was_forged()), (1234, false));
    let file = open("one").file().to_owned();
    let written = std::fs::read(&file).expect("there");
    let text = String::from_utf8(written.clone()).expect("text");
    let of_another = std::fs::read_to_string(open("two").file()).expect("there");
    let other_key = NoteSigner::of_log(&origin, Ed25519PrivateKey::from_seed(Secret::from_bytes(&[9; 32])));
    let other_key = other_key.expect("a name").cursor_key();
    let mut forgeries: Vec<Vec<u8>> = (0..written.len())
        .map(|at| {
            let mut changed = written.clone();
            changed[at] ^= 1;
            changed
        })
        .collect();
    LogCursor::open(&folder, "one", &origin, &other_key).expect("a cursor").advance(1234).expect("written");
    forgeries.push(std::fs::read(&file).expect("there"));
    forgeries.extend(
        [
            text.replace("1234", "1235"),
            text.replace("\n1234\n", "\n01234\n"),
            of_another,
            String::new(),
            "x".repeat(9999),
        ]
        .map(String::into_bytes),
    );
    forgeries.push(b"\xff".to_vec());
    for forged in forgeries {
        std::fs::write(&file, &forged).expect("written");
        let cursor = open("one");
        assert_eq!((cursor.next(), cursor.was_forged()), (0, true), "{:?}", String::from_utf8_lossy(&forged));
    }
    std::fs::write(&file, written).expect("written");
    assert_eq!(open("one").next(), 1234);
}

/// Halves of a batch have its records, and each says where it ends.
#[test]
fn batches_are_split() {
    let place = Place::new();
    drop(place.filled(&[20]));
    let reader = LogReader::open(&place.path(), &place.key()).expect("a log");
    let whole = RecordBatch::read(&reader, 3, |entry| !entry.is_empty()).expect("read");
    let (first, second) = whole.clone().split();
    assert_eq!([first.records.clone(), second.records.clone()].concat(), whole.records);
    assert_eq!((first.next, second.next), (second.records[0].0, 20));
    assert!(first.records.len() - second.records.len() <= 1 && !second.records.is_empty());
    let (one, none) = RecordBatch { records: whole.records[..1].to_vec(), ..whole }.split();
    assert_eq!((one.records.len(), one.next, none.records.len()), (1, 20, 0));
}
