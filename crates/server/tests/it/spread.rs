//! Requests on several workers at once, as the server runs them: the output equals that of a single worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leafseal_engine::admin::AppName;
use leafseal_engine::pool::{CancelReason, Pool, PoolSettings};
use leafseal_engine::{Caller, Engine, Settings};
use leafseal_protocol::{
    DecryptOptions, DocumentResult, EncryptOptions, FrameLimits as WireLimits, InspectResult, Keying, Message,
    RewrapOptions, RewrapResult, Scalar, Scheme, ValuesResult, answer, request,
};
use leafseal_server::in_process::InProcess;
use leafseal_service::EngineService;
use leafseal_testkit::ScratchStore;

const ID: u32 = 9;
const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    engine: Engine,
    server: InProcess<EngineService>,
    caller: Arc<Caller>,
    _store: ScratchStore,
}

fn bench(workers: usize, settings: Settings) -> Bench {
    let store = ScratchStore::new(&["acme"]);
    let engine = Engine::new(Box::new(store.open()), settings);
    let service = EngineService::new(engine.clone(), WireLimits::default(), 1 << 30);
    let pool = Pool::new(PoolSettings { workers, ..PoolSettings::default() }).expect("threads");
    let server = InProcess::new(service, Arc::new(pool), 1 << 30);
    Bench { engine, server, caller: Arc::new(Caller::Owner), _store: store }
}

impl Bench {
    fn call(&self, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let answer = self.server.submit(&self.caller, frame(write), ID).wait(PATIENCE).concat();
        self.wait_until_idle();
        answer
    }

    fn wait_until_idle(&self) {
        let began = Instant::now();
        while self.server.pool().counters().jobs_held > 0 {
            assert!(began.elapsed() < PATIENCE, "the request does not go away");
            std::thread::yield_now();
        }
        assert_eq!(self.server.answers_bytes(), 0);
    }

    fn encrypt(&self, keying: Keying, values: &[Scalar<'_>]) -> Vec<u8> {
        let options = EncryptOptions { keying: Some(keying), ..EncryptOptions::new("acme") };
        self.call(|out| request::encrypt(ID, &options, values.iter().copied(), out))
    }

    fn decrypt(&self, values: &[Scalar<'_>]) -> Vec<u8> {
        self.call(|out| request::decrypt(ID, &DecryptOptions::new("acme"), values.iter().copied(), out))
    }
}

fn frame(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = Vec::new();
    write(&mut frame);
    frame
}

fn result(answer: &[u8]) -> leafseal_protocol::RawValue<'_> {
    match Message::parse(answer).expect("a message") {
        Message::Response { id: ID, result: Ok(result) } => result,
        Message::Response { result: Err(error), .. } => panic!("{:?}", error.error().expect("an error object")),
        other => panic!("{other:?}"),
    }
}

/// Code, index and offset of an answer's error.
fn fault(answer: &[u8]) -> (String, Option<u64>, Option<u64>) {
    match Message::parse(answer).expect("a message") {
        Message::Response { id: ID, result: Err(error) } => {
            let error = error.error().expect("an error object");
            (error.code.to_owned(), error.index, error.offset)
        }
        other => panic!("{other:?}"),
    }
}

fn values(answer: &[u8]) -> Vec<Scalar<'_>> {
    ValuesResult::decode(result(answer)).expect("values").values.iter().map(|value| value.expect("a scalar")).collect()
}

fn document(answer: &[u8]) -> (&[u8], u64) {
    let result = DocumentResult::decode(result(answer)).expect("a document");
    (result.document, result.count)
}

fn text_of<'a>(value: &Scalar<'a>) -> &'a str {
    match value {
        Scalar::Str(text) => text.as_str(),
        other => panic!("{other:?}"),
    }
}

