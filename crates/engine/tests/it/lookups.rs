//! Look-ups in a store that can be held up: who waits for it, who shares them, what is remembered, and who is refused.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use leafseal_engine::admin::{ApiKeyId, ESCROW_SIGNER, EscrowImport, NewKeys, Operation, Roles};
use leafseal_engine::{
    Caller, DecryptOptions, EncryptOptions, Engine, ErrorCode, LookupRun, OnFailure, Progress, Scheme, Settings,
};
use leafseal_testkit::{EscrowHolder, Gate, GatedStore, ScratchStore};

use crate::common::{ManualClock, app, grant, rewritten, test_engine};

/// An engine whose look-ups are made by threads.
struct Served {
    engine: Engine,
    gate: Gate,
    clock: ManualClock,
    run: Arc<LookupRun>,
    threads: Vec<JoinHandle<()>>,
    store: ScratchStore,
}

/// Settings under which a caller waits as long as a busy machine needs.
fn patient() -> Settings {
    Settings { store_wait_max: Duration::from_secs(300), ..Settings::default() }
}

impl Served {
    fn new(settings: Settings) -> Self {
        let store = ScratchStore::new(&["acme", "other"]);
        let (gated, gate) = GatedStore::new(Box::new(store.open()));
        let clock = ManualClock::default();
        let engine = Engine::with_clock(Box::new(gated), settings, Box::new(clock.clone()));
        engine.maintain().expect("refreshed");
        let run = engine.begin_lookups();
        let serve = |_| {
            let (engine, run) = (engine.clone(), Arc::clone(&run));
            spawn(move || engine.serve_lookups(&run))
        };
        let threads = (0..engine.settings().store_lookups_max).map(serve).collect();
        Self { engine, gate, clock, run, threads, store }
    }

    /// Starts a caller without credentials that wants an app's keys, and waits for the store.
    fn wanting(&self, name: &str) -> JoinHandle<Result<u32, ErrorCode>> {
        let (engine, name) = (self.engine.clone(), name.to_owned());
        spawn(move || match engine.public_keys(&Caller::Anonymous, &name) {
            Ok(keys) => Ok(keys.version),
            Err(error) => Err(error.code),
        })
    }

    fn kind(&self, name: &str) -> Result<u32, ErrorCode> {
        self.wanting(name).join().expect("it ends")
    }

    fn made(&self) -> u64 {
        self.engine.counters().lookups.made
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.gate.open();
        self.run.end();
        for thread in self.threads.drain(..) {
            thread.join().expect("it ends");
        }
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(1));
    }
    panic!("not within a minute: {what}");
}

#[test]
fn all_callers_of_one_name_share_one_lookup() {
    let served = Served::new(patient());
    served.gate.close_for(|name| name == "acme");
    let callers: Vec<_> = (0..20).map(|_| served.wanting("acme")).collect();
    until("it is read", || served.gate.reads("acme") == 1);
    // The others have found it running, or will.
    served.gate.open();
    for caller in callers {
        assert_eq!(caller.join().expect("it ends"), Ok(1));
    }
    assert_eq!((served.gate.reads("acme"), served.made()), (1, 1));
}

#[test]
fn names_that_the_store_does_not_have_are_remembered_until_it_changes() {
    let served = Served::new(patient());
    for _ in 0..5 {
        assert_eq!(served.kind("invented"), Err(ErrorCode::UnknownApp));
    }
    assert_eq!(served.gate.reads("invented"), 1);
    served.engine.store().create_app(&app("invented"), NewKeys::generated()).expect("created");
    served.engine.maintain().expect("refreshed");
    assert_eq!(served.kind("invented"), Ok(1), "visible as soon as the store reports the change");
    served.engine.store().disable_app(&app("invented")).expect("disabled");
    served.engine.maintain().expect("refreshed");
    for _ in 0..5 {
        assert_eq!(served.kind("invented"), Err(ErrorCode::AppDisabled));
    }
    assert_eq!(served.gate.reads("invented"), 3);
}

