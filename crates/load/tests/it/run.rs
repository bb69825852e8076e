//! Runs against misbehaving servers: servers that stall, close connections, and send unexpected answers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use leafseal_client::raw::{Message, RawConnection};
use leafseal_client::{ClientError, EncryptOptions, FrameLimits};
use leafseal_load::LoadError;
use leafseal_load::material::{to_encrypt, values_of};
use leafseal_load::metrics::Buckets;
use leafseal_load::report::{Provenance, load_text};
use leafseal_load::result::{LoadResult, QueueWait, RecordedRequests, ResultSeries};
use leafseal_load::run::{self, Connect, ObservedEngine, RunEnd, RunOutcome, RunSettings, RunSnapshot};
use leafseal_load::scenario::Script;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;

/// Values in a request.
const FIELDS: usize = 3;

/// Buffer size between the tester and a server.
const PIPE_SIZE: usize = 1 << 20;
/// The same for a server that stalls: writes block after one or two requests.
const NARROW_PIPE_SIZE: usize = 256;

/// A server's behaviour. Times count from its first answer, which is to the request before the first phase.
#[derive(Clone, Copy, Debug, Default)]
struct Behaviour {
    /// At the request with this index, where 0 is the one before the first phase, it neither reads nor answers for this duration.
    stalls: Option<(usize, Duration)>,
    /// At the first request from this time on, it blocks the thread for this duration, and thereby delays the tester too.
    holds_the_thread: Option<(Duration, Duration)>,
    /// It closes each connection after this many answers.
    answers_max: Option<usize>,
    /// Maximum connections that it accepts.
    connections_max: Option<usize>,
    /// From this answer on, each contains a value that is not an envelope.
    wrong_from: Option<usize>,
    /// The request with this index is not answered, where 0 is the one before the first phase.
    loses: Option<usize>,
    /// Only the first request is answered, and every cancel is answered with `cancelled`.
    waits_for_cancel: bool,
}

struct Server {
    behaviour: Behaviour,
    began: Cell<Option<Instant>>,
    has_held_the_thread: Cell<bool>,
    connections: Cell<usize>,
    cancels: Rc<Cell<usize>>,
}

impl Server {
    fn new(behaviour: Behaviour) -> Self {
        Server {
            behaviour,
            began: Cell::new(None),
            has_held_the_thread: Cell::new(false),
            connections: Cell::new(0),
            cancels: Rc::default(),
        }
    }
}

struct Connecting(Rc<Server>);

impl Connect for Connecting {
    type Stream = DuplexStream;

    async fn connect(&self) -> Result<RawConnection<DuplexStream>, ClientError> {
        let server = &self.0;
        server.connections.set(server.connections.get() + 1);
        let (ours, theirs) = duplex(if server.behaviour.stalls.is_some() { NARROW_PIPE_SIZE } else { PIPE_SIZE });
        if server.behaviour.connections_max.is_none_or(|max| server.connections.get() <= max) {
            tokio::task::spawn_local(serve(Rc::clone(server), theirs));
            return Ok(RawConnection::over(ours, FrameLimits::default()));
        }
        let mut gone = RawConnection::over(ours, FrameLimits::default());
        drop(theirs);
        gone.next().await.map(|_| unreachable!("its other end is gone"))
    }
}