/// Strings, numbers, booleans and nulls, in turn.
fn mixed(texts: &[String]) -> Vec<Scalar<'_>> {
    let scalar = |i: usize| match i % 7 {
        3 => Scalar::UInt(i as u64),
        4 => Scalar::Nil,
        5 => Scalar::Bool(i.is_multiple_of(2)),
        6 => Scalar::Float(i as f64 + 0.5),
        _ => Scalar::from(texts[i].as_str()),
    };
    (0..texts.len()).map(scalar).collect()
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{:0width$}", i * 7_919, width = 1 + i * 31 % 90)).collect()
}

/// The contexts of a list stay beside their values, however it is split.
#[test]
fn values_with_a_context_each_round_trip_for_any_parts() {
    for (workers, step_values_max, step_bytes_max) in [(1, 256, 64 << 10), (4, 7, 300), (3, 33, 5_000)] {
        let bench = bench(workers, Settings { step_values_max, step_bytes_max, ..Settings::default() });
        let texts: Vec<String> =
            texts(1_500).into_iter().enumerate().map(|(i, text)| text.repeat(1 + i % 100 / 99 * 99)).collect();
        let given = mixed(&texts);
        let contexts: Vec<String> = (0..1_500).map(|i| format!("row {}{}", i / 3, "\u{e9}".repeat(i % 40))).collect();
        let contexts: Vec<&str> = contexts.iter().map(String::as_str).collect();
        let options = EncryptOptions { scheme: Some(Scheme::Symmetric), ..EncryptOptions::new("acme") };
        let seal = |options: &EncryptOptions<'_>, contexts: &[&str], values: &[Scalar<'_>]| {
            bench.call(|out| request::encrypt_bound(ID, options, contexts, values.iter().copied(), out))
        };
        let of_acme = DecryptOptions::new("acme");
        let open = |options: &DecryptOptions<'_>, contexts: &[&str], values: &[Scalar<'_>]| {
            bench.call(|out| request::decrypt_bound(ID, options, contexts, values.iter().copied(), out))
        };
        let sealed = seal(&options, &contexts, &given);
        let envelopes = values(&sealed);
        assert!(values(&open(&of_acme, &contexts, &envelopes)) == given, "{step_values_max} values a step");
        for index in [0, 2, 99, 702] {
            let alone = DecryptOptions { context: Some(contexts[index]), ..of_acme };
            let opened = bench.call(|out| request::decrypt(ID, &alone, [envelopes[index]].into_iter(), out));
            assert!(values(&opened) == [given[index]]);
            let mut others = contexts.clone();
            others[index] = "another";
            let failed = ("decrypt_failed".to_owned(), Some(index as u64), None);
            assert_eq!(fault(&open(&of_acme, &others, &envelopes)), failed);
        }
        let skip = EncryptOptions { skip_sealed: true, ..options };
        assert!(values(&seal(&skip, &contexts, &envelopes)) == envelopes);
        bench.engine.store().rotate(&AppName::parse("acme").expect("a name")).expect("rotated");
        bench.engine.maintain().expect("refreshed");
        let (kept, list): (Vec<usize>, Vec<&str>) =
            (0..1_500).filter(|&i| given[i] != Scalar::Nil).map(|i| (i, text_of(&envelopes[i]))).unzip();
        let of_list: Vec<&str> = kept.iter().map(|&i| contexts[i]).collect();
        let rewrap = RewrapOptions::new("acme");
        let answer = bench.call(|out| request::rewrap_bound(ID, &rewrap, &of_list, list.iter().copied(), out));
        let newer = RewrapResult::decode(result(&answer)).expect("envelopes");
        assert_eq!(newer.count, list.len() as u64);
        let newer: Vec<Scalar<'_>> = newer.values.iter().map(|value| value.expect("a scalar")).collect();
        let expected: Vec<Scalar<'_>> = kept.iter().map(|&i| given[i]).collect();
        assert!(newer != list.iter().copied().map(Scalar::from).collect::<Vec<_>>());
        assert!(values(&open(&of_acme, &of_list, &newer)) == expected);
        // What is bound to nothing does not open where something bound belongs.
        let public = values_of_public_key(&bench, &given[..1]);
        assert_eq!(fault(&open(&of_acme, &contexts[..1], &[Scalar::from(public.as_str())])).0, "decrypt_failed");

        let invalid = |answer: Vec<u8>, index: Option<u64>| {
            assert_eq!(fault(&answer), ("invalid_params".to_owned(), index, None));
        };
        invalid(seal(&options, &contexts[1..], &given), None);
        invalid(seal(&EncryptOptions { context: Some("row"), ..options }, &contexts, &given), None);
        invalid(seal(&EncryptOptions { scheme: Some(Scheme::PublicKey), ..options }, &contexts, &given), None);
        invalid(seal(&options, &["a", ""], &given[..2]), Some(1));
        let long = "x".repeat(1_025);
        invalid(open(&of_acme, &[contexts[0], &long], &envelopes[..2]), Some(1));
        assert!(values(&seal(&options, &["a", &long[1..]], &given[..2])).len() == 2);
    }
}

