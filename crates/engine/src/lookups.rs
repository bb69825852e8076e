//! Look-ups in the store for requests, on threads of their own: no worker and no network thread waits for a store.
//!
//! A caller that lacks an app, a grant or a key registers a waker and continues when it is woken. Callers that want the same share one
//! look-up. What the store does not have is remembered, within bytes and until the next change. Look-ups wait in two lanes, each bounded:
//! callers whose credentials are known, and those whose are not, who may use only a part of the threads; within a lane the sources take
//! turns. A look-up that nobody can be waiting for any more is not made.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use leafseal_keystore::{ApiKeyId, AppName, ClientName};
use lru::LruCache;

use crate::error::{Error, ErrorKind};

/// How long a failed look-up answers those who waited for it.
const FAILURE_AGE_MAX: Duration = Duration::from_millis(500);
/// How long an answer that the cache may not keep is handed to those who waited for it.
const HANDOVER_AGE_MAX: Duration = Duration::from_millis(100);
/// Failures and answers kept for those who wait; more are dropped, and looked up again.
const KEPT_MAX: usize = 1024;
/// A source may fill this part of a lane: one of so many.
const SOURCE_PART: usize = 4;
/// Look-ups of the known that may pass one of the others.
const KNOWN_STREAK_MAX: u32 = 3;
/// Names that existed before the last changes, each as a hash of eight bytes; beyond it all are forgotten.
const FAMILIAR_MAX: usize = 1 << 18;
/// Memory of a remembered miss beside its name, in bytes.
const MISS_SIZE: usize = 160;

/// What is looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Wanted {
    App(AppName),
    Client(ClientName),
    ApiKey(ApiKeyId),
    TokenSecret,
}

impl Wanted {
    /// Bytes that remembering it takes.
    fn size(&self) -> usize {
        MISS_SIZE
            + match self {
                Self::App(name) => name.as_str().len(),
                Self::Client(name) => name.as_str().len(),
                Self::ApiKey(id) => id.as_str().len(),
                Self::TokenSecret => 0,
            }
    }
}

/// What is known about who wants something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A certificate or a key has identified the caller.
    Known,
    /// Nothing has: the name may be invented.
    Unknown,
}

/// Who wants something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) standing: Standing,
    /// Whose turn it uses: a client or an address.
    pub(crate) source: u64,
}

/// Why there is nothing to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absence {
    /// The store does not have it.
    Missing,
    /// An app that is disabled.
    Disabled,
}

/// Bounds of the look-ups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Look-ups at the same time; those for callers without known credentials use at most half of them.
    pub(crate) concurrent_max: usize,
    /// Look-ups that wait in each lane.
    pub(crate) queue_max: usize,
    /// How long a caller waits.
    pub(crate) wait_max: Duration,
    /// Memory of remembered misses.
    pub(crate) miss_bytes_max: usize,
    /// How long a miss is remembered.
    pub(crate) miss_age_max: Duration,
}

/// Counters since the start, and current numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LookupCounters {
    /// Look-ups made.
    pub made: u64,
    /// Callers refused because their lane was full.
    pub refused: u64,
    /// Calls answered by a remembered miss.
    pub misses_remembered: u64,
    /// Look-ups waiting or running.
    pub waiting: usize,
    /// Remembered misses.
    pub misses: usize,
    /// Their memory in bytes.
    pub miss_bytes: usize,
}

/// The state of a look-up for a caller.
pub(crate) enum Progress<T> {
    /// It is in the cache.
    Cached,
    /// The answer is handed over, because the cache may not keep it.
    Handed(T),
    Absent(Absence),
    Failed(Error),
    /// The waker is used once there is news.
    Pending,
}

/// The answer of a look-up.
pub(crate) enum Answer<T> {
    /// It is in the cache.
    Cached,
    /// The store has changed while it was read: it is for those who have waited, and not kept.
    Uncached(T),
    Absent(Absence),
    Failed(Error),
}

/// Look-ups with answers of type `T`.
pub(crate) struct StoreLookups<T> {
    bounds: Bounds,
    state: Mutex<State<T>>,
    work: Condvar,
}

struct State<T> {
    /// Runs of threads that serve look-ups; none: callers read the store themselves.
    runs: usize,
    entries: HashMap<Wanted, Entry>,
    lanes: [Lane; 2],
    unknown_running: usize,
    /// Look-ups of the known since one of the others had its turn.
    known_streak: u32,
    misses: Misses,
    failures: HashMap<Wanted, (Error, Duration)>,
    handed: HashMap<Wanted, Handover<T>>,
    familiar: Familiar,
    counters: LookupCounters,
}

