//! Limits on requests in flight, per connection, per app and in total: callers that exceed one are slowed down, then refused, without
//! affecting others.

use std::time::{Duration, Instant};

use crate::common::{PATIENCE, Raw, TestServer, test_request, wait_until};
use leafseal_engine::pool::CancelReason;
use leafseal_protocol::{EncryptOptions, ErrorCode, request};
use leafseal_server::{RequestOutcome, Scheduling};

fn gate(raw: &mut Raw, id: u32) {
    raw.send(|out| test_request(id, "gate", "", out));
}

#[test]
fn one_app_cannot_take_the_room_of_another() {
    let test_server = TestServer::with(|settings| settings.app_jobs_max = 2);
    let (mut first, mut second, mut other) = (test_server.raw(), test_server.raw(), test_server.raw());
    gate(&mut first, 1);
    gate(&mut second, 1);
    wait_until("the app's room is taken", || test_server.server.counters().pool.jobs_held == 2);
    let began = Instant::now();
    gate(&mut second, 2);
    assert_eq!(second.read_response(), (2, "overloaded".to_owned()));
    assert!(began.elapsed() >= Duration::from_millis(50), "it waited for room first");
    other.send(|out| test_request(1, "echo", "of another app", out));
    assert_eq!(other.read_response(), (1, String::new()));
    test_server.service.open_gate();
    assert_eq!((first.read_response(), second.read_response()), ((1, String::new()), (1, String::new())));
}

#[test]
fn invented_apps_count_to_their_callers_limit() {
    let test_server = TestServer::with(|settings| settings.app_jobs_max = 2);
    let (mut inventor, mut other) = (test_server.raw_of("inventor"), test_server.raw_of("other"));
    inventor.send(|out| (1..4).for_each(|id| test_request(id, &format!("gate-{id}"), "", out)));
    assert_eq!(inventor.read_response(), (3, "overloaded".to_owned()));
    gate(&mut inventor, 4);
    other.send(|out| test_request(1, "gate-5", "", out));
    wait_until("an app and another client have room", || test_server.server.counters().pool.jobs_held == 4);
    test_server.service.open_gate();
    let mut ids: Vec<_> = (0..3).map(|_| inventor.read_response()).collect();
    ids.sort();
    assert_eq!(ids, [1, 2, 4].map(|id| (id, String::new())));
    assert_eq!(other.read_response(), (1, String::new()));
}

#[test]
fn bytes_count_too() {
    let test_server = TestServer::with(|settings| {
        settings.limits.frame_size_max = 1 << 20;
        settings.app_bytes_max = (1 << 20) + 16_384;
    });
    let (mut first, mut second) = (test_server.raw(), test_server.raw());
    let filler = "x".repeat(600_000);
    first.send(|out| test_request(1, "gate", &filler, out));
    wait_until("it is held", || test_server.server.counters().pool.jobs_held == 1);
    second.send(|out| test_request(1, "gate", &filler, out));
    assert_eq!(second.read_response(), (1, "overloaded".to_owned()));
    gate(&mut second, 2);
    wait_until("a small one has room", || test_server.server.counters().pool.jobs_held == 2);
}

#[test]
fn a_request_that_finds_room_in_time_is_served() {
    let test_server = TestServer::with(|settings| {
        settings.queue_jobs_max = 1;
        settings.admission_wait = PATIENCE;
    });
    let (mut first, mut second) = (test_server.raw(), test_server.raw());
    gate(&mut first, 1);
    wait_until("the room is taken", || test_server.server.counters().pool.jobs_held == 1);
    second.send(|out| (1..4).for_each(|id| test_request(id, "echo", "", out)));
    wait_until("one waits", || test_server.service.begun() == 2);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(test_server.service.begun(), 2, "behind it nothing is read");
    test_server.service.open_gate();
    assert_eq!(first.read_response(), (1, String::new()));
    for id in 1..4 {
        assert_eq!(second.read_response(), (id, String::new()));
    }
    assert_eq!(test_server.server.counters().ended.of(ErrorCode::Overloaded), 0);
}

#[test]
fn the_deadline_of_a_request_that_waits_for_room_is_kept() {
    let test_server = TestServer::with(|settings| {
        settings.queue_jobs_max = 1;
        settings.admission_wait = Duration::from_secs(3600);
    });
    let (mut first, mut second) = (test_server.raw(), test_server.raw());
    gate(&mut first, 1);
    wait_until("the room is taken", || test_server.server.counters().pool.jobs_held == 1);
    let options = EncryptOptions { deadline_ms: Some(30), ..EncryptOptions::new("echo") };
    second.send(|out| request::encrypt_document(1, &options, None, b"", out));
    assert_eq!(second.read_response(), (1, "deadline_exceeded".to_owned()));
    assert_eq!(test_server.server.counters().pool.jobs_held, 1);
}

#[test]
fn a_request_waiting_for_room_ends_with_its_connection() {
    let test_server = TestServer::with(|settings| {
        settings.queue_jobs_max = 1;
        settings.admission_wait = Duration::from_secs(3600);
    });
    let (mut first, mut second) = (test_server.raw(), test_server.raw());
    gate(&mut first, 1);
    wait_until("the room is taken", || test_server.server.counters().pool.jobs_held == 1);
    gate(&mut second, 1);
    wait_until("another waits", || test_server.service.begun() == 2);
    drop(second);
    wait_until("it is dropped", || test_server.service.alive() == 1);
    assert_eq!(test_server.service.cancellations.lock().unwrap()[1].reason(), Some(CancelReason::Disconnected));
    wait_until("it is counted", || test_server.server.counters().ended.of(RequestOutcome::Disconnected) == 1);
}

