//! What a request costs between its frame and its answer, without a network, and how much faster a large one is on two workers than on
//! one: lists and documents of 32-byte strings, encrypted and decrypted, by the server's own jobs on its own pool.
//!
//! Two tables of medians: nanoseconds a field on one worker, and the ratio of one worker's time to two workers' for 60,000 fields.
//! Rounds take all rows in turn, so that what disturbs the machine disturbs them all; the ratio needs two cores that are otherwise idle.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fieldseal_engine::admin::{
    AppName, Environment, Keystore, Limits, LocalRootKey, NewKeys, OpenMode, SqliteKeystore, system_clock,
};
use fieldseal_engine::pool::{Pool, PoolSettings};
use fieldseal_engine::{Caller, Engine, Settings, system_random};
use fieldseal_protocol::{
    DecryptOptions, DocumentResult, EncryptOptions, Keying, Limits as WireLimits, Message, RawValue, Scalar,
    ValuesResult, request,
};
use fieldseal_server::EngineService;
use fieldseal_server::in_process::InProcess;

const COUNTS: [usize; 4] = [1, 30, 2_000, 60_000];
const LARGE: usize = 60_000;
const ROUNDS: usize = 31;
/// Requests of one row in one round, together about this many fields.
const FIELDS_A_ROUND: usize = 4_000;
const PATIENCE: Duration = Duration::from_secs(60);
const ID: u32 = 1;

struct Bench {
    servers: [InProcess<EngineService>; 2],
    caller: Arc<Caller>,
    _folder: tempfile::TempDir,
}

/// Servers with one worker and with two, over one engine.
fn bench() -> Bench {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = Environment {
        root_key: Box::new(LocalRootKey::generate(&mut system_random())),
        clock: Box::new(system_clock),
        rng: Box::new(system_random()),
    };
    let path = folder.path().join("private").join("store.sqlite");
    let store = SqliteKeystore::open(&path, OpenMode::CreateIfMissing, environment, Limits::default()).expect("opens");
    store.create_app(&AppName::parse("bench").expect("a name"), NewKeys::generated()).expect("created");
    // Long sessions, so that a session row does not pay for a key.
    let settings =
        Settings { session_age_max: Duration::from_secs(3600), session_values_max: 1 << 32, ..Settings::default() };
    let engine = Engine::new(Box::new(store), settings);
    engine.maintain().expect("refreshed");
    let servers = [1, 2].map(|workers| {
        let service = EngineService::new(engine.clone(), WireLimits::default(), 1 << 30);
        let pool = Pool::new(PoolSettings { workers, ..PoolSettings::default() }).expect("threads");
        InProcess::new(service, Arc::new(pool), 1 << 30)
    });
    Bench { servers, caller: Arc::new(Caller::Owner), _folder: folder }
}

impl Bench {
    fn call(&self, workers: usize, frame: Vec<u8>) -> Vec<Vec<u8>> {
        self.servers[workers - 1].submit(&self.caller, frame, ID).wait(PATIENCE)
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

/// A kind of request, and what it took: by the number of workers, nanoseconds a request.
struct Row {
    name: String,
    fields: usize,
    frame: Vec<u8>,
    times: [Vec<f64>; 2],
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
    let sealed = bench.call(1, frames[2].1.clone()).concat();
    let envelopes = ValuesResult::decode(result(&sealed)).expect("values").values;
    let envelopes: Vec<Scalar<'_>> = envelopes.iter().map(|value| value.expect("a scalar")).collect();
    let options = DecryptOptions::new("bench");
    frames.push(("decrypt".to_owned(), frame(|out| request::decrypt(ID, &options, envelopes.iter().copied(), out))));
    let sealed = bench.call(1, frames[3].1.clone()).concat();
    let sealed = DocumentResult::decode(result(&sealed)).expect("a document").document;
    frames
        .push(("decrypt_document".to_owned(), frame(|out| request::decrypt_document(ID, &options, None, sealed, out))));
    frames.into_iter().map(|(name, frame)| Row { name, fields, frame, times: Default::default() }).collect()
}

/// The time of one request of `row`, in nanoseconds.
fn measure(bench: &Bench, row: &Row, workers: usize) -> f64 {
    let repeats = (FIELDS_A_ROUND / row.fields).max(1);
    let frames = vec![row.frame.clone(); repeats];
    let start = Instant::now();
    for frame in frames {
        black_box(bench.call(workers, frame));
    }
    start.elapsed().as_nanos() as f64 / repeats as f64
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
    println!("\n{LARGE} fields: one worker's time to two workers', median of each round's ratio\n");
    for row in rows.iter().filter(|row| row.fields == LARGE) {
        let ratios: Vec<f64> = row.times[0].iter().zip(&row.times[1]).map(|(one, two)| one / two).collect();
        println!("{:<28}{:>8.2}", row.name, median(&ratios));
    }
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let bench = bench();
    let counts = if is_test { &COUNTS[..2] } else { &COUNTS[..] };
    let mut rows: Vec<Row> = counts.iter().flat_map(|&count| rows(&bench, count)).collect();
    for _ in 0..if is_test { 1 } else { ROUNDS } {
        for row in &mut rows {
            let workers = if row.fields == LARGE { 2 } else { 1 };
            for workers in 1..=workers {
                let time = measure(&bench, row, workers);
                row.times[workers - 1].push(time);
            }
        }
    }
    report(&rows);
}
