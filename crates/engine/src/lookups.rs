//! Look-ups in the store for requests, on threads of their own: no worker and no network thread waits for a store.
//!
//! A caller that lacks an app, a grant or a key registers a waker and continues when it is woken. Callers that want the same share one
//! look-up. Missing entries are remembered, within a bound in bytes and until the next change. Look-ups wait in two lanes, each bounded:
//! callers whose credentials are known, and those whose are not, who may use only a part of the threads; within a lane the sources take
//! turns and share the room ([`LookupLane`]). A look-up is skipped if no caller can still be waiting for it.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use crate::error::{Error, ErrorCode};
use crate::lookup_lane::{LanePlace, LookupLane};
use crate::lookup_memory::{Familiar, Misses};
use crate::wanted::{Absence, Wanted};

/// How long a failed look-up answers those who waited for it.
const FAILURE_AGE_MAX: Duration = Duration::from_millis(500);
/// How long an answer that the cache may not keep is handed to those who waited for it.
const HANDOVER_AGE_MAX: Duration = Duration::from_millis(100);
/// Failures and answers kept for those who wait; more are dropped, and looked up again.
const KEPT_MAX: usize = 1024;
/// Look-ups of the known that may pass one of the others.
const KNOWN_STREAK_MAX: u32 = 3;

/// The standing of a look-up's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A certificate or a key has identified the caller.
    Known,
    /// Nothing has: the name may be invented.
    Unknown,
}

/// The source of a look-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) standing: Standing,
    /// The source to which it is charged: a client or an address.
    pub(crate) source: u64,
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
pub(crate) enum LookupAnswer<T> {
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
    state: Mutex<LookupsState<T>>,
    work: Condvar,
    sources: RandomState,
}

struct LookupsState<T> {
    /// Runs of threads that serve look-ups; none: callers read the store themselves.
    runs: usize,
    entries: HashMap<Wanted, LookupEntry>,
    lanes: [LookupLane; 2],
    /// Look-ups that wait in each lane.
    waiting: [usize; 2],
    unknown_running: usize,
    /// Look-ups of the known since one of the others had its turn.
    known_streak: u32,
    misses: Misses,
    failures: HashMap<Wanted, (Error, Duration)>,
    handed: HashMap<Wanted, Handover<Result<T, Absence>>>,
    /// Sources whose look-ups have lost their places, each for as many as waited for it.
    displaced: HashMap<(u64, Wanted), Handover<()>>,
    familiar: Familiar,
    counters: LookupCounters,
}

/// A look-up that waits or runs.
struct LookupEntry {
    standing: Standing,
    since: Duration,
    is_running: bool,
    /// The sources that have a place for it in the lane of its standing; none once it runs.
    places: Vec<u64>,
    waiters: Vec<LookupWaiter>,
}

/// A caller that waits for a look-up.
struct LookupWaiter {
    source: u64,
    waker: Waker,
}

/// An answer for as many as have waited for it.
struct Handover<T> {
    answer: T,
    left: usize,
    since: Duration,
}

