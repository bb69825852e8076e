//! The cost of a request between its frame and its answer, without a network, and the speed-up of a large one on two workers: lists
//! and documents of 32-byte strings, encrypted and decrypted, by the server's own jobs on its own pool.
//!
//! Two tables of medians: nanoseconds a field on one worker, and the ratio of one worker's time to two workers' for 60,000 fields and
//! more. Beside it what the machine gives: two requests at the same time on one worker each, which share nothing but the machine, against
//! one.
//! Rounds take all rows in turn, so that what disturbs the machine disturbs them all; the ratio needs two cores that are otherwise idle.
//!
//! A word after `--` selects the rows whose name in the table contains it: `-- 'decrypt, 60000'`.

use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use leafseal_engine::pool::{Pool, PoolSettings};
use leafseal_engine::{Caller, Engine, Settings};
use leafseal_protocol::{
    DecryptOptions, DocumentResult, EncryptOptions, FrameLimits as WireLimits, Keying, Message, RawValue, Scalar,
    ValuesResult, request,
};
use leafseal_server::in_process::InProcess;
use leafseal_service::EngineService;
use leafseal_testkit::ScratchStore;

const COUNTS: [usize; 5] = [1, 30, 2_000, 60_000, 600_000];
/// From so many fields on a request is put on two workers as well.
const LARGE: usize = 60_000;
const ROUNDS: usize = 31;
/// Requests of one row in one round, together about this many fields.
const FIELDS_A_ROUND: usize = 4_000;
const PATIENCE: Duration = Duration::from_secs(60);
const ID: u32 = 1;

/// As in the program.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The measurements, by the server that makes them.
const ONE: usize = 0;
const TWO: usize = 1;
const TWIN: usize = 2;

struct Bench {
    /// With one worker, with two, and with one again.
    servers: [InProcess<EngineService>; 3],
    caller: Arc<Caller>,
    _store: ScratchStore,
}

/// The servers, over one engine.
fn bench() -> Bench {
    let store = ScratchStore::new(&["bench"]);
    // Long sessions, so that a session row does not pay for a key.
    let settings =
        Settings { session_age_max: Duration::from_secs(3600), session_values_max: 1 << 32, ..Settings::default() };
    let engine = Engine::new(Box::new(store.open()), settings);
    engine.maintain().expect("refreshed");
    let servers = [1, 2, 1].map(|workers| {
        let service = EngineService::new(engine.clone(), WireLimits::default(), 1 << 30);
        let pool = Pool::new(PoolSettings { workers, ..PoolSettings::default() }).expect("threads");
        InProcess::new(service, Arc::new(pool), 1 << 30)
    });
    Bench { servers, caller: Arc::new(Caller::Owner), _store: store }
}

impl Bench {
    fn call(&self, server: usize, frame: Vec<u8>) -> Vec<Vec<u8>> {
        self.servers[server].submit(&self.caller, frame, ID).wait(PATIENCE)
    }
}

fn frame(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = Vec::new();
    write(&mut frame);
    frame
}

fn result(answer: &[u8]) -> RawValue<'_> {
    match Message::parse(answer).expect("a message") {
        Message::Response { result: Ok(result), .. } => result,
        other => panic!("{other:?}"),
    }
}

/// A kind of request, and its times, nanoseconds per request: on one worker, on two, and beside another on one worker each.
struct Row {
    name: String,
    fields: usize,
    frame: Vec<u8>,
    times: [Vec<f64>; 3],
}

