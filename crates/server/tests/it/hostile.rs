//! Bytes that no correct client sends, and clients that are too slow: each gets a clear error, and the server continues.

use crate::common;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, TestServer, test_request, wait_until};
use leafseal_engine::pool::CancelReason;
use leafseal_protocol::{Health, Message, answer, connection_error, request, write};
use leafseal_server::RequestOutcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

/// Sends `bytes` on a connection of its own; returns the code and message with which it ends.
fn reported(test_server: &TestServer, bytes: &[u8]) -> (String, String) {
    let mut raw = test_server.raw();
    raw.write(bytes);
    let reported = raw.read_connection_error();
    test_server.assert_healthy();
    reported
}

#[test]
fn bytes_that_are_no_frames_end_the_connection_with_the_reason() {
    let test_server = TestServer::new();
    assert_eq!(reported(&test_server, &[0xc1]).0, "invalid_frame");
    assert_eq!(reported(&test_server, &[0x94, 0, 1, 0xc1]).0, "invalid_frame");
    assert_eq!(reported(&test_server, &vec![0x91; 100_000]).0, "invalid_frame");

    let mut oversized = Vec::new();
    write::binary_header((1 << 30) + 1, &mut oversized);
    let (code, message) = reported(&test_server, &oversized);
    assert_eq!(code, "too_large");
    assert!(message.contains("1073741824"), "{message}");
    assert_eq!(reported(&test_server, &[0xdd, 0xff, 0xff, 0xff, 0xff]).0, "too_large");
    assert_eq!(test_server.server.counters().connections_faulted, 5);
}

#[test]
fn frames_that_are_no_messages_end_the_connection_with_the_reason() {
    let test_server = TestServer::new();
    for bytes in [&[0x2a][..], &[0x90], &[0x94, 3, 1, 0xa1, b'x', 0x90], &[0x94, 0, 0xc0, 0xa1, b'x', 0x90]] {
        assert_eq!(reported(&test_server, bytes).0, "invalid_request", "{bytes:?}");
    }
    let (code, message) = reported(&test_server, &[0x94, 1, 1, 0xc0, 0xc0]);
    assert_eq!(code, "invalid_request");
    assert!(message.contains("nothing to answer"), "{message}");
    assert_eq!(
        reported(&test_server, &[0x93, 2, 0xa6, b'c', b'a', b'n', b'c', b'e', b'l', 0x91, 0xc0]).0,
        "invalid_params"
    );
}

#[test]
fn a_malformed_request_with_an_id_is_answered_and_the_connection_continues() {
    let test_server = TestServer::new();
    let mut raw = test_server.raw();
    raw.write(&[0x93, 0, 5, 0xa1, b'x']);
    assert_eq!(raw.read_response(), (5, "invalid_request".to_owned()));
    raw.write(&[0x94, 0, 6, 0xa6, b'h', b'e', b'a', b'l', b't', b'h', 0x91, 0x81, 0xa1, b'x', 1]);
    assert_eq!(raw.read_response(), (6, "invalid_params".to_owned()));
    // Unknown notifications, and cancels of ids that are not in flight, are ignored.
    raw.write(&[0x93, 2, 0xa3, b'f', b'o', b'o', 0x91, 1]);
    raw.send(|out| request::cancel(77, out));
    raw.send(|out| test_request(7, "echo", "x", out));
    assert_eq!(raw.read_response(), (7, String::new()));
    // An id may be used again once its answer has arrived.
    raw.send(|out| test_request(7, "echo", "y", out));
    assert_eq!(raw.read_response(), (7, String::new()));
}

#[test]
fn an_id_in_flight_must_not_be_reused() {
    let test_server = TestServer::new();
    let mut raw = test_server.raw();
    raw.send(|out| test_request(3, "gate", "", out));
    wait_until("it has begun", || test_server.service.begun() == 1);
    raw.send(|out| request::health(3, out));
    let (code, message) = raw.read_connection_error();
    assert_eq!(code, "invalid_request");
    assert!(message.contains("in flight"), "{message}");
    wait_until("the first is dropped", || test_server.service.alive() == 0);
    assert_eq!(test_server.service.cancellations.lock().unwrap()[0].reason(), Some(CancelReason::Disconnected));
    test_server.assert_healthy();
}

