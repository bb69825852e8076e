//! Followers of a log: what they have seen they do not see again, also after a start.

use leafseal_audit::{LogCursor, LogReader, RecordBatch};

use crate::place::{Place, append, entry};

#[test]
fn a_follower_sees_each_record_once() {
    let place = Place::new();
    let mut log = place.filled(&[300]);
    let file = place.folder.path().join("cursors/one");
    let origin = place.key().name().to_owned();
    let mut seen = Vec::new();
    for more in [0, 1, 700] {
        append(&mut log, more);
        log.publish().expect("published");
        let mut cursor = LogCursor::open(&file, &origin).expect("a cursor");
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
    assert_eq!(LogCursor::open(&file, "another").expect("a cursor").next(), 0);
    std::fs::write(&file, format!("{origin}\nx\n")).expect("written");
    assert!(LogCursor::open(&file, &origin).is_err());
}
