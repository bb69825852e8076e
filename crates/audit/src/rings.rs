//! The bounded rings into which many threads put records, and from which one thread takes them.
//!
//! ```text
//! record:  a thread's own ring, under a lock that others hardly ever want: time ‖ size ‖ text      its ticket is its place in this ring
//! take:    the contents of all rings; then their records in the order of their times, and those of each ring in its order
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use thiserror::Error;

use crate::sleep::{Sleep, WakeReason};
use crate::tile::ENTRY_SIZE_MAX;

/// Bytes that the writer adds to a record at most.
const ADDED_SIZE_MAX: usize = 128;
/// Longest text of a record, without its time.
pub const RECORD_SIZE_MAX: usize = ENTRY_SIZE_MAX - ADDED_SIZE_MAX;
/// Which record: its ring, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordTicket {
    pub(crate) ring: usize,
    pub(crate) number: u64,
}

/// Why a record was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordRefusal {
    /// The log's disk refuses, or is too slow: what waits to be written has reached its bound.
    #[error("the audit log takes no records: its disk is full or does not answer")]
    Full,
    /// Longer than [`RECORD_SIZE_MAX`], or no JSON object.
    #[error("not a record of at most {RECORD_SIZE_MAX} bytes")]
    Malformed,
    /// The recorder ends.
    #[error("the audit log is closed")]
    Closed,
}

/// Whether a record that was waited for is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It is.
    Durable,
    /// The disk refuses, or has not answered in time. The record is kept, and may become durable later.
    Refused,
}

pub(crate) type Waiter = Box<dyn FnOnce(Durability) + Send>;

/// What a record counts for besides its text. What the writer adds to a record, with a record about its clock, is at most this and as much
/// as the record counts for.
pub(crate) const RECORD_OVERHEAD: usize = 128;
/// Most rings: more threads share them.
const RINGS_MAX: usize = 64;
/// Bytes before a record in a ring.
const HEAD_SIZE: usize = 8 + 4;
/// Room that an empty ring keeps.
const KEPT_BYTES: usize = 256 << 10;

/// A ring on lines of the cache of its own.
#[derive(Default)]
#[repr(align(128))]
struct Ring(Mutex<RingState>);

#[derive(Default)]
struct RingState {
    records: Vec<u8>,
    /// Bytes that its records count for.
    charged: usize,
    /// When the first of them was put in.
    since: Option<Instant>,
    /// The number of the next record.
    next: u64,
    /// Records below are durable.
    durable: u64,
    /// By number.
    waiters: VecDeque<(u64, Waiter)>,
    /// The disk refuses.
    refuses: bool,
    is_closed: bool,
}

impl Ring {
    fn lock(&self) -> MutexGuard<'_, RingState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records that were refused.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Losses {
    pub(crate) records: u64,
    /// The time of the first.
    pub(crate) since_us: u64,
}

/// Rings, one for each thread if there are not too many.
pub(crate) struct RecordRings {
    rings: Box<[Ring]>,
    /// Bytes that all records count for that are not durable.
    charged: AtomicUsize,
    bytes_max: usize,
    /// Since the writer took them last.
    losses: Mutex<Losses>,
    /// Someone waits for a record that the writer has not taken.
    is_awaited: AtomicBool,
    pub(crate) writer: Sleep,
}

