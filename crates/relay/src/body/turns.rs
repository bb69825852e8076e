//! The order in which waiting pieces of work run: start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) by client, and the pieces
//! of one client in turn. Pure: no threads, no clock.
//!
//! A client has a tag: the cost of the work that has been done for it. The client whose tag and next slice are the least goes first, and
//! the virtual time is the greatest tag that has been served. A client that comes back starts at its own tag, or at the virtual time less
//! [`ALLOWANCE`] if that is later: many small pieces, many connections and pauses gain nothing beyond the allowance, which a client
//! earns by having been quiet while others were served. So the pieces of a quiet client's small request wait for what is running, and
//! altogether for at most two slices more, however many clients are busy.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;

/// The cost of a slice that takes its whole time, in nanoseconds.
pub(crate) const SLICE_COST: u64 = 500_000;
/// The least cost of a turn: taking it costs something even if the work is over.
const TURN_COST_MIN: u64 = 1_000;
/// How far behind the virtual time a client may start: what a quiet client's small request may cost to go first in all its pieces.
const ALLOWANCE: u64 = 4 * SLICE_COST;
/// Cost of clients that are served by their allowance after which one of the others comes, if any waits: quiet clients without end delay
/// the busy ones, and stop none.
const ALLOWED_COST_MAX: u64 = 4 * SLICE_COST;
/// How often the cost of a busy client's work repays this cost.
const REPAYMENT: u64 = ALLOWED_COST_MAX / SLICE_COST;
/// Maximum number of clients without work that are remembered until the virtual time has passed their tags. Above it those that have used
/// the least are forgotten.
const IDLE_CLIENTS_MAX: usize = 10_000;
/// Turns of newcomers after which one of the others comes, if any waits, among the pieces of a client.
const NEWCOMERS_MAX: usize = 4;

/// The pieces of a client take turns: newcomers first, in the order of their arrival, then the others in rotation.
#[derive(Debug)]
struct Rotation<T> {
    newcomers: VecDeque<T>,
    others: VecDeque<T>,
    /// Newcomers since the last turn of another.
    passed: usize,
}

impl<T> Default for Rotation<T> {
    fn default() -> Self {
        Rotation { newcomers: VecDeque::new(), others: VecDeque::new(), passed: 0 }
    }
}

impl<T> Rotation<T> {
    fn push(&mut self, item: T, is_newcomer: bool) {
        let queue = if is_newcomer { &mut self.newcomers } else { &mut self.others };
        queue.push_back(item);
    }

    /// Whether a newcomer is next.
    fn prefers_newcomers(&self) -> bool {
        !self.newcomers.is_empty() && (self.passed < NEWCOMERS_MAX || self.others.is_empty())
    }

    fn first(&self) -> Option<&T> {
        if self.prefers_newcomers() { self.newcomers.front() } else { self.others.front() }
    }

    fn pop(&mut self) -> Option<T> {
        if self.prefers_newcomers() {
            self.passed += 1;
            return self.newcomers.pop_front();
        }
        self.passed = 0;
        self.others.pop_front()
    }
}

/// A piece of work, and the expected cost of its next slice: at most that of a whole one.
#[derive(Debug)]
struct Piece<T> {
    item: T,
    expected: u64,
}

/// The position of a client with waiting work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TurnPlace {
    /// The client's tag after its next slice.
    finish: u64,
    /// Breaks ties: first come, first served.
    number: u64,
    client: IpAddr,
}

/// The account of a client.
#[derive(Debug)]
struct Account<T> {
    waiting: Rotation<Piece<T>>,
    /// Pieces that run now. Their expected costs are part of the tag.
    running: usize,
    tag: u64,
    /// The position while work waits, and whether it is among those that are ahead by their allowance.
    place: Option<(TurnPlace, bool)>,
}

/// Waiting work of all clients.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    clients: HashMap<IpAddr, Account<T>>,
    virtual_time: u64,
    /// Clients with waiting work whose tags are behind the virtual time by more than the order of busy clients explains.
    allowed: BTreeSet<TurnPlace>,
    /// The other clients with waiting work.
    busy: BTreeSet<TurnPlace>,
    /// Clients without work, by their tags.
    idle: BTreeSet<(u64, IpAddr)>,
    /// Pieces that run now, of all clients.
    running: usize,
    /// Cost of clients ahead by their allowance that has not been repaid to the others.
    allowed_cost: u64,
    number: u64,
}

/// A turn that has begun.
#[derive(Debug)]
pub(crate) struct Turn {
    client: IpAddr,
    expected: u64,
    is_allowed: bool,
    /// The client's tag before the turn, if work of clients that are far behind it may interrupt the turn.
    tag: Option<u64>,
}

impl Turn {
    /// Whether the turn should end early for a client that arrives with this tag.
    pub(crate) fn yields_to(&self, arrived: u64) -> bool {
        self.tag.is_some_and(|tag| arrived.saturating_add(SLICE_COST) < tag)
    }
}