async fn serve(server: Rc<Server>, mut stream: DuplexStream) {
    let values = values_of(FIELDS, 32, 1);
    // Ids stay below 128 here: one byte after the head and the type.
    let request_size = to_encrypt(&EncryptOptions::new("app_dev"), &values).size() + 3;
    let cancel_size = {
        let mut out = Vec::new();
        leafseal_client::raw::request::cancel(1, &mut out);
        out.len()
    };
    let behaviour = server.behaviour;
    let mut bytes = Vec::new();
    let (mut requests, mut answers) = (0, 0);
    loop {
        let kind = if bytes.len() >= 2 { bytes[1] } else { 0 };
        let size = if kind == 2 { cancel_size } else { request_size };
        if bytes.len() < size {
            if stream.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
                continue;
            }
            return;
        }
        let frame: Vec<u8> = bytes.drain(..size).collect();
        let began = server.began.get().unwrap_or_else(Instant::now);
        server.began.set(Some(began));
        if let Some((_, time)) = behaviour.stalls.filter(|(place, _)| *place == requests) {
            tokio::time::sleep(time).await;
        }
        if let Some((from, time)) = behaviour.holds_the_thread
            && began.elapsed() >= from
            && !server.has_held_the_thread.replace(true)
        {
            std::thread::sleep(time);
        }
        requests += 1;
        if behaviour.loses == Some(requests - 1) {
            continue;
        }
        let answer = match Message::parse(&frame) {
            Ok(Message::Request { id, .. }) if behaviour.waits_for_cancel && answers > 0 => {
                let _ = id;
                continue;
            }
            Ok(Message::Request { id, .. }) => answer(id, behaviour.wrong_from.is_none_or(|from| answers < from)),
            Ok(Message::Notification { .. }) => {
                server.cancels.set(server.cancels.get() + 1);
                cancelled(frame[frame.len() - 1])
            }
            other => panic!("{other:?}"),
        };
        answers += 1;
        if stream.write_all(&answer).await.is_err() || behaviour.answers_max.is_some_and(|max| answers >= max) {
            return;
        }
    }
}

fn text(word: &str, out: &mut Vec<u8>) {
    out.push(0xa0 | u8::try_from(word.len()).unwrap());
    out.extend_from_slice(word.as_bytes());
}

fn answer(id: u32, is_right: bool) -> Vec<u8> {
    let mut out = vec![0x94, 1, u8::try_from(id).unwrap(), 0xc0, 0x81];
    text("values", &mut out);
    out.push(0x90 | u8::try_from(FIELDS).unwrap());
    (0..FIELDS).for_each(|_| text(if is_right { "ev:x:$" } else { "plain" }, &mut out));
    out
}

fn cancelled(id: u8) -> Vec<u8> {
    let mut out = vec![0x94, 1, id, 0x83];
    for (name, word) in [("code", "cancelled"), ("message", "cancelled"), ("retry", "never")] {
        text(name, &mut out);
        text(word, &mut out);
    }
    out.push(0xc0);
    out
}

fn script(phases: &str, send: &str) -> Script {
    script_of(phases, &format!("{{ send: {{ numEncrypts: {FIELDS}{send} }} }}"))
}

fn script_of(phases: &str, flow: &str) -> Script {
    let file = format!(
        "config: {{ target: h, e3: {{ key: k, cert: c, connections: 1 }}, phases: {phases} }}\n\
         scenarios: [ {{ name: small, engine: e3, flow: [ {flow} ] }} ]\n"
    );
    Script::read(&file).unwrap()
}

/// The progress reports of a run.
#[derive(Default)]
struct Watched {
    snapshots: usize,
    /// Whether a count ever decreased.
    has_sunk: bool,
    sent: u64,
}

impl Watched {
    fn note(&mut self, snapshot: &RunSnapshot) {
        self.snapshots += 1;
        self.has_sunk |= snapshot.sent < self.sent || snapshot.ok + snapshot.errors > snapshot.sent;
        self.sent = snapshot.sent;
    }
}

/// Runs a script and stops it after `stop_after`, if set.
fn load(
    script: &Script,
    behaviour: Behaviour,
    stop_after: Option<Duration>,
) -> (Result<RunOutcome, LoadError>, Rc<Server>) {
    loaded(script, behaviour, stop_after, RunSettings::default().requests_max)
}

