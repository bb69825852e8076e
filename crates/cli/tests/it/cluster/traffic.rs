//! Load on engines at a constant rate, in which every answer is checked: encryptions, and decryptions of what was encrypted before.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leafseal_client::{Client, ClientError, ClientSettings, DecryptOptions, EncryptOptions, Scalar, Value};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::common::until;

/// Values of one request to open everything at the end.
const VALUES_AT_ONCE: usize = 500;

/// The events so far.
#[derive(Default)]
struct Record {
    sent: AtomicU64,
    answered: AtomicU64,
    /// Failed requests by what they failed with.
    failures: Mutex<BTreeMap<String, u64>>,
    /// Answers that are not what was encrypted.
    wrong: Mutex<Vec<String>>,
    /// Every envelope that an engine returned, with its value.
    sealed: Mutex<Vec<(String, String)>>,
    ends: AtomicBool,
}

/// Running load.
pub(super) struct Traffic {
    record: Arc<Record>,
    thread: JoinHandle<()>,
}

/// The outcome.
#[derive(Debug)]
pub(super) struct Outcome {
    pub requests: u64,
    /// Requests without a good answer, by what they failed with.
    pub failures: BTreeMap<String, u64>,
    pub wrong: Vec<String>,
    /// Every envelope that an engine returned, with its value.
    pub sealed: Vec<(String, String)>,
}

impl Traffic {
    /// Starts requests of one value each for the app `acme`.
    pub(super) fn start(settings: ClientSettings, rate: u32) -> Self {
        let record = Arc::<Record>::default();
        let of_thread = Arc::clone(&record);
        let thread = std::thread::spawn(move || runtime().block_on(generate(settings, rate, &of_thread)));
        Self { record, thread }
    }

    /// The number of requests so far.
    pub(super) fn sent(&self) -> u64 {
        self.record.sent.load(Ordering::Relaxed)
    }

    /// Waits until so many more requests have been answered well.
    pub(super) fn proceed(&self, requests: u64) {
        let aim = self.record.answered.load(Ordering::Relaxed) + requests;
        until("requests are answered", || self.record.answered.load(Ordering::Relaxed) >= aim);
    }

    /// Stops, and waits for requests in flight.
    pub(super) fn finish(self) -> Outcome {
        self.record.ends.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic");
        let record = Arc::into_inner(self.record).expect("the thread has ended");
        Outcome {
            requests: record.sent.into_inner(),
            failures: record.failures.into_inner().unwrap(),
            wrong: record.wrong.into_inner().unwrap(),
            sealed: record.sealed.into_inner().unwrap(),
        }
    }
}

impl Outcome {
    pub(super) fn lost(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Decrypts every envelope again, through these engines.
    #[track_caller]
    pub(super) fn assert_all_open(&self, settings: ClientSettings) {
        let client = Client::new(settings).expect("a client");
        runtime().block_on(async {
            for part in self.sealed.chunks(VALUES_AT_ONCE) {
                let envelopes: Vec<Scalar<'_>> = part.iter().map(|(envelope, _)| envelope.as_str().into()).collect();
                let opened = client.decrypt(&DecryptOptions::new("acme"), &envelopes).await.expect("they open");
                for (value, (_, expected)) in opened.iter().zip(part) {
                    assert!(is_text(value, expected), "{value:?} is not {expected}");
                }
            }
        });
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn is_text(value: &Value, expected: &str) -> bool {
    matches!(value, Value::Str(text) if text == expected)
}

/// Requests begin when they are due, whatever became of earlier ones.
async fn generate(settings: ClientSettings, rate: u32, record: &Arc<Record>) {
    let client = Client::new(settings).expect("a client");
    let mut running = JoinSet::new();
    let began = Instant::now();
    while !record.ends.load(Ordering::Relaxed) {
        let number = record.sent.fetch_add(1, Ordering::Relaxed);
        let due = began + Duration::from_secs(1) / rate * u32::try_from(number).expect("not so many");
        tokio::time::sleep_until(due.into()).await;
        running.spawn(request(client.clone(), number, Arc::clone(record)));
        while running.try_join_next().is_some() {}
    }
    running.join_all().await;
}

async fn request(client: Client, number: u64, record: Arc<Record>) {
    let earlier = match number % 2 {
        0 => None,
        _ => pick(&record.sealed.lock().unwrap(), number),
    };
    let result = match earlier {
        Some((envelope, value)) => open(&client, &envelope, &value, &record).await,
        None => seal(&client, format!("value {number}"), &record).await,
    };
    match result {
        Ok(()) => drop(record.answered.fetch_add(1, Ordering::Relaxed)),
        Err(error) => *record.failures.lock().unwrap().entry(error.to_string()).or_default() += 1,
    }
}

/// One of the envelopes so far, old or new.
fn pick(sealed: &[(String, String)], number: u64) -> Option<(String, String)> {
    // Fibonacci hashing: spread over all of them.
    let random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let count = u64::try_from(sealed.len()).expect("a count");
    sealed.get(usize::try_from(random.checked_rem(count)?).expect("an index")).cloned()
}

async fn seal(client: &Client, value: String, record: &Record) -> Result<(), ClientError> {
    let answer = client.encrypt(&EncryptOptions::new("acme"), &[value.as_str().into()]).await?;
    match answer.as_slice() {
        [Value::Str(envelope)] if envelope.starts_with("ev:") => {
            record.sealed.lock().unwrap().push((envelope.clone(), value));
        }
        other => record.wrong.lock().unwrap().push(format!("{value} became {other:?}")),
    }
    Ok(())
}

async fn open(client: &Client, envelope: &str, expected: &str, record: &Record) -> Result<(), ClientError> {
    let answer = client.decrypt(&DecryptOptions::new("acme"), &[envelope.into()]).await?;
    match answer.as_slice() {
        [value] if is_text(value, expected) => {}
        other => record.wrong.lock().unwrap().push(format!("{expected} was opened as {other:?}")),
    }
    Ok(())
}