#[test]
fn a_shutdown_refuses_requests_waiting_for_room() {
    let test_server = TestServer::with(|settings| {
        settings.queue_jobs_max = 1;
        settings.admission_wait = Duration::from_secs(3600);
    });
    let (mut first, mut second) = (test_server.raw(), test_server.raw());
    gate(&mut first, 1);
    wait_until("the room is taken", || test_server.server.counters().pool.jobs_held == 1);
    gate(&mut second, 1);
    wait_until("another waits", || test_server.service.begun() == 2);
    let (service, server) = (test_server.service.clone(), test_server.server);
    let stopping = std::thread::spawn(move || server.shutdown());
    assert_eq!(second.read_response(), (1, "unavailable".to_owned()));
    service.open_gate();
    assert_eq!(first.read_response(), (1, String::new()));
    assert_eq!(stopping.join().unwrap().requests_abandoned, 0);
}

#[test]
fn a_connection_with_too_many_bytes_in_flight_is_paused() {
    let test_server = TestServer::with(|settings| settings.connection_bytes_max = 1000);
    let mut raw = test_server.raw();
    let filler = "x".repeat(600);
    raw.send(|out| (0..4).for_each(|id| test_request(id, "gate", &filler, out)));
    wait_until("two have begun", || test_server.service.begun() == 2);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(test_server.service.begun(), 2, "600 bytes are below the bound, 1,200 are not");
    test_server.service.open_gate();
    let mut ids: Vec<_> = (0..4).map(|_| raw.read_response()).collect();
    ids.sort();
    assert_eq!(ids, (0..4).map(|id| (id, String::new())).collect::<Vec<_>>());
}

#[test]
fn answers_are_bounded_on_one_connection_and_one_may_be_larger() {
    let test_server = TestServer::with(|settings| settings.connection_answers_bytes_max = 1 << 20);
    // Larger than the sockets' buffers: one answer waits for its reader.
    let (mut slow, mut other) = (test_server.raw(), test_server.raw());
    slow.send(|out| (0..3).for_each(|id| test_request(id, "large", "7000000", out)));
    wait_until("two were refused", || test_server.server.counters().ended.of(ErrorCode::Overloaded) == 2);
    other.send(|out| test_request(1, "large", "7000000", out));
    assert_eq!(other.read_response(), (1, String::new()));
    let mut codes: Vec<_> = (0..3).map(|_| slow.read_response().1).collect();
    codes.sort();
    assert_eq!(codes, ["", "overloaded", "overloaded"]);
}

#[test]
fn a_client_whose_answers_wait_leaves_room_for_those_of_others() {
    let test_server = TestServer::with(|settings| {
        settings.limits.frame_size_max = 8 << 20;
        settings.client_answers_bytes_max = 16 << 20;
    });
    let (mut slow, mut same, mut other) = (test_server.raw(), test_server.raw(), test_server.raw_of("other"));
    slow.send(|out| test_request(1, "large", "8000000", out));
    wait_until("its answer waits", || test_server.server.counters().answers_bytes > 8_000_000);
    same.send(|out| test_request(1, "large", "8000000", out));
    assert_eq!(same.read_response(), (1, "overloaded".to_owned()));
    other.send(|out| test_request(1, "large", "8000000", out));
    assert_eq!(other.read_response(), (1, String::new()));
    assert_eq!(slow.read_response(), (1, String::new()));
    wait_until("the memory is free", || test_server.server.counters().answers_bytes == 0);
    same.send(|out| test_request(2, "large", "8000000", out));
    assert_eq!(same.read_response(), (2, String::new()));
}

/// A queued request is removed as soon as it is cancelled, although the only worker has much other work.
#[test]
fn a_cancelled_request_does_not_wait_for_its_turn() {
    let test_server = TestServer::with(|settings| settings.workers = 1);
    let (mut busy, mut raw) = (test_server.raw(), test_server.raw());
    busy.send(|out| (0..50).for_each(|id| test_request(id, "gate", "", out)));
    raw.send(|out| (0..200).for_each(|id| test_request(id, "gate", "", out)));
    wait_until("all have come", || test_server.service.begun() == 250);
    raw.send(|out| (0..200).for_each(|id| request::cancel(id, out)));
    let steps = test_server.service.steps.load(std::sync::atomic::Ordering::SeqCst);
    for _ in 0..200 {
        assert_eq!(raw.read_response().1, "cancelled");
    }
    let steps = test_server.service.steps.load(std::sync::atomic::Ordering::SeqCst) - steps;
    // By turns, they would take one step of the other connection each.
    assert!(steps < 150, "{steps} steps were done for others meanwhile");
    assert_eq!(test_server.service.alive(), 50);
}

#[test]
fn requests_can_be_served_whole_in_the_order_of_arrival() {
    let test_server = TestServer::with(|settings| {
        settings.workers = 1;
        settings.scheduling = Scheduling::FirstComeFirstServed;
    });
    let (mut first, mut second) = (test_server.raw(), test_server.raw());
    gate(&mut first, 1);
    wait_until("the worker is busy", || test_server.server.counters().pool.workers_busy == 1);
    second.send(|out| test_request(1, "echo", "small", out));
    wait_until("the small one waits", || test_server.server.counters().pool.jobs_held == 2);
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(test_server.server.counters().ended.of(RequestOutcome::Ok), 0, "a fair order would have served it");
    test_server.service.open_gate();
    assert_eq!((first.read_response(), second.read_response()), ((1, String::new()), (1, String::new())));
}