impl RecordRings {
    /// Rings whose records count for so many bytes at most, all together.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(RINGS_MAX);
        Self {
            rings: (0..count).map(|_| Ring::default()).collect(),
            charged: AtomicUsize::new(0),
            bytes_max,
            losses: Mutex::default(),
            is_awaited: AtomicBool::new(false),
            writer: Sleep::default(),
        }
    }

    /// Takes a record with its time. If it `is_awaited`, the writer does not gather others before it writes.
    pub(crate) fn put(&self, time_us: u64, text: &[u8], is_awaited: bool) -> Result<RecordTicket, RecordRefusal> {
        let ring = own_number() % self.rings.len();
        let charge = text.len() + RECORD_OVERHEAD;
        let mut state = self.rings[ring].lock();
        if state.is_closed {
            return Err(RecordRefusal::Closed);
        }
        // Relaxed: a bound, which orders nothing else.
        let before = self.charged.fetch_add(charge, Ordering::Relaxed);
        if before + charge > self.bytes_max {
            self.charged.fetch_sub(charge, Ordering::Relaxed);
            drop(state);
            self.lose(time_us);
            return Err(RecordRefusal::Full);
        }
        state.put(time_us, text, charge);
        let ticket = RecordTicket { ring, number: state.next - 1 };
        drop(state);
        // The writer gathers until a quarter of the room is taken.
        let quarter = self.bytes_max / 4;
        let is_urgent = is_awaited || before < quarter && before + charge >= quarter;
        if is_awaited {
            self.is_awaited.store(true, Ordering::SeqCst);
        }
        self.writer.wake(if is_urgent { WakeReason::Awaited } else { WakeReason::Record });
        Ok(ticket)
    }

    /// Counts a record that is refused.
    pub(crate) fn lose(&self, time_us: u64) {
        let mut losses = self.losses();
        if losses.records == 0 {
            losses.since_us = time_us;
        }
        losses.records += 1;
        drop(losses);
        self.writer.wake(WakeReason::Record);
    }

    fn losses(&self) -> MutexGuard<'_, Losses> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many were refused that the writer has not taken.
    pub(crate) fn lost(&self) -> u64 {
        self.losses().records
    }

    /// Those since the last call, which begins the next count.
    pub(crate) fn take_losses(&self) -> Losses {
        std::mem::take(&mut self.losses())
    }

    /// Whether there is nothing to take.
    pub(crate) fn is_empty(&self) -> bool {
        self.losses().records == 0 && self.rings.iter().all(|ring| ring.lock().records.is_empty())
    }

    /// Whether what there is should be written without gathering more.
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_awaited.load(Ordering::SeqCst) || self.charged() >= self.bytes_max / 4
    }

    /// Bytes that all records count for that are not durable.
    pub(crate) fn charged(&self) -> usize {
        self.charged.load(Ordering::Relaxed)
    }

    /// When the first record was put in that the writer has not taken.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.rings.iter().filter_map(|ring| ring.lock().since).min()
    }

    /// Gives all records to the writer.
    pub(crate) fn take(&self, taken: &mut TakenRecords) {
        self.is_awaited.store(false, Ordering::SeqCst);
        (taken.charged, taken.since) = (0, None);
        taken.rings.resize_with(self.rings.len(), TakenRing::default);
        for (ring, taken_ring) in self.rings.iter().zip(&mut taken.rings) {
            taken_ring.records.clear();
            taken_ring.records.shrink_to(KEPT_BYTES);
            let mut state = ring.lock();
            std::mem::swap(&mut state.records, &mut taken_ring.records);
            taken.charged += std::mem::take(&mut state.charged);
            let since = state.since.take();
            taken.since = taken.since.into_iter().chain(since).min();
            taken_ring.next = state.next;
        }
    }

    /// What was taken is durable. Returns who waits for it.
    pub(crate) fn set_durable(&self, taken: &TakenRecords) -> Vec<Waiter> {
        self.charged.fetch_sub(taken.charged, Ordering::Relaxed);
        let mut waiters = Vec::new();
        for (ring, taken) in self.rings.iter().zip(&taken.rings) {
            let mut state = ring.lock();
            (state.durable, state.refuses) = (taken.next, false);
            let count = state.waiters.partition_point(|(number, _)| *number < taken.next);
            waiters.extend(state.waiters.drain(..count).map(|(_, waiter)| waiter));
        }
        waiters
    }

    /// The disk refuses. Returns everyone who waits.
    pub(crate) fn refuse(&self) -> Vec<Waiter> {
        self.each(|state| state.refuses = true)
    }

    /// Takes no more records.
    pub(crate) fn close(&self) {
        self.rings.iter().for_each(|ring| ring.lock().is_closed = true);
        self.writer.wake(WakeReason::Control);
    }

    /// Nothing becomes durable any more. Returns everyone who waits.
    pub(crate) fn end(&self) -> Vec<Waiter> {
        self.each(|state| (state.is_closed, state.refuses) = (true, true))
    }

    fn each(&self, change: impl Fn(&mut RingState)) -> Vec<Waiter> {
        let mut waiters = Vec::new();
        for ring in &self.rings {
            let mut state = ring.lock();
            change(&mut state);
            waiters.extend(state.waiters.drain(..).map(|(_, waiter)| waiter));
        }
        waiters
    }

    /// Whether a record is durable.
    pub(crate) fn is_durable(&self, ticket: RecordTicket) -> bool {
        ticket.number < self.rings[ticket.ring].lock().durable
    }

    /// Calls `then` once a record is durable or the disk refuses: at once if that is so.
    pub(crate) fn when_durable(&self, ticket: RecordTicket, then: Waiter) {
        let mut state = self.rings[ticket.ring].lock();
        let is_durable = ticket.number < state.durable;
        if is_durable || state.refuses {
            drop(state);
            return then(if is_durable { Durability::Durable } else { Durability::Refused });
        }
        let place = state.waiters.partition_point(|(number, _)| *number <= ticket.number);
        state.waiters.insert(place, (ticket.number, then));
    }
}

impl RingState {
    fn put(&mut self, time_us: u64, text: &[u8], charge: usize) {
        let size = u32::try_from(text.len()).expect("a record within its bound");
        self.records.reserve(HEAD_SIZE + text.len());
        self.records.extend_from_slice(&time_us.to_ne_bytes());
        self.records.extend_from_slice(&size.to_ne_bytes());
        self.records.extend_from_slice(text);
        self.since.get_or_insert_with(Instant::now);
        self.charged += charge;
        self.next += 1;
    }
}

