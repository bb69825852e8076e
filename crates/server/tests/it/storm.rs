//! Random messages on one connection in any order that the protocol permits: reused ids, cancels before, during and after requests, more
//! messages than the server reads at once, split into TLS records anywhere. Every request gets one answer, its own.
//!
//! `LEAFSEAL_SEED=17` runs one seed, `LEAFSEAL_SEEDS=1000` runs that many.

use std::collections::HashMap;

use crate::common::seeds::{Named, seeds};
use crate::common::{Raw, TestServer, test_request, wait_until};
use leafseal_protocol::{DocumentResult, Health, Message, request};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const ACTIONS: usize = 150;
/// Few, so that ids are reused soon.
const IDS: [u32; 12] = [0, 1, 2, 3, 127, 128, 255, 256, 65_535, 65_536, u32::MAX - 1, u32::MAX];

/// The request in flight, with its expected answer.
enum PendingRequest {
    Health,
    /// The document to be returned, which identifies the request.
    Echo {
        document: String,
        is_cancelled: bool,
    },
}

struct Storm<'a> {
    random: StdRng,
    raw: &'a mut Raw,
    in_flight: HashMap<u32, PendingRequest>,
    /// Messages that have not been written.
    unsent: Vec<u8>,
    requests: usize,
    cancelled: usize,
}

impl Storm<'_> {
    fn act(&mut self) {
        match self.random.random_range(0..10) {
            0..5 => self.ask(),
            5..7 => self.cancel(),
            7 => self.write(),
            8 => self.unsent.extend_from_slice(b"\x93\x02\xa5other\x91\x2a"),
            _ => {
                self.write();
                self.read();
            }
        }
    }

    fn ask(&mut self) {
        let id = IDS[self.random.random_range(0..IDS.len())];
        if self.in_flight.contains_key(&id) {
            return;
        }
        self.requests += 1;
        if self.random.random_bool(0.1) {
            request::health(id, &mut self.unsent);
            self.in_flight.insert(id, PendingRequest::Health);
            return;
        }
        // A number with so many digits that no other request has the same.
        let sleep = format!("{:01$}", self.random.random_range(0..4), self.requests);
        let (app, document) =
            if self.random.random() { ("sleep", sleep) } else { ("echo", format!("request {}", self.requests)) };
        test_request(id, app, &document, &mut self.unsent);
        self.in_flight.insert(id, PendingRequest::Echo { document, is_cancelled: false });
    }

    /// Cancels an id, in flight or not, perhaps repeatedly.
    fn cancel(&mut self) {
        let id = IDS[self.random.random_range(0..IDS.len())];
        request::cancel(id, &mut self.unsent);
        if let Some(PendingRequest::Echo { is_cancelled, .. }) = self.in_flight.get_mut(&id) {
            *is_cancelled = true;
        }
    }

    /// Writes the messages in records of random size.
    fn write(&mut self) {
        let unsent = std::mem::take(&mut self.unsent);
        let mut rest = unsent.as_slice();
        while !rest.is_empty() {
            let (record, others) = rest.split_at(self.random.random_range(1..=rest.len().min(400)));
            self.raw.write(record);
            rest = others;
        }
    }

    /// Reads some answers; each must be expected and correct.
    fn read(&mut self) {
        let left = self.in_flight.len();
        let count = if left == 0 { 0 } else { self.random.random_range(1..=left) };
        (0..count).for_each(|_| self.read_one());
    }

    fn read_one(&mut self) {
        let frame = self.raw.read_frame().expect("an answer");
        let Ok(Message::Response { id, result }) = Message::parse(&frame) else {
            panic!("another message");
        };
        let asked = self.in_flight.remove(&id).unwrap_or_else(|| panic!("no request {id} is in flight"));
        match (asked, result) {
            (PendingRequest::Health, Ok(result)) => assert_eq!(Health::decode(result).unwrap().status, "ok"),
            (PendingRequest::Echo { document, .. }, Ok(result)) => {
                let answered = DocumentResult::decode(result).unwrap().document;
                assert_eq!(answered, document.as_bytes(), "the answer of another request");
            }
            (PendingRequest::Echo { is_cancelled: true, .. }, Err(error)) => {
                assert_eq!(error.error().unwrap().code, "cancelled");
                self.cancelled += 1;
            }
            (_, Err(error)) => panic!("{:?}", error.error()),
        }
    }

    /// Checks that no unexpected message arrives: the answer to a last request arrives alone.
    fn calm(&mut self) {
        self.write();
        while !self.in_flight.is_empty() {
            self.read_one();
        }
        request::health(77, &mut self.unsent);
        self.in_flight.insert(77, PendingRequest::Health);
        self.write();
        self.read_one();
    }
}

/// Reuses an id in flight at the end: the connection ends with the reason, and its requests with it.
fn end_with_a_repeated_id(test_server: &TestServer, raw: &mut Raw, random: &mut StdRng) {
    let begun = test_server.service.begun();
    let count = random.random_range(1..8);
    (0..count).for_each(|id| raw.send(|out| test_request(id, "gate", "", out)));
    wait_until("all have begun", || test_server.service.begun() == begun + count as usize);
    raw.send(|out| test_request(random.random_range(0..count), "echo", "who asked?", out));
    assert_eq!(raw.read_connection_error().0, "invalid_request");
    wait_until("they are dropped", || test_server.service.alive() == 0);
}

#[test]
fn every_message_of_a_storm_is_answered_once_and_rightly() {
    let test_server = TestServer::with(|settings| settings.requests_in_flight_max = 8);
    let mut sums = [0; 3];
    for seed in seeds(40) {
        let _named = Named(seed);
        let mut raw = test_server.raw();
        let random = StdRng::seed_from_u64(seed);
        let unsent = Vec::new();
        let mut storm = Storm { random, raw: &mut raw, in_flight: HashMap::new(), unsent, requests: 0, cancelled: 0 };
        (0..ACTIONS).for_each(|_| storm.act());
        storm.calm();
        sums = [sums[0] + 1, sums[1] + storm.requests, sums[2] + storm.cancelled];
        let mut random = storm.random;
        if seed % 2 == 0 {
            end_with_a_repeated_id(&test_server, &mut raw, &mut random);
        }
        test_server.assert_healthy();
    }
    wait_until("all connections are gone", || test_server.server.counters().connections_open == 0);
    wait_until("nothing is in flight", || test_server.server.counters().pool.jobs_held == 0);
    let counters = test_server.server.counters();
    // The repeated ids at the ends are not counted.
    assert_eq!((counters.ended.total(), counters.pool.bytes_held, counters.answers_bytes), (counters.requests, 0, 0));
    println!("{} seeds, {} requests, {} of them answered with `cancelled`", sums[0], sums[1], sums[2]);
}
