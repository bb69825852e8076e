//! Messages of one connection in any order that the protocol allows, by seeds: ids used again, cancels before, during and
//! after, more at once than the server reads, cut into TLS records anywhere. Every request gets one answer, its own.
//!
//! `FIELDSEAL_SEED=17` runs one seed, `FIELDSEAL_SEEDS=1000` more of them.

use std::collections::HashMap;

use crate::common::seeds::{Named, seeds};
use crate::common::{Raw, Stage, toy_request, wait_until};
use fieldseal_protocol::{DocumentResult, Health, Message, request};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const ACTIONS: usize = 150;
/// Few, so that they come again soon.
const IDS: [u32; 12] = [0, 1, 2, 3, 127, 128, 255, 256, 65_535, 65_536, u32::MAX - 1, u32::MAX];

/// The content of a request.
enum Asked {
    Health,
    /// The document to come back, which names the request.
    Echo {
        document: String,
        is_cancelled: bool,
    },
}

struct Storm<'a> {
    random: StdRng,
    raw: &'a mut Raw,
    in_flight: HashMap<u32, Asked>,
    /// Messages that are not written yet.
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
            self.in_flight.insert(id, Asked::Health);
            return;
        }
        // A number of so many digits that no other request has the same.
        let sleep = format!("{:01$}", self.random.random_range(0..4), self.requests);
        let (app, document) =
            if self.random.random() { ("sleep", sleep) } else { ("echo", format!("request {}", self.requests)) };
        toy_request(id, app, &document, &mut self.unsent);
        self.in_flight.insert(id, Asked::Echo { document, is_cancelled: false });
    }

    /// Of any id, in flight or not, and more than once.
    fn cancel(&mut self) {
        let id = IDS[self.random.random_range(0..IDS.len())];
        request::cancel(id, &mut self.unsent);
        if let Some(Asked::Echo { is_cancelled, .. }) = self.in_flight.get_mut(&id) {
            *is_cancelled = true;
        }
    }

    /// Writes what is unsent in records of any size.
    fn write(&mut self) {
        let unsent = std::mem::take(&mut self.unsent);
        let mut rest = unsent.as_slice();
        while !rest.is_empty() {
            let (record, others) = rest.split_at(self.random.random_range(1..=rest.len().min(400)));
            self.raw.write(record);
            rest = others;
        }
    }

    /// Reads some answers, each of which must be awaited and right.
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
        let asked = self.in_flight.remove(&id).unwrap_or_else(|| panic!("nobody waits for an answer to {id}"));
        match (asked, result) {
            (Asked::Health, Ok(result)) => assert_eq!(Health::decode(result).unwrap().status, "ok"),
            (Asked::Echo { document, .. }, Ok(result)) => {
                let answered = DocumentResult::decode(result).unwrap().document;
                assert_eq!(answered, document.as_bytes(), "the answer of another request");
            }
            (Asked::Echo { is_cancelled: true, .. }, Err(error)) => {
                assert_eq!(error.error().unwrap().code, "cancelled");
                self.cancelled += 1;
            }
            (_, Err(error)) => panic!("{:?}", error.error()),
        }
    }

    /// Nothing unexpected arrives: the answer to a last request arrives alone.
    fn calm(&mut self) {
        self.write();
        while !self.in_flight.is_empty() {
            self.read_one();
        }
        request::health(77, &mut self.unsent);
        self.in_flight.insert(77, Asked::Health);
        self.write();
        self.read_one();
    }
}

/// An id in flight comes again at the end: the connection ends with the reason, and its requests with it.
fn end_with_a_repeated_id(stage: &Stage, raw: &mut Raw, random: &mut StdRng) {
    let begun = stage.toy.begun();
    let count = random.random_range(1..8);
    (0..count).for_each(|id| raw.send(|out| toy_request(id, "gate", "", out)));
    wait_until("all have begun", || stage.toy.begun() == begun + count as usize);
    raw.send(|out| toy_request(random.random_range(0..count), "echo", "who asked?", out));
    assert_eq!(raw.read_connection_error().0, "invalid_request");
    wait_until("they are dropped", || stage.toy.alive() == 0);
}

#[test]
fn every_message_of_a_storm_is_answered_once_and_rightly() {
    let stage = Stage::with(|settings| settings.requests_in_flight_max = 8);
    let mut sums = [0; 3];
    for seed in seeds(40) {
        let _named = Named(seed);
        let mut raw = stage.raw();
        let random = StdRng::seed_from_u64(seed);
        let unsent = Vec::new();
        let mut storm = Storm { random, raw: &mut raw, in_flight: HashMap::new(), unsent, requests: 0, cancelled: 0 };
        (0..ACTIONS).for_each(|_| storm.act());
        storm.calm();
        sums = [sums[0] + 1, sums[1] + storm.requests, sums[2] + storm.cancelled];
        let mut random = storm.random;
        if seed % 2 == 0 {
            end_with_a_repeated_id(&stage, &mut raw, &mut random);
        }
        stage.assert_healthy();
    }
    wait_until("all connections are gone", || stage.server.counters().connections_open == 0);
    wait_until("nothing is in flight", || stage.server.counters().pool.jobs_held == 0);
    let counters = stage.server.counters();
    // The repeated ids at the ends count as none.
    assert_eq!((counters.ended.total(), counters.pool.bytes_held, counters.answers_bytes), (counters.requests, 0, 0));
    println!("{} seeds, {} requests, {} of them answered with `cancelled`", sums[0], sums[1], sums[2]);
}