impl<T> Turns<T> {
    pub(crate) fn new() -> Self {
        Turns {
            clients: HashMap::new(),
            // The first clients are as new as any later one.
            virtual_time: ALLOWANCE,
            allowed: BTreeSet::new(),
            busy: BTreeSet::new(),
            idle: BTreeSet::new(),
            running: 0,
            allowed_cost: 0,
            number: 0,
        }
    }

    /// Adds a new piece of work of this expected cost. Returns the tag of its client.
    pub(crate) fn push(&mut self, client: IpAddr, item: T, expected: u64) -> u64 {
        let start = self.virtual_time.saturating_sub(ALLOWANCE);
        let account = self.clients.entry(client).or_insert_with(|| Account {
            waiting: Rotation::default(),
            running: 0,
            tag: start,
            place: None,
        });
        self.idle.remove(&(account.tag, client));
        account.tag = account.tag.max(start);
        account.waiting.push(Piece { item, expected: expected.min(SLICE_COST) }, true);
        let tag = account.tag;
        self.place(client);
        tag
    }

    /// Whether a client with waiting work is ahead by its allowance.
    pub(crate) fn has_allowed(&self) -> bool {
        !self.allowed.is_empty()
    }

    /// Whether work waits.
    #[cfg(test)]
    pub(crate) fn has_waiting(&self) -> bool {
        !(self.allowed.is_empty() && self.busy.is_empty())
    }

    /// The next piece of work, which runs from now on.
    pub(crate) fn pop(&mut self) -> Option<(Turn, T)> {
        let is_due = self.allowed_cost >= ALLOWED_COST_MAX && !self.busy.is_empty();
        let allowed = self.allowed.first().filter(|_| !is_due);
        let (place, is_allowed) = match (allowed, self.busy.first()) {
            (Some(allowed), Some(busy)) if busy < allowed => (busy, false),
            (Some(allowed), _) => (allowed, true),
            (None, busy) => (busy?, false),
        };
        let client = place.client;
        let account = self.clients.get_mut(&client).expect("a client in the order has an account");
        let Piece { item, expected } = account.waiting.pop().expect("a client in the order has waiting work");
        let tag = account.tag;
        self.virtual_time = self.virtual_time.max(tag);
        account.tag += expected;
        account.running += 1;
        self.running += 1;
        self.place(client);
        Some((Turn { client, expected, is_allowed, tag: (!is_due).then_some(tag) }, item))
    }

    /// Ends a turn that had this cost: `rest` is what is left of the work.
    pub(crate) fn end_turn(&mut self, turn: Turn, rest: Option<T>, cost: u64) {
        let Turn { client, expected, is_allowed, .. } = turn;
        let cost = cost.max(TURN_COST_MIN);
        self.allowed_cost = match is_allowed {
            true if self.busy.is_empty() => 0,
            // No more than one turn is owed at a time.
            true => self.allowed_cost.saturating_add(cost).min(ALLOWED_COST_MAX),
            false => self.allowed_cost.saturating_sub(cost.saturating_mul(REPAYMENT)),
        };
        self.running -= 1;
        let account = self.clients.get_mut(&client).expect("a client whose work runs is kept");
        account.running -= 1;
        account.tag = (account.tag - expected).saturating_add(cost);
        if let Some(item) = rest {
            // It is longer than was expected, or was interrupted.
            account.waiting.push(Piece { item, expected: SLICE_COST }, false);
        }
        self.place(client);
        self.forget();
    }

    /// Puts a client where its tag and its next slice belong.
    fn place(&mut self, client: IpAddr) {
        let account = self.clients.get_mut(&client).expect("only clients with accounts are placed");
        if let Some((place, is_allowed)) = account.place.take() {
            let set = if is_allowed { &mut self.allowed } else { &mut self.busy };
            set.remove(&place);
        }
        let Some(first) = account.waiting.first() else {
            if account.running == 0 {
                self.idle.insert((account.tag, client));
            }
            return;
        };
        self.number += 1;
        let place = TurnPlace { finish: account.tag.saturating_add(first.expected), number: self.number, client };
        // Among busy clients no tag is behind the virtual time by more than a slice, because the next one is chosen with its slice.
        let is_allowed = account.tag.saturating_add(SLICE_COST) < self.virtual_time;
        let set = if is_allowed { &mut self.allowed } else { &mut self.busy };
        set.insert(place);
        account.place = Some((place, is_allowed));
    }

    /// Forgets clients without work that would begin like new ones, and all of them if there is no competition.
    fn forget(&mut self) {
        let is_idle = self.running == 0 && self.allowed.is_empty() && self.busy.is_empty();
        while let Some(&(tag, client)) = self.idle.first() {
            let is_new = tag.saturating_add(ALLOWANCE) <= self.virtual_time;
            if !(is_idle || is_new || self.idle.len() > IDLE_CLIENTS_MAX) {
                return;
            }
            self.idle.pop_first();
            self.clients.remove(&client);
        }
        if is_idle {
            self.allowed_cost = 0;
        }
    }
}

#[cfg(test)]
mod tests;