/// The same with a limit of individually recorded requests.
fn loaded(
    script: &Script,
    behaviour: Behaviour,
    stop_after: Option<Duration>,
    requests_max: usize,
) -> (Result<RunOutcome, LoadError>, Rc<Server>) {
    let server = Rc::new(Server::new(behaviour));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let settings = RunSettings { answer_timeout: Duration::from_secs(1), requests_max, ..RunSettings::default() };
    let watched = RefCell::new(Watched::default());
    let outcome = runtime.block_on(async {
        let (stop, stopped) = watch::channel(false);
        let observed = ObservedEngine::default();
        let running =
            run::run(script.clone(), &settings, Connecting(Rc::clone(&server)), &observed, stopped, |snapshot| {
                watched.borrow_mut().note(snapshot);
            });
        let mut running = std::pin::pin!(running);
        if let Some(after) = stop_after {
            tokio::select! {
                outcome = &mut running => return outcome,
                () = tokio::time::sleep(after) => drop(stop.send_replace(true)),
            }
        }
        let outcome = running.await;
        drop(stop);
        outcome
    });
    if let Ok(outcome) = &outcome {
        let Watched { snapshots, has_sunk, sent } = watched.into_inner();
        // Four per second, and fewer on a busy machine.
        assert!(!has_sunk && sent <= outcome.record.sent, "{sent} of {}", outcome.record.sent);
        assert!(snapshots > 0 || outcome.elapsed < ms(10_000), "no snapshot in {:?}", outcome.elapsed);
    }
    (outcome, server)
}