/// The envelope of one value to a public key.
fn values_of_public_key(bench: &Bench, given: &[Scalar<'_>]) -> String {
    text_of(&values(&bench.encrypt(Keying::Request, given))[0]).to_owned()
}

/// Lengths around every limit at which work is split: parts, groups of values, steps.
#[test]
fn lists_of_any_length_round_trip_for_any_parts() {
    for step_values_max in [1, 2, 31, 32, 33, 256] {
        let bench = bench(2, Settings { step_values_max, step_bytes_max: 5_000, ..Settings::default() });
        let counts = [1, 31, 32, 33, 255, 256, 257, 511, 513, 2_000].into_iter();
        for count in
            counts.chain([step_values_max - 1, step_values_max + 1, 2 * step_values_max, 2 * step_values_max + 1])
        {
            let texts = texts(count);
            let given = mixed(&texts);
            for keying in [Keying::Request, Keying::Session] {
                let sealed = bench.encrypt(keying, &given);
                let envelopes = values(&sealed);
                assert_eq!(envelopes.len(), count);
                assert!(values(&bench.decrypt(&envelopes)) == given, "{count} values, {step_values_max} a step");
            }
        }
    }
}

#[test]
fn field_keying_and_many_ephemeral_keys_keep_their_order() {
    let bench = bench(3, Settings::default());
    let texts = texts(120);
    let given = mixed(&texts);
    let sealed = bench.encrypt(Keying::Field, &given);
    let envelopes = values(&sealed);
    let before = bench.engine.counters().opening_agreements;
    assert!(values(&bench.decrypt(&envelopes)) == given);
    let agreements = bench.engine.counters().opening_agreements - before;
    let keys = given.iter().filter(|value| **value != Scalar::Nil).count() as u64;
    // Each ephemeral key stands once. One is computed twice if its turn comes while another worker computes it with its own.
    assert!((keys..=keys + keys / 4).contains(&agreements), "{agreements} for {keys} keys");
}

#[test]
fn one_ephemeral_key_costs_one_agreement_on_all_workers_together() {
    let bench = bench(3, Settings { opening_keys_max: 0, ..Settings::default() });
    let texts = texts(5_000);
    let given = mixed(&texts);
    let sealed = bench.encrypt(Keying::Request, &given);
    let before = bench.engine.counters().opening_agreements;
    assert!(values(&bench.decrypt(&values(&sealed))) == given);
    assert_eq!(bench.engine.counters().opening_agreements - before, 1);
}

#[test]
fn documents_round_trip_byte_for_byte() {
    for (step_values_max, step_bytes_max) in [(256, 64 << 10), (7, 300), (1, 64)] {
        let bench = bench(2, Settings { step_values_max, step_bytes_max, ..Settings::default() });
        for count in [0, 1, 6, 7, 8, 300, 3_000] {
            let members: Vec<String> = texts(count)
                .iter()
                .enumerate()
                .map(|(i, text)| format!(" \"f{i}\" : [\"{text}\", {i}, null]"))
                .collect();
            let plain =
                format!("{{ \"x\":{{}},{} \"y\":\"ev:no\" }}  ", members.join(",") + if count > 0 { "," } else { "" });
            let options = EncryptOptions::new("acme");
            let sealed = bench.call(|out| request::encrypt_document(ID, &options, None, plain.as_bytes(), out));
            let (sealed, replaced) = document(&sealed);
            assert_eq!(replaced, 2 * count as u64 + 1);
            let opened =
                bench.call(|out| request::decrypt_document(ID, &DecryptOptions::new("acme"), None, sealed, out));
            let (opened, replaced) = document(&opened);
            assert!(opened == plain.as_bytes() && replaced == 2 * count as u64 + 1, "{count} members");
        }
    }
}

#[test]
fn a_document_with_little_to_replace_is_copied_in_parts() {
    let bench = bench(2, Settings::default());
    let filler = format!("[{}]", vec!["\"text that stays as it is\""; 40_000].join(", "));
    let plain = format!("{{\"a\":{filler},\"card\":\"4242\",\"b\":{filler}}}");
    for select in [&["$.card"][..], &["$[?@=='4242']"]] {
        let options = EncryptOptions::new("acme");
        let sealed = bench.call(|out| request::encrypt_document(ID, &options, Some(select), plain.as_bytes(), out));
        let (sealed, count) = document(&sealed);
        assert_eq!(count, 1);
        let opened = bench.call(|out| request::decrypt_document(ID, &DecryptOptions::new("acme"), None, sealed, out));
        assert!(document(&opened) == (plain.as_bytes(), 1));
    }
}

#[test]
fn rewrapped_lists_keep_their_order_and_their_count() {
    let bench = bench(3, Settings::default());
    let texts = texts(1_500);
    let given: Vec<Scalar<'_>> = texts.iter().map(|text| Scalar::from(text.as_str())).collect();
    let old = bench.encrypt(Keying::Request, &given);
    bench.engine.store().rotate(&AppName::parse("acme").expect("a name")).expect("rotated");
    bench.engine.maintain().expect("refreshed");
    let new = bench.encrypt(Keying::Request, &given[..500]);
    let (old, new) = (values(&old), values(&new));
    let list: Vec<&str> = old[..1_000].iter().chain(&new).chain(&old[1_000..]).map(text_of).collect();
    let answer = bench.call(|out| request::rewrap(ID, &RewrapOptions::new("acme"), list.iter().copied(), out));
    let rewrapped = RewrapResult::decode(result(&answer)).expect("a list");
    assert_eq!((rewrapped.count, rewrapped.values.count()), (1_500, 2_000));
    let envelopes: Vec<Scalar<'_>> = rewrapped.values.iter().map(|value| value.expect("a scalar")).collect();
    assert!(envelopes[1_000..1_500] == new, "what is new already stays");
    let opened = bench.decrypt(&envelopes);
    let expected: Vec<Scalar<'_>> =
        given[..1_000].iter().chain(&given[..500]).chain(&given[1_000..]).copied().collect();
    assert!(values(&opened) == expected);
}

/// The reference for the parts: a list of one value is processed by the first step, without parts.
fn inspect_one_by_one(bench: &Bench, app: Option<&str>, list: &[&str]) -> Vec<u8> {
    let mut answer = Vec::new();
    answer::begin_inspect(ID, list.len() as u32, &mut answer);
    let mut head = Vec::new();
    answer::begin_inspect(ID, 1, &mut head);
    for text in list {
        let one = bench.call(|out| request::inspect(ID, app, [*text].into_iter(), out));
        answer.extend_from_slice(one.strip_prefix(&head[..]).expect("the answer's beginning"));
    }
    answer
}

#[test]
fn inspected_lists_equal_single_inspections_byte_for_byte() {
    for step_values_max in [1, 7, 256] {
        let bench = bench(3, Settings { step_values_max, step_bytes_max: 2_000, ..Settings::default() });
        let mut texts = texts(600);
        // Long ones, each of several steps: in the first place, which the request processes itself, and where parts meet.
        [0, 1, 7, 255, 256, 257, 599].into_iter().for_each(|place| texts[place] = "long ".repeat(1_000));
        let given = mixed(&texts);
        let mut sealed = vec![bench.encrypt(Keying::Request, &given), bench.encrypt(Keying::Field, &given[..60])];
        bench.engine.store().rotate(&AppName::parse("acme").expect("a name")).expect("rotated");
        bench.engine.maintain().expect("refreshed");
        sealed.push(bench.encrypt(Keying::Session, &given));
        let sealed: Vec<Scalar<'_>> = sealed.iter().flat_map(|answer| values(answer)).collect();
        let list: Vec<&str> = sealed.iter().filter(|value| **value != Scalar::Nil).map(text_of).collect();
        assert!(list.len() > 1_000, "{}", list.len());
        for app in [None, Some("acme")] {
            for count in [2, 8, 9, 300, list.len()] {
                let list = &list[..count];
                let whole = inspect_one_by_one(&bench, app, list);
                let reported = bench.call(|out| request::inspect(ID, app, list.iter().copied(), out));
                assert!(reported == whole, "{count} envelopes, {step_values_max} a part");
            }
        }
    }
}

/// A single growing buffer would be copied as a whole in one step: each part's output is sent as it is.
#[test]
fn the_answer_to_inspect_is_written_in_parts_by_all_workers() {
    let bench = bench(2, Settings::default());
    let given = vec![Scalar::from("x"); 5_000];
    let sealed = bench.encrypt(Keying::Request, &given);
    let sealed = values(&sealed);
    let list: Vec<&str> = sealed.iter().map(text_of).collect();
    for app in [None, Some("acme")] {
        let before = bench.server.pool().counters().turns_shared;
        let frame = frame(|out| request::inspect(ID, app, list.iter().copied(), out));
        let buffers = bench.server.submit(&bench.caller, frame, ID).wait(PATIENCE);
        bench.wait_until_idle();
        assert_eq!(InspectResult::decode(result(&buffers.concat())).expect("a result").count(), 5_000);
        let largest = buffers.iter().map(Vec::capacity).max().expect("some");
        assert!(largest < 128 << 10, "{largest} of {} bytes", buffers.iter().map(Vec::len).sum::<usize>());
        assert!(bench.server.pool().counters().turns_shared > before, "by one worker alone");
    }
}

#[test]
fn the_first_of_several_faults_of_an_inspected_list_is_reported() {
    let bench = bench(3, Settings { step_values_max: 16, ..Settings::default() });
    let sealed = bench.encrypt(Keying::Request, &vec![Scalar::from("text"); 2_000]);
    let sealed = values(&sealed);
    for round in 0..20_usize {
        let places = [round * 97 + 1, 1_999 - round, round * 50 + 30];
        let first = *places.iter().min().expect("three");
        let mut list = sealed.clone();
        places.into_iter().for_each(|place| list[place] = Scalar::from("ev:none"));
        let texts: Vec<&str> = list.iter().map(text_of).collect();
        for app in [None, Some("acme")] {
            let answer = bench.call(|out| request::inspect(ID, app, texts.iter().copied(), out));
            assert_eq!(fault(&answer), ("invalid_envelope".to_owned(), Some(first as u64), None));
        }
    }
}

#[test]
fn the_first_of_several_faults_is_reported() {
    let bench = bench(3, Settings { step_values_max: 16, ..Settings::default() });
    let texts = texts(3_000);
    let given: Vec<Scalar<'_>> = texts.iter().map(|text| Scalar::from(text.as_str())).collect();
    let sealed = bench.encrypt(Keying::Request, &given);
    let good = values(&sealed);
    let text = |index: usize| text_of(&good[index]);
    let forged = |index: usize| {
        let text = text(index);
        let (start, end) = text.split_at(text.len() - 4);
        format!("{start}{}{}", if end.starts_with('A') { 'B' } else { 'A' }, &end[1..])
    };
    let plain = |list: &[Scalar<'_>]| {
        let members: Vec<&str> = list.iter().map(text_of).collect();
        format!("[\"{}\"]", members.join("\",\""))
    };
    for round in 0..20_usize {
        let places = [round * 149, 2_999 - round, round * 97 + 40];
        let bad: Vec<(usize, String, &str)> = vec![
            (places[0], forged(places[0]), "decrypt_failed"),
            (places[1], text(places[1])[..60].to_owned(), "invalid_envelope"),
            (places[2], forged(places[2]), "decrypt_failed"),
        ];
        let mut list = good.clone();
        bad.iter().for_each(|(place, text, _)| list[*place] = Scalar::from(text.as_str()));
        let (first, _, code) = bad.iter().min_by_key(|(place, ..)| *place).expect("three");
        assert_eq!(fault(&bench.decrypt(&list)), ((*code).to_owned(), Some(*first as u64), None));

        let document = plain(&list);
        let offset = 1 + list[..*first].iter().map(|value| plain(&[*value]).len() - 1).sum::<usize>();
        let answer = bench
            .call(|out| request::decrypt_document(ID, &DecryptOptions::new("acme"), None, document.as_bytes(), out));
        assert_eq!(fault(&answer), ((*code).to_owned(), None, Some(offset as u64)));
        // A fault of the document itself is reported in its order among the others.
        let cut = &document[..offset.max(50) - 20];
        let answer =
            bench.call(|out| request::decrypt_document(ID, &DecryptOptions::new("acme"), None, cut.as_bytes(), out));
        assert_eq!((fault(&answer).0.as_str(), fault(&answer).2), ("invalid_document", Some(cut.len() as u64)));
    }
}

#[test]
fn a_large_request_that_is_cancelled_ends_at_once_on_every_worker() {
    let bench = bench(2, Settings::default());
    let given = vec![Scalar::from("x"); 300_000];
    let options = EncryptOptions { keying: Some(Keying::Field), ..EncryptOptions::new("acme") };
    let in_flight =
        bench.server.submit(&bench.caller, frame(|out| request::encrypt(ID, &options, given.iter().copied(), out)), ID);
    // About 10 s of work on two workers.
    while bench.server.pool().counters().turns_shared < 20 {
        std::thread::yield_now();
    }
    in_flight.cancel(CancelReason::Cancelled);
    assert_eq!(fault(&in_flight.wait(PATIENCE).concat()).0, "cancelled");
    bench.wait_until_idle();
    let slices = bench.server.pool().counters().slices;
    assert!(slices < 100_000, "{slices} slices");
    let healthy = bench.encrypt(Keying::Request, &given[..10]);
    assert_eq!(values(&healthy).len(), 10);
}

#[test]
fn a_deadline_ends_a_large_request_on_every_worker() {
    let bench = bench(2, Settings::default());
    let given = vec![Scalar::from("x"); 300_000];
    let options = EncryptOptions { keying: Some(Keying::Field), deadline_ms: Some(30), ..EncryptOptions::new("acme") };
    let answer = bench.call(|out| request::encrypt(ID, &options, given.iter().copied(), out));
    assert_eq!(fault(&answer).0, "deadline_exceeded");
    assert!(bench.server.pool().counters().slices < 100_000);
}

#[test]
fn small_requests_stay_with_one_worker() {
    let bench = bench(2, Settings::default());
    let texts = texts(200);
    for _ in 0..20 {
        let sealed = bench.encrypt(Keying::Session, &mixed(&texts));
        assert_eq!(values(&sealed).len(), 200);
    }
    let counters = bench.server.pool().counters();
    assert_eq!((counters.turns_shared, counters.jobs_done), (0, 20));
}
