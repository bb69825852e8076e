//! State shared by all schedules: a store, encrypted values, and a reference engine that decrypts what the engine has encrypted.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leafseal_client::{EncryptFileOptions, EncryptOptions, Scalar, Value};
use leafseal_engine::pool::{Pool, PoolClock, PoolSettings};
use leafseal_engine::{Caller, Engine, Settings};
use leafseal_protocol::{DocumentResult, FileResult, FrameLimits, Message, RawValue, ValuesResult, request};
use leafseal_server::in_process::InProcess;
use leafseal_service::EngineService;
use leafseal_testkit::ScratchStore;

pub(crate) const APPS: [&str; 2] = ["acme", "other"];
/// Encrypted values per app, as many as a schedule uses at most.
pub(crate) const SEALED: usize = 60;
const ID: u32 = 1;
const ANSWER_SIZE_MAX: usize = 1 << 28;

pub(crate) struct Material {
    pub store: ScratchStore,
    pub sealed: [Vec<Sealed>; 2],
    /// Decrypts what others have encrypted.
    judge: Mutex<InProcess<EngineService>>,
}

/// Some texts, encrypted in every way.
pub(crate) struct Sealed {
    pub texts: Vec<String>,
    pub envelopes: Vec<Value>,
    pub json: String,
    pub document: Vec<u8>,
    pub file: Vec<u8>,
}

/// A constant clock.
struct Still(Instant);

impl PoolClock for Still {
    fn now(&self) -> Instant {
        self.0
    }
}

/// Texts that name their owner.
pub(crate) fn texts(name: &str, count: usize, padding: usize) -> Vec<String> {
    (0..count).map(|value| format!("{name} value {value} {}", "x".repeat(padding))).collect()
}

pub(crate) fn json(name: &str, texts: &[String]) -> String {
    format!("{{\"who\":\"{name}\",\"values\":[\"{}\"]}}", texts.join("\",\""))
}

impl Material {
    pub(crate) fn new() -> Material {
        let store = ScratchStore::new(&["acme", "other"]);
        let engine = Engine::new(Box::new(store.open()), Settings::default());
        let service = EngineService::new(engine, FrameLimits::default(), ANSWER_SIZE_MAX);
        let settings = PoolSettings { workers: 1, ..PoolSettings::default() };
        let pool = Pool::manual(settings, Arc::new(Still(Instant::now())));
        let judge = Mutex::new(InProcess::new(service, Arc::new(pool), 2 * ANSWER_SIZE_MAX));
        let mut material = Material { store, sealed: [Vec::new(), Vec::new()], judge };
        material.sealed = APPS.map(|app| (0..SEALED).map(|number| material.seal(app, number)).collect());
        material
    }

    fn seal(&self, app: &str, number: usize) -> Sealed {
        let name = format!("sealed {number} of {app}");
        let texts = texts(&name, [1, 3, 30, 300][number % 4], [0, 20, 300][number % 3]);
        let json = json(&name, &texts);
        let options = EncryptOptions::new(app);
        let scalars: Vec<_> = texts.iter().map(|text| Scalar::from(text.as_str())).collect();
        let envelopes = self.ask(|out| request::encrypt(ID, &options, scalars.iter().copied(), out), values);
        let document = |out: &mut Vec<u8>| request::encrypt_document(ID, &options, None, json.as_bytes(), out);
        let document = self.ask(document, document_of);
        let file = |out: &mut Vec<u8>| request::encrypt_file(ID, &EncryptFileOptions::new(app), json.as_bytes(), out);
        let file = self.ask(file, file_of);
        Sealed { texts, envelopes, json, document, file }
    }

    /// The reference engine's answer to a request.
    pub(crate) fn ask<T>(&self, encode: impl FnOnce(&mut Vec<u8>), read: impl FnOnce(RawValue<'_>) -> T) -> T {
        let mut frame = Vec::new();
        encode(&mut frame);
        let judge = self.judge.lock().unwrap();
        let in_flight = judge.submit(&Arc::new(Caller::Owner), frame, ID);
        while judge.pool().run_one() {}
        let answer = in_flight.wait(Duration::ZERO).concat();
        match Message::parse(&answer) {
            Ok(Message::Response { id: ID, result: Ok(result) }) => read(result),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn values(result: RawValue<'_>) -> Vec<Value> {
    let values = ValuesResult::decode(result).expect("values").values;
    values.iter().map(|value| Value::from(value.expect("a scalar"))).collect()
}

pub(crate) fn document_of(result: RawValue<'_>) -> Vec<u8> {
    DocumentResult::decode(result).expect("a document").document.to_vec()
}

pub(crate) fn file_of(result: RawValue<'_>) -> Vec<u8> {
    FileResult::decode(result).expect("a file").data.to_vec()
}