/// An id that nobody knew before may come with a key: whoever imports it from escrow brings it into the store.
#[test]
fn a_key_id_without_a_key_is_remembered_until_the_key_is_imported() {
    let (other, holder) = (test_engine(), EscrowHolder::default());
    let options = EncryptOptions { scheme: Some(Scheme::Symmetric), ..EncryptOptions::new("acme") };
    let work = other.engine.encrypt_document(&Caller::Owner, &options, None, 7).expect("begins");
    let sealed = rewritten(work, "\"4242\" ").expect("encrypts");
    let list = format!("[{}]", [sealed.as_str(); 3].join(","));
    let served = Served::new(Settings { step_values_max: 1, ..patient() });
    let begin = |on_failure| {
        let options = DecryptOptions { on_failure, ..DecryptOptions::new("acme") };
        served.engine.decrypt_document(&Caller::Owner, &options, None, list.len()).expect("begins")
    };
    let open = || rewritten(begin(OnFailure::Fail), &list).map_err(|error| error.code);
    assert_eq!(open(), Err(ErrorCode::DecryptFailed));
    let before = served.engine.counters().lookups;
    for _ in 0..5 {
        assert_eq!(open(), Err(ErrorCode::DecryptFailed));
    }
    let after = served.engine.counters().lookups;
    assert_eq!((after.made, after.misses, after.misses_remembered - before.misses_remembered), (before.made, 1, 5));
    // A request that has missed it already.
    let (mut running, mut out) = (begin(OnFailure::Null), Vec::new());
    assert_eq!(running.step(list.as_bytes(), &mut out).expect("goes on"), Progress::More);

    let signer = other.engine.store().record_key(ESCROW_SIGNER, None).expect("read").map(|key| key.public_key());
    let versions = holder.export(other.engine.store(), &app("acme")).iter().map(|text| holder.read(text)).collect();
    let import = EscrowImport { versions, from: app("acme"), signer };
    served.engine.store().import_escrow(&app("acme"), import).expect("imported");
    assert_eq!(open(), Err(ErrorCode::DecryptFailed), "until the engine has seen that the store has changed");
    served.engine.maintain().expect("refreshed");
    assert_eq!(open().expect("opens"), "[\"4242\" ,\"4242\" ,\"4242\" ]");
    while running.step(list.as_bytes(), &mut out).expect("goes on") == Progress::More {}
    let text = String::from_utf8(out).expect("UTF-8");
    assert!(text.starts_with("[null") && text.ends_with("\"4242\" ]"), "{text}");
}

#[test]
fn remembered_names_are_bounded_in_bytes_and_time() {
    let settings = Settings { miss_bytes_max: 2000, miss_age_max: Duration::from_secs(60), ..patient() };
    let served = Served::new(settings);
    for number in 0..100 {
        assert_eq!(served.kind(&format!("invented-{number}")), Err(ErrorCode::UnknownApp));
    }
    let lookups = served.engine.counters().lookups;
    assert!(lookups.miss_bytes <= 2000 && (5..=20).contains(&lookups.misses), "{lookups:?}");
    assert_eq!(served.kind("invented-99"), Err(ErrorCode::UnknownApp));
    assert_eq!(served.made(), 100, "the last one is remembered");
    assert_eq!(served.kind("invented-0"), Err(ErrorCode::UnknownApp));
    assert_eq!(served.made(), 101, "the first one is not");
    served.clock.advance(60);
    served.engine.maintain().expect("refreshed");
    assert_eq!(served.engine.counters().lookups.misses, 0);
    assert_eq!(served.engine.counters().lookups.miss_bytes, 0);
}

/// However many invented names wait, those whose credentials are known are looked up at once; as are names that existed before a change.
#[test]
fn callers_without_credentials_leave_threads_to_the_known() {
    let served = Served::new(patient());
    let caller = grant(&served.engine, "shop", &[Operation::Encrypt], Roles::Any);
    assert_eq!(served.kind("other"), Ok(1));
    // The cache is empty after a change.
    served.engine.store().rotate(&app("acme")).expect("rotated");
    served.engine.maintain().expect("refreshed");
    served.gate.close_for(|name| name.starts_with("invented"));
    let invented: Vec<_> = (0..50).map(|number| served.wanting(&format!("invented-{number}"))).collect();
    until("half of the threads are in the store", || served.gate.held() == 2);
    until("all wait", || served.engine.counters().lookups.waiting == 50);
    served.engine.admit(&caller).expect("its grant is read again");
    served.engine.public_keys(&caller, "acme").expect("its app is read again");
    assert_eq!(served.kind("other"), Ok(1), "a name that existed before the change");
    assert_eq!(served.gate.held(), 2);
    served.gate.open();
    for caller in invented {
        assert_eq!(caller.join().expect("it ends"), Err(ErrorCode::UnknownApp));
    }
}