/// A look-up that waits or runs.
struct Entry {
    standing: Standing,
    since: Duration,
    is_running: bool,
    waiters: Vec<Waker>,
}

/// An answer for as many as have waited for it.
struct Handover<T> {
    answer: T,
    left: usize,
    since: Duration,
}

/// Look-ups that wait, by source.
#[derive(Default)]
struct Lane {
    /// Sources with something waiting, in the order of their turns.
    turns: VecDeque<u64>,
    of_source: HashMap<u64, VecDeque<Wanted>>,
    count: usize,
}

impl Lane {
    fn has_room(&self, source: u64, queue_max: usize) -> bool {
        let own = self.of_source.get(&source).map_or(0, VecDeque::len);
        self.count < queue_max && own < queue_max.div_ceil(SOURCE_PART)
    }

    fn push(&mut self, source: u64, wanted: Wanted) {
        let own = self.of_source.entry(source).or_default();
        if own.is_empty() {
            self.turns.push_back(source);
        }
        own.push_back(wanted);
        self.count += 1;
    }

    fn pop(&mut self) -> Option<Wanted> {
        let source = self.turns.pop_front()?;
        let own = self.of_source.get_mut(&source).expect("it has a turn");
        let wanted = own.pop_front().expect("something of it waits");
        if own.is_empty() {
            self.of_source.remove(&source);
        } else {
            self.turns.push_back(source);
        }
        self.count -= 1;
        Some(wanted)
    }
}

/// Misses in the order in which they were noticed, without those that do not fit.
struct Misses {
    /// Never promoted: the least recent is the oldest.
    entries: LruCache<Wanted, (Absence, Duration)>,
    bytes: usize,
}

impl Misses {
    fn find(&self, wanted: &Wanted, now: Duration, age_max: Duration) -> Option<Absence> {
        let (absence, since) = self.entries.peek(wanted)?;
        (now.saturating_sub(*since) < age_max).then_some(*absence)
    }

    fn insert(&mut self, wanted: Wanted, absence: Absence, now: Duration, bytes_max: usize) {
        let size = wanted.size();
        if self.entries.push(wanted, (absence, now)).is_none() {
            self.bytes += size;
        }
        while self.bytes > bytes_max && self.pop() {}
    }

    fn expire(&mut self, now: Duration, age_max: Duration) {
        while self.entries.peek_lru().is_some_and(|(_, (_, since))| now.saturating_sub(*since) >= age_max) {
            self.pop();
        }
    }

    fn pop(&mut self) -> bool {
        let Some((wanted, _)) = self.entries.pop_lru() else { return false };
        self.bytes -= wanted.size();
        true
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}

/// What existed before the last changes of the store: the first to be read again. A hash that two share only changes a lane.
#[derive(Default)]
struct Familiar {
    hashes: HashSet<u64>,
    random: RandomState,
}

impl Familiar {
    fn has(&self, wanted: &Wanted) -> bool {
        self.hashes.contains(&self.random.hash_one(wanted))
    }

    fn add(&mut self, wanted: &Wanted) {
        if self.hashes.len() >= FAMILIAR_MAX {
            self.hashes.clear();
        }
        self.hashes.insert(self.random.hash_one(wanted));
    }

