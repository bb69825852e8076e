//! Frames of audit logs in PostgreSQL: one writer for each log, durable when they are put, also while the server goes away.

use leafseal_keystore::{
    HeldFrames, Keystore, LogFrame, LogFrames, OpenMode, PostgresKeystore, PostgresSettings, StoreError, StoreLimits,
};
use leafseal_testkit::postgres::{Durability, PostgresServer};

use crate::common::{Kind, Place, environment};

fn open(settings: &PostgresSettings) -> PostgresKeystore {
    PostgresKeystore::open(settings, OpenMode::CreateIfMissing, environment(), StoreLimits::default()).expect("opened")
}

fn frames(settings: &PostgresSettings, origin: &str) -> Box<dyn LogFrames> {
    open(settings).log_frames(origin).expect("connected").expect("in PostgreSQL")
}

fn frame(start: u64, end: u64) -> LogFrame {
    LogFrame { start, end, content: vec![start as u8; (end - start) as usize * 1000] }
}

#[test]
fn frames_are_read_in_order_and_within_a_size() {
    let server = PostgresServer::shared();
    let settings = server.settings(&server.database());
    let log = frames(&settings, "leafseal/a/one/0");
    assert!(!log.is_known().expect("read"));
    assert_eq!(log.take_over().expect("taken"), HeldFrames::default());
    assert!(log.is_known().expect("read"));
    let all = [frame(0, 3), frame(3, 4), frame(4, 300), frame(300, 301)];
    all.iter().for_each(|frame| log.put(frame).expect("put"));
    // Of another log.
    let other = frames(&settings, "leafseal/a/two/0");
    assert_eq!(other.take_over().expect("taken"), HeldFrames::default());
    other.put(&frame(0, 1)).expect("put");
    let read = |from, bytes| log.read(from, bytes).expect("read");
    assert_eq!(read(0, 1 << 20), all);
    assert_eq!(read(0, 1), all[..1]);
    assert_eq!(read(0, 4000), all[..2]);
    assert_eq!(read(2, 3000), all[..1]);
    assert_eq!(read(3, 1 << 20), all[1..]);
    assert_eq!(read(299, 1 << 20), all[2..]);
    assert_eq!(read(300, 1 << 20), all[3..]);
    assert_eq!(read(301, 1 << 20), []);
    // The same again, as after an answer that was lost.
    log.put(&frame(300, 301)).expect("put");
    log.remove_before(256, b"base").expect("removed");
    assert_eq!(read(0, 1 << 20), all[2..]);
    log.remove_before(300, b"another").expect("removed");
    assert_eq!(read(0, 1 << 20), all[3..]);
    let held = frames(&settings, "leafseal/a/one/0").take_over().expect("taken");
    assert_eq!(held, HeldFrames { base: Some(b"another".to_vec()), end: 301 });
    assert_eq!(other.read(0, 1 << 20).expect("read"), [frame(0, 1)]);
}

#[test]
fn a_log_has_one_writer() {
    let server = PostgresServer::shared();
    let settings = server.settings(&server.database());
    let (first, second) = (frames(&settings, "o"), frames(&settings, "o"));
    assert!(first.put(&frame(0, 1)).is_err(), "before it was taken over");
    first.take_over().expect("taken");
    first.put(&frame(0, 1)).expect("put");
    assert_eq!(second.take_over().expect("taken").end, 1);
    second.put(&frame(1, 2)).expect("put");
    assert!(matches!(first.put(&frame(1, 5)), Err(StoreError::OtherWriter(_))));
    assert!(matches!(first.remove_before(2, b"base"), Err(StoreError::OtherWriter(_))));
    assert_eq!(first.read(0, 1 << 20).expect("read"), [frame(0, 1), frame(1, 2)]);
}

/// The server is killed again and again: what was put is there.
#[test]
fn what_was_put_outlives_the_server() {
    let server = PostgresServer::start(Durability::Fast, &[]);
    let settings = server.settings(&server.database());
    let log = frames(&settings, "o");
    log.take_over().expect("taken");
    let mut put = 0;
    for _ in 0..3 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(150));
                server.kill();
            });
            while log.put(&frame(put, put + 1)).is_ok() {
                put += 1;
            }
        });
        server.start_again();
        while let Err(error) = log.put(&frame(put, put + 1)) {
            assert!(!matches!(error, StoreError::OtherWriter(_)), "{error}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        put += 1;
    }
    let mut found = 0;
    while found < put {
        let read = log.read(found, 1 << 16).expect("read");
        assert!(!read.is_empty(), "{found} of {put}");
        for known in read {
            assert_eq!(known, frame(found, found + 1));
            found += 1;
        }
    }
}

#[test]
fn a_store_in_a_file_keeps_no_frames() {
    let place = Place::new(Kind::Sqlite);
    assert!(place.open().log_frames("o").expect("no fault").is_none());
}