/// A look-up for a thread to make.
pub(crate) struct TakenLookup {
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
        let state = LookupsState {
            runs: 0,
            entries: HashMap::new(),
            lanes: Default::default(),
            waiting: [0; 2],
            unknown_running: 0,
            known_streak: 0,
            misses: Misses::new(),
            failures: HashMap::new(),
            handed: HashMap::new(),
            displaced: HashMap::new(),
            familiar: Familiar::default(),
            counters: LookupCounters::default(),
        };
        Self { bounds, state: Mutex::new(state), work: Condvar::new(), sources: RandomState::new() }
    }

    pub(crate) fn wait_max(&self) -> Duration {
        self.bounds.wait_max
    }

    /// The source for a caller with this name.
    pub(crate) fn source_of(&self, name: &(impl Hash + ?Sized)) -> u64 {
        self.sources.hash_one(name)
    }

    fn lock(&self) -> MutexGuard<'_, LookupsState<T>> {
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
        let (misses, miss_bytes) = state.misses.size();
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
        match take(&mut state.handed, wanted, now) {
            Some(Ok(answer)) => return Progress::Handed(answer),
            Some(Err(absence)) => return Progress::Absent(absence),
            None => {}
        }
        if take(&mut state.displaced, &(asker.source, wanted.clone()), now).is_some() {
            return Progress::Failed(overloaded());
        }
        if let Some(entry) = state.entries.get(wanted) {
            if now.saturating_sub(entry.since) >= self.bounds.wait_max {
                return Progress::Failed(Error::silent_store());
            }
        } else if is_cached() {
            return Progress::Cached;
        } else if let Some(progress) = state.recall(wanted, now, self.bounds.miss_age_max) {
            return progress;
        }
        let mut woken = Vec::new();
        let has_place = state.wait_for(wanted, asker, waker, now, self.bounds.queue_max, &mut woken);
        state.counters.refused += u64::from(!has_place) + woken.len() as u64;
        drop(state);
        self.work.notify_one();
        woken.into_iter().for_each(Waker::wake);
        if has_place { Progress::Pending } else { Progress::Failed(overloaded()) }
    }

    /// Returns the next look-up to make, and waits for it; `None` once `run` is over.
    pub(crate) fn next(&self, run: &LookupRun, now: impl Fn() -> Duration) -> Option<TakenLookup> {
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
    pub(crate) fn complete(
        &self,
        taken: TakenLookup,
        answer: LookupAnswer<T>,
        now: Duration,
        is_current: impl FnOnce() -> bool,
    ) {
        let TakenLookup { wanted, standing } = taken;
        let mut state = self.lock();
        if standing == Standing::Unknown {
            state.unknown_running -= 1;
        }
        state.counters.made += 1;
        let waiters = state.entries.remove(&wanted).map(LookupEntry::into_wakers).unwrap_or_default();
        match answer {
            LookupAnswer::Cached => {}
            LookupAnswer::Uncached(answer) => state.hand_over(wanted, Ok(answer), waiters.len(), now),
            LookupAnswer::Absent(absence) => {
                state.familiar.remove(&wanted);
                match is_current() {
                    true => state.misses.insert(wanted, absence, now, self.bounds.miss_bytes_max),
                    false => state.hand_over(wanted, Err(absence), waiters.len(), now),
                }
            }
            LookupAnswer::Failed(error) => state.note_failure(wanted, error, now),
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
        state.displaced.retain(|_, handover| !is_old(handover.since, now, HANDOVER_AGE_MAX));
        state.failures.retain(|_, (_, since)| !answered && !is_old(*since, now, FAILURE_AGE_MAX));
    }
}

impl<T: Clone> LookupsState<T> {
    /// Adds a caller to a look-up, and gives its source a place for it, unless it runs. A look-up that a known caller wants changes its
    /// lane. Returns false if there is no room. `woken` receives those who wait for what has lost its last place.
    fn wait_for(
        &mut self,
        wanted: &Wanted,
        asker: Asker,
        waker: &Waker,
        now: Duration,
        queue_max: usize,
        woken: &mut Vec<Waker>,
    ) -> bool {
        let found = self.entries.get(wanted);
        let before = found.map(|entry| entry.standing);
        let is_known = before == Some(Standing::Known) || self.familiar.has(wanted);
        let standing = if is_known { Standing::Known } else { asker.standing };
        let needs_no_place = |entry: &LookupEntry| {
            entry.is_running || (entry.standing == standing && entry.places.contains(&asker.source))
        };
        if !found.is_some_and(needs_no_place)
            && self.lanes[standing as usize].has_share(asker.source, queue_max)
            && (before == Some(standing) || self.make_room(standing, asker.source, now, queue_max, woken))
        {
            self.add_place(wanted, standing, asker.source, now);
        }
        // Without a place of its own, a caller waits for as long as another has one.
        let Some(entry) = self.entries.get_mut(wanted) else { return false };
        let is_same = |last: &LookupWaiter| last.source == asker.source && last.waker.will_wake(waker);
        if !entry.waiters.last().is_some_and(is_same) {
            entry.waiters.push(LookupWaiter { source: asker.source, waker: waker.clone() });
        }
        true
    }

    fn add_place(&mut self, wanted: &Wanted, standing: Standing, source: u64, now: Duration) {
        let Self { entries, lanes, waiting, .. } = self;
        let entry = entries.entry(wanted.clone()).or_insert_with(|| {
            waiting[standing as usize] += 1;
            LookupEntry { standing, since: now, is_running: false, places: Vec::new(), waiters: Vec::new() }
        });
        if entry.standing != standing {
            let left = entry.standing as usize;
            entry.places.drain(..).for_each(|source| lanes[left].remove(source, wanted));
            waiting[left] -= 1;
            waiting[standing as usize] += 1;
            entry.standing = standing;
        }
        entry.places.push(source);
        lanes[standing as usize].push(source, wanted.clone());
    }

    /// Makes room in a lane for another look-up of a source; false if none can be made.
    fn make_room(
        &mut self,
        standing: Standing,
        source: u64,
        now: Duration,
        queue_max: usize,
        woken: &mut Vec<Waker>,
    ) -> bool {
        while self.waiting[standing as usize] >= queue_max {
            let Some(displaced) = self.lanes[standing as usize].displace_for(source) else { return false };
            let LanePlace { source: busiest, wanted } = displaced;
            let entry = self.entries.get_mut(&wanted).expect("what has a place waits");
            entry.places.retain(|source| *source != busiest);
            if !entry.places.is_empty() {
                continue;
            }
            self.waiting[standing as usize] -= 1;
            for LookupWaiter { source, waker } in
                self.entries.remove(&wanted).map(|entry| entry.waiters).unwrap_or_default()
            {
                note_handover(&mut self.displaced, (source, wanted.clone()), now);
                woken.push(waker);
            }
        }
        true
    }

    /// The result of a look-up that has ended.
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

    /// Keeps an answer that is out of date for those who have waited for it.
    fn hand_over(&mut self, wanted: Wanted, answer: Result<T, Absence>, waiters: usize, now: Duration) {
        make_room(&mut self.handed);
        self.handed.insert(wanted, Handover { answer, left: waiters, since: now });
    }

    fn note_failure(&mut self, wanted: Wanted, error: Error, now: Duration) {
        make_room(&mut self.failures);
        self.failures.insert(wanted, (error, now));
    }

    /// The next look-up, and the wakers of those that have waited too long.
    fn take(&mut self, now: Duration, unknown_max: usize, wait_max: Duration) -> (Option<TakenLookup>, Vec<Waker>) {
        let mut late = Vec::new();
        let order = match self.known_streak {
            KNOWN_STREAK_MAX.. => [Standing::Unknown, Standing::Known],
            _ => [Standing::Known, Standing::Unknown],
        };
        for standing in order {
            if standing == Standing::Unknown && self.unknown_running >= unknown_max {
                continue;
            }
            while let Some(LanePlace { wanted, .. }) = self.lanes[standing as usize].pop() {
                let entry = self.entries.get_mut(&wanted).expect("what has a place waits");
                let lane = &mut self.lanes[standing as usize];
                entry.places.drain(..).for_each(|source| lane.remove(source, &wanted));
                self.waiting[standing as usize] -= 1;
                if now.saturating_sub(entry.since) >= wait_max {
                    late.extend(self.entries.remove(&wanted).map(LookupEntry::into_wakers).unwrap_or_default());
                    self.note_failure(wanted, Error::silent_store(), now);
                    continue;
                }
                entry.is_running = true;
                match standing {
                    Standing::Known => self.known_streak += 1,
                    Standing::Unknown => (self.known_streak, self.unknown_running) = (0, self.unknown_running + 1),
                }
                return (Some(TakenLookup { wanted, standing }), late);
            }
        }
        (None, late)
    }

    /// Drops look-ups that no thread has begun, and returns who waits for anything.
    fn drop_all(&mut self) -> Vec<Waker> {
        self.lanes = Default::default();
        self.waiting = [0; 2];
        let mut woken = Vec::new();
        for entry in self.entries.values_mut() {
            woken.extend(entry.waiters.drain(..).map(|waiter| waiter.waker));
        }
        self.entries.retain(|_, entry| entry.is_running);
        woken
    }
}

impl LookupEntry {
    fn into_wakers(self) -> Vec<Waker> {
        self.waiters.into_iter().map(|waiter| waiter.waker).collect()
    }
}

/// The result for the waiting callers, each of which receives it once.
fn take<K: Eq + Hash, T: Clone>(kept: &mut HashMap<K, Handover<T>>, key: &K, now: Duration) -> Option<T> {
    let handover = kept.get_mut(key)?;
    let answer = (!is_old(handover.since, now, HANDOVER_AGE_MAX)).then(|| handover.answer.clone());
    handover.left = handover.left.saturating_sub(1);
    if answer.is_none() || handover.left == 0 {
        kept.remove(key);
    }
    answer
}

/// Adds one for whom something is kept.
fn note_handover<K: Eq + Hash>(kept: &mut HashMap<K, Handover<()>>, key: K, now: Duration) {
    if !kept.contains_key(&key) {
        make_room(kept);
    }
    let handover = kept.entry(key).or_insert(Handover { answer: (), left: 0, since: now });
    (handover.left, handover.since) = (handover.left + 1, now);
}

fn is_old(since: Duration, now: Duration, age_max: Duration) -> bool {
    now.saturating_sub(since) >= age_max
}

fn make_room<K: Eq + Hash, V>(kept: &mut HashMap<K, V>) {
    if kept.len() >= KEPT_MAX {
        kept.clear();
    }
}

fn overloaded() -> Error {
    let message = "too many names wait to be looked up in the keystore: try again later";
    Error::new(ErrorCode::Overloaded, message)
}