/// What the writer has taken and is writing.
#[derive(Default)]
pub(crate) struct TakenRecords {
    rings: Vec<TakenRing>,
    charged: usize,
    /// When the first record was put in.
    pub(crate) since: Option<Instant>,
}

#[derive(Default)]
struct TakenRing {
    records: Vec<u8>,
    /// The number after its last record.
    next: u64,
}

impl TakenRecords {
    /// Calls `each` with the time and text of every record: always the earliest of those that are next in their rings, so that a clock that
    /// goes back between two records of a thread does not change their order.
    pub(crate) fn merge(&self, mut each: impl FnMut(u64, &[u8])) {
        let mut rings: Vec<_> = self.rings.iter().filter_map(|ring| RingCursor::new(&ring.records)).collect();
        while let Some(first) = (0..rings.len()).min_by_key(|ring| rings[*ring].time_us) {
            let others = rings.iter().enumerate().filter(|(ring, _)| *ring != first);
            let until = others.map(|(_, cursor)| cursor.time_us).min().unwrap_or(u64::MAX);
            while rings[first].time_us <= until {
                each(rings[first].time_us, rings[first].text);
                let Some(next) = RingCursor::new(rings[first].rest) else {
                    rings.swap_remove(first);
                    break;
                };
                rings[first] = next;
            }
        }
    }
}

/// The next record of a ring.
struct RingCursor<'r> {
    time_us: u64,
    text: &'r [u8],
    rest: &'r [u8],
}

impl<'r> RingCursor<'r> {
    fn new(records: &'r [u8]) -> Option<Self> {
        let (time, rest) = records.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(u32::from_ne_bytes(*size) as usize)?;
        Some(Self { time_us: u64::from_ne_bytes(*time), text, rest })
    }
}

/// The number of this thread among those that record.
fn own_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    OWN.with(|own| *own)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The order that a slow definition gives: the earliest of the first records, and among these the first ring's.
        #[test]
        fn records_are_merged_by_time_and_keep_the_order_of_their_ring(
            times in vec(vec(0_u64..20, 0..12), 0..5),
            sizes in vec(0_usize..300, 60),
        ) {
            let mut sizes = sizes.into_iter();
            let mut expected: Vec<VecDeque<(u64, Vec<u8>)>> = Vec::new();
            let mut taken = TakenRecords::default();
            for (number, times) in times.iter().enumerate() {
                let mut state = RingState::default();
                let records = times.iter().map(|time| (*time, vec![number as u8; sizes.next().unwrap_or(7)]));
                let records: VecDeque<_> = records.collect();
                records.iter().for_each(|(time, text)| state.put(*time, text, 1));
                expected.push(records);
                taken.rings.push(TakenRing { records: state.records, next: state.next });
            }
            let mut merged = Vec::new();
            taken.merge(|time_us, text| merged.push((time_us, text.to_vec())));
            for (time_us, text) in &merged {
                let heads = expected.iter().filter_map(|ring| ring.front().map(|(time, _)| *time));
                prop_assert_eq!(Some(*time_us), heads.min());
                let ring = expected.iter_mut().position(|ring| ring.front() == Some(&(*time_us, text.clone())));
                let ring = ring.expect("the first of a ring");
                expected[ring].pop_front();
            }
            prop_assert!(expected.iter().all(VecDeque::is_empty));
        }
    }

    #[test]
    fn a_full_ring_refuses_and_takes_again_what_is_durable() {
        let rings = RecordRings::new(3 * RECORD_OVERHEAD);
        let text = [b'x'; RECORD_OVERHEAD / 2];
        let ticket = rings.put(1, &text, false).expect("taken");
        assert_eq!(rings.put(2, &text, false).map(|ticket| ticket.number), Ok(1));
        assert_eq!(rings.put(3, b"", false), Err(RecordRefusal::Full));
        assert_eq!((rings.lost(), rings.charged()), (1, 3 * RECORD_OVERHEAD));
        let mut taken = TakenRecords::default();
        rings.take(&mut taken);
        assert_eq!(rings.put(4, b"", false), Err(RecordRefusal::Full), "what is written counts, too");
        assert!(!rings.is_durable(ticket));
        assert_eq!(rings.set_durable(&taken).len(), 0);
        assert!(rings.is_durable(ticket) && rings.charged() == 0);
        assert!(rings.put(5, &text, false).is_ok());
        rings.close();
        assert_eq!(rings.put(6, &text, false), Err(RecordRefusal::Closed));
        assert_eq!((rings.take_losses().records, rings.lost()), (2, 0));
    }
}