fn result(script: &Script, outcome: &RunOutcome) -> LoadResult {
    let result = LoadResult::new(script, "test.yml", &RunSettings::default(), outcome, &Provenance::new(Vec::new()));
    // A result survives serialization.
    let text = serde_json::to_string(&result).unwrap();
    assert_eq!(LoadResult::read(&text).unwrap(), result);
    result
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// The only user of the first phase is done at once; the second phase has none.
#[test]
fn phases_last_as_long_as_they_say() {
    for (phases, requests) in [
        ("[ { duration: 300ms, arrivalCount: 1 }, { pause: 200ms } ]", Some(1)),
        ("[ { pause: 200ms } ]", Some(0)),
        ("[ { duration: 100ms, connections: 1 }, { pause: 200ms } ]", None),
    ] {
        let script = script(phases, "");
        let (outcome, _) = load(&script, Behaviour::default(), None);
        let outcome = outcome.unwrap();
        let result = result(&script, &outcome);
        let end = result.phases.last().unwrap().end_s;
        assert!(outcome.elapsed.as_secs_f64() >= end, "{phases}: {:?} of {end} s", outcome.elapsed);
        assert_eq!(outcome.ended, RunEnd::Finished);
        assert!(requests.is_none_or(|requests| result.totals.ok == requests), "{phases}: {}", result.totals.ok);
        assert!(result.totals.measured_s.is_some_and(|measured| measured <= result.elapsed_s), "{phases}");
    }
}

/// 4 seconds at 50 requests per second, of which the server stalls for 2: half of all requests are due during the stall and wait for its
/// end. A busy machine only increases latencies, so every bound is a lower one.
#[test]
fn a_stall_counts_for_every_request_that_was_due_in_it() {
    let script = script("[ { duration: 4, arrivalRate: 50 } ]", "");
    let (first, stall) = (50, ms(2000));
    let (outcome, _) = load(&script, Behaviour { stalls: Some((first + 1, stall)), ..Behaviour::default() }, None);
    let result = result(&script, &outcome.unwrap());
    assert_eq!((result.totals.sent, result.totals.ok, result.totals.users.completed), (200, 200, 200));
    let latency = result.totals.latency_us;
    // 100 of 200 latencies are evenly distributed between 0 and 2 seconds: the third largest is 1.96 s, the twenty-first 1.6 s.
    assert!(latency.p99 >= 1.95e6 && latency.p90 >= 1.59e6, "{latency:?}");
    let requests = &result.series[0].requests;
    assert_eq!((requests.of, requests.due_us.len()), (200, 200));
    let end = requests.due_us[first] + stall.as_micros() as u64;
    for (&due, &latency) in requests.due_us.iter().zip(&requests.latency_us).skip(first) {
        assert!(latency >= end.saturating_sub(due) as f64, "due at {due} µs, {latency} µs");
    }
    let due: Vec<u64> = result.intervals.rows.iter().take(4).map(|row| row.due).collect();
    assert_eq!(due, [50, 50, 50, 50], "requests count where they were due");
}

/// The tester's thread is blocked for 300 ms. Requests due during it are sent afterwards, and their latency counts from when they were
/// due, both for a user's first request and for one after a pause.
#[test]
fn requests_that_are_sent_late_count_from_when_they_were_due() {
    let (phases, held) = ("[ { duration: 1, arrivalRate: 50 } ]", ms(300));
    for (flow, pause_us) in [("", 0), ("{ think: 10ms }, ", 10_000)] {
        let script = script_of(phases, &format!("{flow}{{ send: {{ numEncrypts: {FIELDS} }} }}"));
        let behaviour = Behaviour { holds_the_thread: Some((ms(400), held)), ..Behaviour::default() };
        let result = result(&script, &load(&script, behaviour, None).0.unwrap());
        let requests = &result.series[0].requests;
        let expected: Vec<u64> = (0..50).map(|place| place * 20_000 + pause_us).collect();
        assert_eq!(requests.due_us, expected, "the tester's lateness moves nothing");
        let all = || requests.due_us.iter().zip(&requests.latency_us).map(|(&due, &latency)| (due as f64, latency));
        // The first request that was in flight during the 300 ms was due before them; a request due later waits for the remaining time.
        let held_us = held.as_micros() as f64;
        let (first, _) = all().find(|(_, latency)| *latency >= held_us).expect("one was under way");
        let waited: Vec<_> = all().filter(|(due, _)| (first..first + held_us).contains(due)).collect();
        assert!(waited.len() >= 5, "{waited:?}");
        for (due, latency) in waited {
            assert!(latency >= first + held_us - due, "due at {due} µs, {latency} µs");
        }
    }
}

#[test]
fn closed_phases_have_one_request_on_each_connection() {
    let script = script("[ { pause: 50ms }, { duration: 200ms, connections: 3 } ]", "");
    let (outcome, server) = load(&script, Behaviour::default(), None);
    let outcome = outcome.unwrap();
    assert_eq!(server.connections.get(), 3);
    let result = result(&script, &outcome);
    assert!(result.totals.ok >= 3 && result.totals.ok == result.totals.users.completed, "{:?}", result.totals);
    assert_eq!((result.totals.sent, outcome.ended), (result.totals.ok, RunEnd::Finished));
    assert!(result.series[0].requests.due_us[0] >= 50_000);
}

#[test]
fn broken_connections_are_counted_and_replaced() {
    let script = script("[ { duration: 500ms, arrivalRate: 100 } ]", "");
    let (outcome, server) = load(&script, Behaviour { answers_max: Some(10), ..Behaviour::default() }, None);
    let totals = result(&script, &outcome.unwrap()).totals;
    assert!(server.connections.get() >= 2, "{}", server.connections.get());
    assert_eq!(totals.ok + totals.errors.values().sum::<u64>(), 50, "{totals:?}");
    // All requests in flight are lost at once, so a busy machine loses more of them.
    assert!(totals.ok >= 10 && totals.errors.keys().all(|code| code == "connection_lost"), "{totals:?}");
}

#[test]
fn a_server_that_is_gone_fails_requests_when_they_are_due() {
    let script = script("[ { duration: 500ms, arrivalRate: 100 } ]", "");
    let behaviour = Behaviour { answers_max: Some(10), connections_max: Some(1), ..Behaviour::default() };
    let totals = result(&script, &load(&script, behaviour, None).0.unwrap()).totals;
    // How many requests are in flight, and therefore lost at once, depends on how busy the machine is. One of the ten answers is to the
    // request before the first phase.
    assert!(totals.sent == 50 && totals.ok <= 9, "{totals:?}");
    assert_eq!(totals.ok + totals.errors.values().sum::<u64>(), 50, "{totals:?}");
    assert!(
        totals.errors.keys().all(|code| ["connect_failed", "connection_lost"].contains(&code.as_str())),
        "{totals:?}"
    );
}

#[test]
fn wrong_answers_are_errors() {
    let script = script("[ { duration: 200ms, arrivalRate: 100 } ]", "");
    let totals =
        result(&script, &load(&script, Behaviour { wrong_from: Some(11), ..Behaviour::default() }, None).0.unwrap())
            .totals;
    assert_eq!((totals.ok, totals.errors["wrong_answer"], totals.users.failed), (10, 10, 10), "{totals:?}");
}

#[test]
fn requests_are_cancelled_when_their_time_is_over() {
    let script = script("[ { duration: 200ms, arrivalRate: 50 } ]", ", cancelAfter: 30ms");
    let (outcome, server) = load(&script, Behaviour { waits_for_cancel: true, ..Behaviour::default() }, None);
    let result = result(&script, &outcome.unwrap());
    let totals = &result.totals;
    assert_eq!((server.cancels.get(), totals.errors["cancelled"], totals.ok), (10, 10, 0), "{totals:?}");
    assert_eq!(totals.users.completed, 10, "they asked for it");
    failures_took(&result, 10, 30e3);
}

/// Checks that every failed request is recorded individually with a latency of at least `least_us`.
fn failures_took(result: &LoadResult, count: u64, least_us: f64) {
    let ResultSeries { failures, failure_latency_us, .. } = &result.series[0];
    assert_eq!((failures.of, failures.due_us.len() as u64), (count, count), "{failures:?}");
    assert!(failures.latency_us.iter().all(|latency| *latency >= least_us), "{failures:?}");
    let max = failures.latency_us.iter().copied().fold(0.0, f64::max);
    assert!((failure_latency_us.max / max - 1.0).abs() < 0.01, "{failure_latency_us:?} and {max}");
    assert!(failure_latency_us.p50 >= least_us && failure_latency_us.p50 <= failure_latency_us.p99);
}

#[test]
fn missing_answers_are_waited_for_until_the_timeout() {
    let script = script("[ { duration: 100ms, arrivalRate: 50 } ]", "");
    let began = Instant::now();
    let (outcome, _) = load(&script, Behaviour { waits_for_cancel: true, ..Behaviour::default() }, None);
    let result = result(&script, &outcome.unwrap());
    let totals = &result.totals;
    assert_eq!((totals.errors["no_answer"], totals.users.failed), (5, 5), "{totals:?}");
    assert!(began.elapsed() >= ms(1100), "{:?}", began.elapsed());
    // The last of them was due at 80 ms, and all time out a second after the phase, at 1.1 s.
    failures_took(&result, 5, 1.02e6);
    let failures = &result.series[0].failures;
    for (&due, &latency) in failures.due_us.iter().zip(&failures.latency_us) {
        assert!(due as f64 + latency >= 1.1e6, "due at {due} µs, given up after {latency} µs");
    }
}

/// Waiting for a lost answer makes the run longer, but rates cover only the time in which there was load.
#[test]
fn waiting_for_a_lost_answer_lowers_no_speed() {
    let script = script("[ { duration: 200ms, arrivalRate: 50 } ]", "");
    let of = |behaviour| result(&script, &load(&script, behaviour, None).0.unwrap());
    let lost = of(Behaviour { loses: Some(3), ..Behaviour::default() });
    assert_eq!((lost.totals.ok, lost.totals.errors["no_answer"]), (9, 1));
    // The phase, then a second of waiting.
    assert!(lost.elapsed_s >= 1.2, "{}", lost.elapsed_s);
    let last = {
        let requests = &lost.series[0].requests;
        let ends = requests.due_us.iter().zip(&requests.latency_us).map(|(&due, latency)| (due as f64 + latency) / 1e6);
        ends.fold(0.2, f64::max)
    };
    assert!((lost.measured_s() - last).abs() < 1e-4 && last < lost.elapsed_s, "{} and {last}", lost.measured_s());
    let totals = &lost.totals;
    assert!((totals.requests_per_s * last / 9.0 - 1.0).abs() < 0.01, "{totals:?}");
    assert!((totals.fields_per_s * last / 27.0 - 1.0).abs() < 0.01, "{totals:?}");
    // The last request is due at 180 ms and answered immediately: the phase ends after that.
    let all = of(Behaviour::default());
    assert!(all.measured_s() >= 0.2 && all.totals.requests_per_s <= 50.0, "{:?}", all.totals);
    assert!(load_text(&all, &Provenance::new(Vec::new())).contains(" per second over "));
}

/// The report states which requests the latencies omit, and how long callers waited for these.
#[test]
fn the_table_states_which_requests_its_latencies_omit() {
    let script = script("[ { duration: 200ms, arrivalRate: 50 } ]", "");
    let provenance = Provenance::new(Vec::new());
    let of = |behaviour| result(&script, &load(&script, behaviour, None).0.unwrap());
    let some = of(Behaviour { wrong_from: Some(6), ..Behaviour::default() });
    assert_eq!((some.series[0].ok, some.series[0].failures.of), (5, 5));
    let text = load_text(&some, &provenance);
    assert!(text.contains("not in these latencies: 5 of 10 that failed after p50 "), "{text}");
    let none = of(Behaviour::default());
    assert_eq!((none.series[0].ok, none.series[0].failures.of), (10, 0));
    assert!(!load_text(&none, &provenance).contains("not in these latencies"));
}

/// Without answers there is no latency, and without requests no queue wait: neither is reported as 0.
#[test]
fn figures_of_nothing_are_none() {
    let script = script("[ { duration: 100ms, arrivalRate: 50 } ]", "");
    let result =
        result(&script, &load(&script, Behaviour { wrong_from: Some(1), ..Behaviour::default() }, None).0.unwrap());
    let text = load_text(&result, &Provenance::new(Vec::new()));
    let row = text.lines().find(|line| line.contains("small, 5 wrong_answer")).expect("its row");
    let figures: Vec<&str> = row.split_whitespace().take(8).collect();
    assert_eq!(figures, ["0", "5", "–", "–", "–", "–", "–", "–"], "{text}");

    let buckets = |counts: [u64; 2]| {
        let [low, high] = counts;
        let text = format!("w_bucket{{le=\"0.001\"}} {low}\nw_bucket{{le=\"+Inf\"}} {high}\n");
        QueueWait::from(&Buckets::read(&text, "w").unwrap())
    };
    assert_eq!(buckets([0, 0]), QueueWait { count: 0, p50: None, p99: None });
    assert_eq!(buckets([3, 4]), QueueWait { count: 4, p50: Some(1000.0), p99: None });
}

/// Results from before failed requests were recorded individually can still be read.
#[test]
fn results_without_failures_are_read() {
    let script = script("[ { duration: 100ms, arrivalRate: 50 } ]", "");
    let behaviour = Behaviour { wrong_from: Some(2), ..Behaviour::default() };
    let result = result(&script, &load(&script, behaviour, None).0.unwrap());
    let mut json = serde_json::to_value(&result).unwrap();
    let series = json["series"][0].as_object_mut().unwrap();
    assert!(series.remove("failures").is_some() && series.remove("failure_latency_us").is_some());
    let read = LoadResult::read(&json.to_string()).unwrap();
    assert_eq!(read.series[0].errors, result.series[0].errors);
    assert_eq!(read.series[0].failures, RecordedRequests::default());
}

/// One limit applies to successful and failed individually recorded requests; some of each are recorded.
#[test]
fn requests_that_fail_are_kept_within_the_same_bound() {
    let script = script("[ { duration: 600ms, arrivalRate: 500 } ]", "");
    let behaviour = Behaviour { wrong_from: Some(101), ..Behaviour::default() };
    let result = result(&script, &loaded(&script, behaviour, None, 100).0.unwrap());
    let ResultSeries { requests, failures, .. } = &result.series[0];
    assert_eq!((requests.of, failures.of), (100, 200));
    assert_eq!((requests.due_us.len(), failures.due_us.len()), (50, 50));
}

#[test]
fn a_run_that_is_stopped_has_the_results_so_far() {
    let script = script("[ { duration: 60, arrivalRate: 100 } ]", "");
    let outcome = load(&script, Behaviour::default(), Some(ms(300))).0.unwrap();
    assert_eq!(outcome.ended, RunEnd::Interrupted);
    let result = result(&script, &outcome);
    assert!((1..6000).contains(&result.totals.sent), "{:?}", result.totals);
    assert_eq!(result.ended, "interrupted");
}

#[test]
fn users_beyond_the_bound_are_skipped() {
    let script = script("[ { duration: 200ms, arrivalRate: 100, maxVusers: 3 } ]", "");
    let totals =
        result(&script, &load(&script, Behaviour { waits_for_cancel: true, ..Behaviour::default() }, None).0.unwrap())
            .totals;
    assert_eq!((totals.users.created, totals.users.skipped), (3, 17), "{totals:?}");
}