#[test]
fn a_full_lane_refuses_further_names_and_no_others() {
    let served = Served::new(Settings { store_queue_max: 16, ..patient() });
    served.gate.close_for(|name| name.starts_with("invented"));
    // One source has a quarter of the lane.
    let mut invented: Vec<_> = (0..2).map(|number| served.wanting(&format!("invented-{number}"))).collect();
    until("two are read", || served.gate.held() == 2);
    invented.extend((2..6).map(|number| served.wanting(&format!("invented-{number}"))));
    until("four wait", || served.engine.counters().lookups.waiting == 6);
    assert_eq!(served.kind("invented-6"), Err(ErrorCode::Overloaded));
    assert_eq!(served.engine.counters().lookups.refused, 1);
    let caller = grant(&served.engine, "shop", &[Operation::Encrypt], Roles::Any);
    served.engine.public_keys(&caller, "acme").expect("known callers have a lane of their own");
    served.gate.open();
    for caller in invented {
        assert_eq!(caller.join().expect("it ends"), Err(ErrorCode::UnknownApp));
    }
}

/// The id of an API key that no store has.
fn invented_key(source: u64, number: u64) -> ApiKeyId {
    ApiKeyId::parse(&format!("{:016x}", source << 32 | number)).expect("an id")
}

/// A call at an address, with an API key that is not in the cache.
type Pending = Pin<Box<dyn Future<Output = Result<(), ErrorCode>>>>;

/// Shows an API key from an address, without waiting for the answer.
fn shown(engine: &Engine, source: u64, id: ApiKeyId) -> Pending {
    let engine = engine.clone();
    Box::pin(async move { engine.find_api_caller(&id, [0; 32], source).await.map(drop).map_err(|error| error.code) })
}

/// The same for a key that has to be looked up.
fn show(engine: &Engine, source: u64, id: ApiKeyId) -> Pending {
    let mut shown = shown(engine, source, id);
    assert_eq!(news(&mut shown), None, "it waits");
    shown
}

/// The result of a call, once there is one.
fn news(shown: &mut Pending) -> Option<Result<(), ErrorCode>> {
    match shown.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

/// 64 addresses without credentials fill the queue, all the time.
#[test]
fn a_known_caller_and_a_newcomer_pass_however_many_names_are_invented() {
    const ADDRESSES: u64 = 64;
    let served = Served::new(Settings { store_lookups_max: 2, store_queue_max: 256, ..patient() });
    let caller = grant(&served.engine, "shop", &[Operation::Encrypt], Roles::Any);
    // Keys are hexadecimal; the names of apps and clients here are not.
    served.gate.close_for(|name| name.starts_with('0'));
    let engine = &served.engine;
    let mut invented = vec![show(engine, 0, invented_key(0, 0))];
    until("one of two threads is in the store", || served.gate.held() == 1);
    for number in 1..5 {
        invented.extend((0..ADDRESSES).map(|source| show(engine, source, invented_key(source, number))));
    }
    assert_eq!(engine.counters().lookups.waiting, 1 + 256);
    let mut refused = shown(engine, 7, invented_key(7, 9));
    assert_eq!(news(&mut refused), Some(Err(ErrorCode::Overloaded)), "no more than the others");

    // A caller whose credentials are known does not wait for any of them.
    engine.admit(&caller).expect("its grant is read");
    engine.public_keys(&caller, "acme").expect("its app is read");
    assert_eq!(served.made(), 2);

    // One that comes late takes the place of the newest look-up of the busiest.
    let mut newcomer = show(engine, 1000, invented_key(1000, 1));
    let lost = invented.iter_mut().filter_map(news).filter(|result| *result == Err(ErrorCode::Overloaded)).count();
    assert_eq!(lost, 1);
    served.gate.open();
    until("all are made", || engine.counters().lookups.waiting == 0);
    assert_eq!(news(&mut newcomer), Some(Err(ErrorCode::Unauthorized)));
    let order = served.gate.order();
    let own = order.iter().position(|name| name == invented_key(1000, 1).as_str()).expect("it was read");
    let before = order[..own].iter().filter(|name| name.starts_with('0')).count() as u64;
    assert!(before <= 1 + ADDRESSES, "{before} look-ups before that of the newcomer");
}

/// A relay has the keys of its clients verified, each of whom has a share of the look-ups.
#[test]
fn the_users_of_a_client_take_turns() {
    let served = Served::new(Settings { store_lookups_max: 2, store_queue_max: 8, ..patient() });
    let relay = grant(&served.engine, "relay", &[Operation::Encrypt], Roles::Any);
    served.engine.admit(&relay).expect("cached");
    served.gate.close_for(|name| name.starts_with('0'));
    let verify = |number: u64, user: &'static str| {
        let (engine, relay) = (served.engine.clone(), relay.clone());
        let key = format!("lsk_{}_{}", invented_key(1, number).as_str(), "0".repeat(64));
        spawn(move || engine.authenticate(&relay, &key, Some(user)).map(drop).map_err(|error| error.code))
    };
    let waiting = |count| until("they wait", || served.engine.counters().lookups.waiting == count);
    let mut calls = Vec::new();
    for number in 0..3 {
        calls.push(verify(number, "busy"));
        waiting(calls.len());
        until("the first is in the store", || served.gate.held() == 1);
    }
    assert_eq!(verify(3, "busy").join().expect("it ends"), Err(ErrorCode::Overloaded), "one runs and two wait");
    calls.push(verify(4, "other"));
    waiting(4);
    served.gate.open();
    for call in calls {
        assert_eq!(call.join().expect("it ends"), Err(ErrorCode::Forbidden));
    }
}