#[test]
fn a_cancelled_request_is_answered_exactly_once() {
    let test_server = TestServer::new();
    let mut raw = test_server.raw();
    raw.send(|out| test_request(1, "gate", "", out));
    raw.send(|out| request::cancel(1, out));
    raw.send(|out| request::cancel(1, out));
    assert_eq!(raw.read_response(), (1, "cancelled".to_owned()));
    raw.send(|out| test_request(1, "echo", "", out));
    assert_eq!(raw.read_response(), (1, String::new()));
}

#[test]
fn an_answer_that_the_service_forgets_is_not_sent_as_nothing() {
    let test_server = TestServer::new();
    let mut raw = test_server.raw();
    raw.send(|out| test_request(1, "mute", "", out));
    assert_eq!(raw.read_response(), (1, "internal".to_owned()));
}

#[test]
fn a_frame_cut_short_costs_nothing() {
    let test_server = TestServer::new();
    let mut whole = Vec::new();
    test_request(1, "echo", &"x".repeat(200_000), &mut whole);
    for size in [1, 2, 20, 100_000, whole.len() - 1] {
        let mut raw = test_server.raw();
        raw.write(&whole[..size]);
        drop(raw);
    }
    wait_until("all have come and gone", || {
        let counters = test_server.server.counters();
        counters.connections_accepted == 5 && counters.connections_open + counters.handshakes_open == 0
    });
    let counters = test_server.server.counters();
    assert_eq!((counters.requests, counters.incoming_bytes), (0, 0));
    test_server.assert_healthy();
}

#[test]
fn a_frame_that_does_not_end_is_not_waited_for() {
    let test_server = TestServer::with(|settings| settings.frame_timeout = Duration::from_millis(150));
    let mut raw = test_server.raw();
    raw.send(|out| test_request(1, "echo", "in time", out));
    assert_eq!(raw.read_response(), (1, String::new()));
    // Occasional bytes do not keep a frame alive.
    let began = Instant::now();
    let mut frame = Vec::new();
    test_request(2, "echo", &"x".repeat(1000), &mut frame);
    for byte in &frame {
        raw.write(&[*byte]);
        std::thread::sleep(Duration::from_millis(10));
        if began.elapsed() > Duration::from_millis(300) {
            break;
        }
    }
    let (code, message) = raw.read_connection_error();
    assert_eq!(code, "deadline_exceeded");
    assert!(message.contains("150 ms"), "{message}");
    test_server.assert_healthy();
}

#[test]
fn a_silent_connection_is_closed_but_not_one_that_waits() {
    let test_server = TestServer::with(|settings| settings.idle_timeout = Duration::from_millis(400));
    let mut silent = test_server.raw();
    let mut waiting = test_server.raw();
    waiting.send(|out| test_request(1, "sleep", "900", out));
    assert_eq!(silent.read_frame(), Err("closed".to_owned()));
    assert_eq!(waiting.read_response(), (1, String::new()));
    assert_eq!(waiting.read_frame(), Err("closed".to_owned()));
}

#[test]
fn a_peer_that_reads_no_answer_is_disconnected_and_its_memory_freed() {
    let test_server = TestServer::with(|settings| {
        settings.write_timeout = Duration::from_millis(200);
        settings.outgoing_bytes_max = 1 << 20;
        settings.requests_in_flight_max = 2;
    });
    let mut raw = test_server.raw();
    // 20 answers of 4 MB: the sockets' buffers hold some, then nothing moves.
    for id in 0..20 {
        raw.send(|out| test_request(id, "large", "4000000", out));
    }
    wait_until("it was answered and is cut", || {
        let counters = test_server.server.counters();
        counters.ended.of(RequestOutcome::Ok) > 0 && counters.connections_open == 0
    });
    assert!(
        test_server.server.counters().ended.of(RequestOutcome::Ok) < 20,
        "it was not read on while it did not read"
    );
    test_server.assert_healthy();
    let mut answers = 0;
    while raw.read_frame().is_ok() {
        answers += 1;
    }
    assert!(answers < 20);
}