/// Every kind of request with `fields` fields.
fn rows(bench: &Bench, fields: usize) -> Vec<Row> {
    let texts: Vec<String> = (0..fields).map(|i| format!("{:032}", i * 7_919)).collect();
    let values: Vec<Scalar<'_>> = texts.iter().map(|text| Scalar::from(text.as_str())).collect();
    let members: Vec<String> = texts.iter().enumerate().map(|(i, text)| format!("\"f{i}\":\"{text}\"")).collect();
    let document = format!("{{{}}}", members.join(","));
    let mut frames = Vec::new();
    for (name, keying) in [("session", Keying::Session), ("request", Keying::Request)] {
        let options = EncryptOptions { keying: Some(keying), ..EncryptOptions::new("bench") };
        let list = frame(|out| request::encrypt(ID, &options, values.iter().copied(), out));
        let whole = frame(|out| request::encrypt_document(ID, &options, None, document.as_bytes(), out));
        frames.extend([(format!("encrypt, {name}"), list), (format!("encrypt_document, {name}"), whole)]);
    }
    let sealed = bench.call(ONE, frames[2].1.clone()).concat();
    let envelopes = ValuesResult::decode(result(&sealed)).expect("values").values;
    let envelopes: Vec<Scalar<'_>> = envelopes.iter().map(|value| value.expect("a scalar")).collect();
    let options = DecryptOptions::new("bench");
    frames.push(("decrypt".to_owned(), frame(|out| request::decrypt(ID, &options, envelopes.iter().copied(), out))));
    let sealed = bench.call(ONE, frames[3].1.clone()).concat();
    let sealed = DocumentResult::decode(result(&sealed)).expect("a document").document;
    frames
        .push(("decrypt_document".to_owned(), frame(|out| request::decrypt_document(ID, &options, None, sealed, out))));
    frames.into_iter().map(|(name, frame)| Row { name, fields, frame, times: Default::default() }).collect()
}

/// The time of one request of `row`, in nanoseconds.
fn measure(bench: &Bench, row: &Row, server: usize) -> f64 {
    let repeats = (FIELDS_A_ROUND / row.fields).max(1);
    let frames = vec![row.frame.clone(); repeats];
    let start = Instant::now();
    for frame in frames {
        black_box(bench.call(server, frame));
    }
    start.elapsed().as_nanos() as f64 / repeats as f64
}

/// The time of one of two requests of `row` at the same time, in nanoseconds.
fn measure_twins(bench: &Bench, row: &Row) -> f64 {
    let start = Barrier::new(2);
    let measure_one = |server| {
        start.wait();
        measure(bench, row, server)
    };
    std::thread::scope(|scope| {
        let twin = scope.spawn(|| measure_one(TWIN));
        (measure_one(ONE) + twin.join().expect("no panic")) / 2.0
    })
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn report(rows: &[Row]) {
    println!("\nOne worker, nanoseconds a request (a field)\n");
    for row in rows {
        let time = median(&row.times[0]);
        println!(
            "{:<28}{:>8} fields{:>14.0}{:>12}",
            row.name,
            row.fields,
            time,
            format!("({:.1})", time / row.fields as f64)
        );
    }
    println!("\nOn two workers, times as fast as on one; in brackets two requests on one worker each\n");
    for row in rows.iter().filter(|row| row.fields >= LARGE) {
        let [one, two, twins] = &row.times;
        let spread: Vec<f64> = one.iter().zip(two).map(|(one, two)| one / two).collect();
        let machine: Vec<f64> = one.iter().zip(twins).map(|(one, twins)| 2.0 * one / twins).collect();
        let machine = format!("({:.2})", median(&machine));
        println!("{:<28}{:>8} fields{:>8.2}{machine:>10}", row.name, row.fields, median(&spread));
    }
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with("--")).unwrap_or_default();
    let bench = bench();
    let counts = if is_test { &COUNTS[..2] } else { &COUNTS[..] };
    let mut rows: Vec<Row> = counts.iter().flat_map(|&count| rows(&bench, count)).collect();
    rows.retain(|row| format!("{}, {}", row.name, row.fields).contains(&wanted));
    for _ in 0..if is_test { 1 } else { ROUNDS } {
        for row in &mut rows {
            let time = measure(&bench, row, ONE);
            row.times[ONE].push(time);
            if row.fields >= LARGE {
                let (two, twins) = (measure(&bench, row, TWO), measure_twins(&bench, row));
                row.times[TWO].push(two);
                row.times[TWIN].push(twins);
            }
        }
    }
    report(&rows);
}