/// A look-up that several addresses wait for is made if any of them still has a place for it.
#[test]
fn a_lookup_that_others_wait_for_too_survives_the_loss_of_a_place() {
    let served = Served::new(Settings { store_lookups_max: 2, store_queue_max: 8, ..patient() });
    served.gate.close_for(|name| name.starts_with('0'));
    let engine = &served.engine;
    let shared = || invented_key(9, 9);
    let _running = show(engine, 0, invented_key(0, 0));
    until("one of two threads is in the store", || served.gate.held() == 1);
    let two = |source| [1, 2].map(|number| show(engine, source, invented_key(source, number)));
    let mut waiting: Vec<_> = (1..4).flat_map(two).collect();
    waiting.push(show(engine, 4, invented_key(4, 1)));
    // The newest look-up of address 4, and the only one of address 5.
    let mut both = [show(engine, 4, shared()), show(engine, 5, shared())];
    assert_eq!(engine.counters().lookups.waiting, 1 + 8);
    for source in 6..9 {
        waiting.push(show(engine, source, invented_key(source, 1)));
    }
    assert!(both.iter_mut().all(|shown| news(shown).is_none()), "address 5 has only this one");
    served.gate.open();
    until("all are made", || engine.counters().lookups.waiting == 0);
    for shown in &mut both {
        assert_eq!(news(shown), Some(Err(ErrorCode::Unauthorized)));
    }
}

/// A change while a missing name is read: the answer is not remembered, and those who have waited do not wait again.
#[test]
fn a_name_that_is_missing_before_a_change_is_missing_for_those_who_have_waited() {
    let served = Served::new(Settings { store_lookups_max: 2, store_queue_max: 4, ..patient() });
    served.gate.close_for(|name| name.starts_with("invented"));
    let first = served.wanting("invented-0");
    until("it is read", || served.gate.held() == 1);
    let second = served.wanting("invented-1");
    until("the lane is full", || served.engine.counters().lookups.waiting == 2);
    served.engine.store().rotate(&app("acme")).expect("rotated");
    served.engine.maintain().expect("refreshed");
    served.gate.close_for(|name| name == "invented-1");
    assert_eq!(first.join().expect("it ends"), Err(ErrorCode::UnknownApp));
    assert_eq!(served.engine.counters().lookups.misses, 0, "it may exist by now");
    served.gate.open();
    assert_eq!(second.join().expect("it ends"), Err(ErrorCode::UnknownApp));
}

#[test]
fn a_caller_waits_for_a_store_that_hangs_only_so_long() {
    let served = Served::new(Settings { store_wait_max: Duration::from_millis(20), ..Settings::default() });
    served.gate.close_for(|_| true);
    let error = served.engine.public_keys(&Caller::Owner, "acme").expect_err("it hangs");
    assert!(error.code == ErrorCode::Unavailable && error.message.contains("try again later"), "{error}");
    served.gate.open();
}

#[test]
fn a_lookup_that_fails_answers_all_who_wait_for_it_and_is_made_again_later() {
    let served = Served::new(patient());
    let content = std::fs::read(served.store.path()).expect("a store");
    std::fs::write(served.store.path(), b"no store any more").expect("written");
    assert_eq!(served.kind("acme"), Err(ErrorCode::Unavailable));
    std::fs::write(served.store.path(), content).expect("written");
    served.engine.maintain().expect("the store is back");
    assert_eq!(served.kind("acme"), Ok(1));
}

/// While the store changes all the time, an answer is out of date before it arrives: those who have waited get it nevertheless.
#[test]
fn a_store_that_changes_all_the_time_is_still_readable() {
    let served = Served::new(patient());
    let is_over = Arc::new(AtomicBool::new(false));
    let (engine, ends) = (served.engine.clone(), Arc::clone(&is_over));
    let changes = spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            engine.store().disable_app(&app("other")).expect("disabled");
            engine.store().enable_app(&app("other")).expect("enabled");
            engine.maintain().expect("refreshed");
        }
    });
    for _ in 0..20 {
        assert_eq!(served.kind("acme"), Ok(1));
    }
    is_over.store(true, Ordering::Relaxed);
    changes.join().expect("it ends");
}