/// It reads 1 KiB at a time through a small window, 100 KiB a second, catching up if the machine was busy; the answer waits far longer than
/// `write_timeout`.
#[tokio::test]
async fn a_slow_reader_with_progress_is_not_disconnected() {
    const TIMEOUT: Duration = Duration::from_secs(3);
    let test_server = TestServer::with(|settings| settings.write_timeout = TIMEOUT);
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let socket = socket.connect(test_server.address()).await.unwrap();
    let connector = common::raw_connector(&test_server.pki, Some(test_server.pki.client("shop"))).build();
    let mut stream = tokio_boring::connect(connector.configure().unwrap(), "localhost", socket).await.unwrap();
    let mut frame = Vec::new();
    test_request(1, "large", "8000000", &mut frame);
    stream.write_all(&frame).await.unwrap();
    let (began, mut bytes, mut size) = (Instant::now(), [0; 1024], 0);
    while began.elapsed() < 2 * TIMEOUT {
        while size < began.elapsed().as_millis() as usize * 100 {
            let read = stream.read(&mut bytes).await.expect("the connection lives");
            assert!(read > 0, "the connection is closed");
            size += read;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let counters = test_server.server.counters();
    assert!(counters.connections_open == 1 && counters.answers_bytes >= 8_000_000, "the answer is not out yet");
}

/// It reads a kilobyte at intervals, more than the minimum, of an answer that would take it hours.
#[test]
fn a_reader_that_holds_memory_too_long_is_disconnected_despite_progress() {
    let test_server = TestServer::with(|settings| {
        settings.write_timeout = Duration::from_secs(3600);
        settings.write_progress_min = 1;
        settings.outgoing_timeout = Duration::from_millis(300);
    });
    let mut raw = test_server.raw();
    raw.send(|out| test_request(1, "large", "8000000", out));
    let mut bytes = [0; 1024];
    let mut size = raw.stream.read(&mut bytes).unwrap();
    wait_until("it is cut", || {
        size += raw.stream.read(&mut bytes).unwrap_or(0);
        std::thread::sleep(Duration::from_millis(5));
        test_server.server.counters().connections_open == 0
    });
    assert!(size < 8_000_000);
    wait_until("the memory is free", || test_server.server.counters().answers_bytes == 0);
    test_server.assert_healthy();
}

/// Answers to `health` are not charged to a budget, so only few of them may wait.
#[test]
fn a_peer_that_sends_health_and_reads_no_answer_is_paused() {
    let test_server = TestServer::new();
    let mut raw = test_server.raw();
    raw.stream.get_ref().set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let (mut requests, mut answer) = (Vec::new(), Vec::new());
    (10_000..20_000).for_each(|id| request::health(id, &mut requests));
    answer::health(10_000, Health::OK, &mut answer);
    // Far more than the sockets' buffers hold.
    for _ in 0..1000 {
        if raw.stream.write_all(&requests).is_err() {
            break;
        }
    }
    let counters = test_server.server.counters();
    let held = (counters.requests * answer.len() as u64).saturating_sub(counters.network_bytes_sent);
    // The limit, what one turn adds to it, and the buffer before the socket.
    assert!(held < 4 * (64 << 10), "{held} bytes of answers are held");
    test_server.assert_healthy();
}

/// It makes the server pause by not reading an answer, with half a frame sent: this may last longer than `frame_timeout`, because the
/// server pauses, but not longer than `paused_frame_timeout`.
#[test]
fn a_pause_does_not_keep_half_a_frame_for_ever() {
    const PAUSED: Duration = Duration::from_secs(4);
    let test_server = TestServer::with(|settings| {
        settings.frame_timeout = PAUSED / 2;
        settings.paused_frame_timeout = PAUSED;
        settings.write_timeout = Duration::from_secs(3600);
        settings.outgoing_timeout = Duration::from_secs(3600);
        settings.outgoing_bytes_max = 1 << 20;
    });
    let mut raw = test_server.raw();
    raw.send(|out| test_request(1, "gate", &"x".repeat(8_000_000), out));
    wait_until("it has begun", || test_server.service.begun() == 1);
    let began = Instant::now();
    raw.write(&half_a_frame());
    wait_until("half a frame has arrived", || test_server.server.counters().incoming_bytes >= 700_000);
    test_server.service.open_gate();
    wait_until("its memory is free", || test_server.server.counters().incoming_bytes == 0);
    assert!(began.elapsed() >= PAUSED, "it was closed after {:?}, pause or not", began.elapsed());
    test_server.assert_healthy();
}

/// 700,000 bytes of a frame of 1,000,000.
fn half_a_frame() -> Vec<u8> {
    let mut half = Vec::new();
    write::binary_header(1_000_000, &mut half);
    half.resize(700_000, 0);
    half
}

/// The beginning of a frame promises 8 MB, and only that much is charged, while there is plenty.
#[test]
fn the_expected_size_of_a_frame_is_charged_while_memory_is_ample() {
    const CLAIMED: usize = 8_000_000;
    for (incoming_bytes_max, reserve_large_frames, is_reserved) in
        [(8 * CLAIMED, true, true), (8 * CLAIMED, false, false), (3 * CLAIMED, true, false)]
    {
        let test_server = TestServer::with(|settings| {
            settings.limits.frame_size_max = 2 * CLAIMED;
            (settings.incoming_bytes_max, settings.client_incoming_bytes_max) =
                (incoming_bytes_max, incoming_bytes_max);
            settings.reserve_large_frames = reserve_large_frames;
        });
        let mut raw = test_server.raw();
        let mut head = Vec::new();
        write::binary_header(CLAIMED, &mut head);
        head.resize(600_000, 0);
        raw.write(&head);
        wait_until("it has arrived", || test_server.server.counters().incoming_bytes >= 600_000);
        let charged = test_server.server.counters().incoming_bytes;
        assert_eq!(charged >= CLAIMED, is_reserved, "{charged} bytes of {incoming_bytes_max}");
        assert!(charged <= if is_reserved { CLAIMED + 100_000 } else { 1_300_000 }, "{charged} bytes");
        drop(raw);
        wait_until("the memory is free", || test_server.server.counters().incoming_bytes == 0);
    }
}

#[test]
fn frames_that_arrive_are_bounded_over_all_connections() {
    let test_server = TestServer::with(|settings| {
        settings.limits.frame_size_max = 1 << 20;
        settings.incoming_bytes_max = (1 << 20) + 16_384;
        settings.incoming_wait = Duration::from_millis(100);
    });
    let mut first = test_server.raw();
    first.write(&half_a_frame());
    wait_until("it has arrived", || test_server.server.counters().incoming_bytes >= 700_000);
    let mut second = test_server.raw_of("other");
    second.write(&half_a_frame());
    let frame = second.read_frame().expect("a notification");
    let Ok(Message::Notification { params, .. }) = Message::parse(&frame) else { panic!("another message") };
    let error = connection_error(params).unwrap();
    assert_eq!((error.code, error.retry_after_ms), ("overloaded", Some(100)));
    drop(first);
    wait_until("the memory is free", || test_server.server.counters().incoming_bytes == 0);
    test_server.assert_healthy();
}

#[test]
fn a_frame_that_finds_no_room_waits_for_it() {
    let test_server = TestServer::with(|settings| {
        settings.limits.frame_size_max = 1 << 20;
        settings.incoming_bytes_max = (1 << 20) + 16_384;
        settings.incoming_wait = PATIENCE;
    });
    let mut first = test_server.raw();
    first.write(&half_a_frame());
    wait_until("it has arrived", || test_server.server.counters().incoming_bytes >= 700_000);
    let mut second = test_server.raw();
    second.send(|out| test_request(1, "echo", &"x".repeat(700_000), out));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(test_server.service.begun(), 0);
    drop(first);
    assert_eq!(second.read_response(), (1, String::new()));
}

#[test]
fn frames_that_arrive_from_one_client_leave_room_for_those_of_others() {
    let test_server = TestServer::with(|settings| {
        settings.limits.frame_size_max = 1 << 20;
        settings.client_incoming_bytes_max = (1 << 20) + 16_384;
        settings.incoming_wait = Duration::from_millis(100);
    });
    let (mut first, mut second, mut other) = (test_server.raw(), test_server.raw(), test_server.raw_of("other"));
    first.write(&half_a_frame());
    wait_until("it has arrived", || test_server.server.counters().incoming_bytes >= 700_000);
    second.write(&half_a_frame());
    assert_eq!(second.read_connection_error().0, "overloaded");
    other.send(|out| test_request(1, "echo", &"x".repeat(700_000), out));
    assert_eq!(other.read_response(), (1, String::new()));
}