    fn remove(&mut self, wanted: &Wanted) {
        self.hashes.remove(&self.random.hash_one(wanted));
    }
}

/// A look-up for a thread to make.
pub(crate) struct Taken {
    pub(crate) wanted: Wanted,
    standing: Standing,
}

/// The threads of a server that serve look-ups.
pub struct LookupRun {
    is_over: AtomicBool,
    end: Box<dyn Fn() + Send + Sync>,
}

impl LookupRun {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Ends it: its threads return, each after the look-up that it is making. Callers read the store themselves again, unless another run
    /// serves them.
    pub fn end(&self) {
        if !self.is_over.swap(true, Ordering::AcqRel) {
            (self.end)();
        }
    }
}

impl std::fmt::Debug for LookupRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LookupRun").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}

impl<T: Clone> StoreLookups<T> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let state = State {
            runs: 0,
            entries: HashMap::new(),
            lanes: Default::default(),
            unknown_running: 0,
            known_streak: 0,
            misses: Misses { entries: LruCache::unbounded(), bytes: 0 },
            failures: HashMap::new(),
            handed: HashMap::new(),
            familiar: Familiar::default(),
            counters: LookupCounters::default(),
        };
        Self { bounds, state: Mutex::new(state), work: Condvar::new() }
    }

    pub(crate) fn wait_max(&self) -> Duration {
        self.bounds.wait_max
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Every change under the lock is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether threads serve look-ups. Otherwise callers read the store themselves, as a lone process does.
    pub(crate) fn is_served(&self) -> bool {
        self.lock().runs > 0
    }

    /// Marks look-ups as served by the threads of this run, whose end calls `end`, and that [`StoreLookups::end_run`].
    pub(crate) fn begin_run(&self, end: Box<dyn Fn() + Send + Sync>) -> Arc<LookupRun> {
        self.lock().runs += 1;
        Arc::new(LookupRun { is_over: AtomicBool::new(false), end })
    }

    pub(crate) fn end_run(&self) {
        let mut state = self.lock();
        state.runs -= 1;
        let woken: Vec<Waker> = if state.runs == 0 { state.drop_all() } else { Vec::new() };
        drop(state);
        self.work.notify_all();
        woken.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn counters(&self) -> LookupCounters {
        let state = self.lock();
        let (misses, miss_bytes) = (state.misses.entries.len(), state.misses.bytes);
        LookupCounters { waiting: state.entries.len(), misses, miss_bytes, ..state.counters }
    }

    /// The state of what `asker` wants; if it has to be looked up, `waker` is registered. `is_cached` reads the cache, in which a look-up
    /// may have put it since the caller did.
    pub(crate) fn poll(
        &self,
        wanted: &Wanted,
        asker: Asker,
        waker: &Waker,
        now: Duration,
        is_cached: impl FnOnce() -> bool,
    ) -> Progress<T> {
        let mut state = self.lock();
        if let Some(answer) = state.take_handed(wanted, now) {
            return Progress::Handed(answer);
        }
        if let Some(progress) = state.join(wanted, asker, waker, now, self.bounds.wait_max) {
            return progress;
        }
        if is_cached() {
            return Progress::Cached;
        }
        if let Some(progress) = state.recall(wanted, now, self.bounds.miss_age_max) {
            return progress;
        }
        let is_familiar = state.familiar.has(wanted);
        let standing = if is_familiar { Standing::Known } else { asker.standing };
        let lane = &mut state.lanes[standing as usize];
        if !lane.has_room(asker.source, self.bounds.queue_max) {
            state.counters.refused += 1;
            return Progress::Failed(overloaded());
        }
        lane.push(asker.source, wanted.clone());
        let entry = Entry { standing, since: now, is_running: false, waiters: vec![waker.clone()] };
        state.entries.insert(wanted.clone(), entry);
        drop(state);
        self.work.notify_one();
        Progress::Pending
    }

    /// Returns the next look-up to make, and waits for it; `None` once `run` is over.
    pub(crate) fn next(&self, run: &LookupRun, now: impl Fn() -> Duration) -> Option<Taken> {
        let mut state = self.lock();
        loop {
            if run.is_over() {
                return None;
            }
            let unknown_max = (self.bounds.concurrent_max / 2).max(1);
            let (taken, late) = state.take(now(), unknown_max, self.bounds.wait_max);
            let has_late = !late.is_empty();
            if has_late {
                drop(state);
                late.into_iter().for_each(Waker::wake);
                state = self.lock();
            }
            if taken.is_some() {
                return taken;
            }
            if has_late {
                continue;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends a look-up and wakes those who wait for it. `is_current` returns whether nothing has changed since it began: only then a miss is
    /// remembered.
    pub(crate) fn complete(&self, taken: Taken, answer: Answer<T>, now: Duration, is_current: impl FnOnce() -> bool) {
        let Taken { wanted, standing } = taken;
        let mut state = self.lock();
        if standing == Standing::Unknown {
            state.unknown_running -= 1;
        }
        state.counters.made += 1;
        let waiters = state.entries.remove(&wanted).map(|entry| entry.waiters).unwrap_or_default();
        match answer {
            Answer::Cached => {}
            Answer::Uncached(answer) => {
                make_room(&mut state.handed);
                state.handed.insert(wanted, Handover { answer, left: waiters.len(), since: now });
            }
            Answer::Absent(absence) => {
                state.familiar.remove(&wanted);
                if is_current() {
                    state.misses.insert(wanted, absence, now, self.bounds.miss_bytes_max);
                }
            }
            Answer::Failed(error) => state.note_failure(wanted, error, now),
        }
        drop(state);
        waiters.into_iter().for_each(Waker::wake);
    }

    /// Forgets misses, because the store has changed; `existed` is what the cache had.
    pub(crate) fn forget(&self, existed: impl Iterator<Item = Wanted>) {
        let mut state = self.lock();
        state.misses.clear();
        if state.runs > 0 {
            existed.for_each(|wanted| state.familiar.add(&wanted));
        }
    }

    /// Drops what is too old to be used; the store has answered if `answered`, so that failures do not count any more.
    pub(crate) fn expire(&self, now: Duration, answered: bool) {
        let mut state = self.lock();
        state.misses.expire(now, self.bounds.miss_age_max);
        state.handed.retain(|_, handover| !is_old(handover.since, now, HANDOVER_AGE_MAX));
        state.failures.retain(|_, (_, since)| !answered && !is_old(*since, now, FAILURE_AGE_MAX));
    }
}

impl<T: Clone> State<T> {
    /// Adds a caller to a look-up that waits or runs, unless it has lasted too long already.
    fn join(
        &mut self,
        wanted: &Wanted,
        asker: Asker,
        waker: &Waker,
        now: Duration,
        wait_max: Duration,
    ) -> Option<Progress<T>> {
        let Self { entries, lanes, .. } = self;
        let entry = entries.get_mut(wanted)?;
        if now.saturating_sub(entry.since) >= wait_max {
            return Some(Progress::Failed(Error::silent_store()));
        }
        if entry.waiters.last().is_none_or(|last| !last.will_wake(waker)) {
            entry.waiters.push(waker.clone());
        }
        if asker.standing == Standing::Known && entry.standing == Standing::Unknown && !entry.is_running {
            // Its place in the other lane is skipped.
            entry.standing = Standing::Known;
            lanes[Standing::Known as usize].push(asker.source, wanted.clone());
        }
        Some(Progress::Pending)
    }

    /// What is known of a look-up that has ended.
    fn recall(&mut self, wanted: &Wanted, now: Duration, miss_age_max: Duration) -> Option<Progress<T>> {
        if let Some(absence) = self.misses.find(wanted, now, miss_age_max) {
            self.counters.misses_remembered += 1;
            return Some(Progress::Absent(absence));
        }
        if let Some((error, since)) = self.failures.get(wanted)
            && !is_old(*since, now, FAILURE_AGE_MAX)
        {
            return Some(Progress::Failed(error.clone()));
        }
        None
    }

    fn note_failure(&mut self, wanted: Wanted, error: Error, now: Duration) {
        make_room(&mut self.failures);
        self.failures.insert(wanted, (error, now));
    }

    /// The next look-up, and the wakers of those that have waited too long.
    fn take(&mut self, now: Duration, unknown_max: usize, wait_max: Duration) -> (Option<Taken>, Vec<Waker>) {
        let mut late = Vec::new();
        let order = match self.known_streak {
            KNOWN_STREAK_MAX.. => [Standing::Unknown, Standing::Known],
            _ => [Standing::Known, Standing::Unknown],
        };
        for standing in order {
            if standing == Standing::Unknown && self.unknown_running >= unknown_max {
                continue;
            }
            while let Some(wanted) = self.lanes[standing as usize].pop() {
                let Some(entry) = self.entries.get_mut(&wanted) else { continue };
                if entry.is_running || entry.standing != standing {
                    continue;
                }
                if now.saturating_sub(entry.since) >= wait_max {
                    late.append(&mut entry.waiters);
                    self.entries.remove(&wanted);
                    self.note_failure(wanted, Error::silent_store(), now);
                    continue;
                }
                entry.is_running = true;
                match standing {
                    Standing::Known => self.known_streak += 1,
                    Standing::Unknown => (self.known_streak, self.unknown_running) = (0, self.unknown_running + 1),
                }
                return (Some(Taken { wanted, standing }), late);
            }
        }
        (None, late)
    }

    /// Drops look-ups that no thread has begun, and returns who waits for anything.
    fn drop_all(&mut self) -> Vec<Waker> {
        self.lanes = Default::default();
        let mut woken = Vec::new();
        for entry in self.entries.values_mut() {
            woken.append(&mut entry.waiters);
        }
        self.entries.retain(|_, entry| entry.is_running);
        woken
    }

    /// An answer for those who have waited.
    fn take_handed(&mut self, wanted: &Wanted, now: Duration) -> Option<T> {
        let handover = self.handed.get_mut(wanted)?;
        let answer = (!is_old(handover.since, now, HANDOVER_AGE_MAX)).then(|| handover.answer.clone());
        handover.left = handover.left.saturating_sub(1);
        if answer.is_none() || handover.left == 0 {
            self.handed.remove(wanted);
        }
        answer
    }
}

fn is_old(since: Duration, now: Duration, age_max: Duration) -> bool {
    now.saturating_sub(since) >= age_max
}

fn make_room<V>(kept: &mut HashMap<Wanted, V>) {
    if kept.len() >= KEPT_MAX {
        kept.clear();
    }
}

fn overloaded() -> Error {
    let message = "too many names wait to be looked up in the key store: try again later";
    Error::new(ErrorKind::Overloaded, message)
}
