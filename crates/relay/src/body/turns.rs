//! The order in which waiting pieces of work run: in turn by client, and the pieces of one client in turn. Pure: no threads, no clock.
//!
//! A client that had nothing to do goes before those that are busy, and so does a new piece of work of a client before its old ones. So a
//! small piece of a quiet client waits for what is running, and for at most one turn of a busy client, however many these are.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Turns of newcomers after which one of the others comes, if any waits: a stream of newcomers delays the others, and stops none.
const NEWCOMERS_MAX: usize = 4;

/// Items that take turns: newcomers first, in the order of their arrival, then the others in rotation.
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

    fn pop(&mut self) -> Option<T> {
        let prefers_others = self.passed >= NEWCOMERS_MAX && !self.others.is_empty();
        let newcomer = if prefers_others { None } else { self.newcomers.pop_front() };
        self.passed = if newcomer.is_some() { self.passed + 1 } else { 0 };
        newcomer.or_else(|| self.others.pop_front())
    }

    fn is_empty(&self) -> bool {
        self.newcomers.is_empty() && self.others.is_empty()
    }
}

/// The work of one client.
#[derive(Debug)]
struct Work<T> {
    waiting: Rotation<T>,
    /// Pieces that run now.
    running: usize,
}

/// Waiting work of all clients.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    clients: HashMap<IpAddr, Work<T>>,
    /// Clients with waiting work, each once.
    order: Rotation<IpAddr>,
}

impl<T> Turns<T> {
    pub(crate) fn new() -> Self {
        Turns { clients: HashMap::new(), order: Rotation::default() }
    }

    /// Adds a new piece of work.
    pub(crate) fn push(&mut self, client: IpAddr, item: T) {
        let is_newcomer = !self.clients.contains_key(&client);
        self.wait(client, item, is_newcomer, true);
    }

    /// The next piece of work, which runs from now on, and its client.
    pub(crate) fn pop(&mut self) -> Option<(IpAddr, T)> {
        let client = self.order.pop()?;
        let work = self.clients.get_mut(&client).expect("a client in the order has work");
        let item = work.waiting.pop().expect("a client in the order has waiting work");
        work.running += 1;
        if !work.waiting.is_empty() {
            self.order.push(client, false);
        }
        Some((client, item))
    }

    /// Ends the turn of a piece of work: `rest` is what is left of it.
    pub(crate) fn end_turn(&mut self, client: IpAddr, rest: Option<T>) {
        if let Some(rest) = rest {
            self.wait(client, rest, false, false);
        }
        let work = self.clients.get_mut(&client).expect("a client whose work runs is kept");
        work.running -= 1;
        if work.running == 0 && work.waiting.is_empty() {
            self.clients.remove(&client);
        }
    }

    fn wait(&mut self, client: IpAddr, item: T, is_new_client: bool, is_new_item: bool) {
        let work = self.clients.entry(client).or_insert_with(|| Work { waiting: Rotation::default(), running: 0 });
        if work.waiting.is_empty() {
            self.order.push(client, is_new_client);
        }
        work.waiting.push(item, is_new_item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    /// Runs one turn; a piece of work is its name and the number of slices that it takes.
    fn turn(turns: &mut Turns<(&'static str, u32)>) -> Option<&'static str> {
        let (client, (name, slices)) = turns.pop()?;
        turns.end_turn(client, (slices > 1).then(|| (name, slices - 1)));
        Some(name)
    }

    #[test]
    fn clients_take_turns_however_much_work_each_has() {
        let mut turns = Turns::new();
        for _ in 0..100 {
            turns.push(client(1), ("busy", 1));
        }
        turns.push(client(2), ("other", 3));
        let order: Vec<_> = std::iter::from_fn(|| turn(&mut turns)).take(6).collect();
        assert_eq!(order, ["busy", "other", "busy", "other", "busy", "other"]);
    }

    #[test]
    fn quiet_clients_wait_for_few_slices_beside_any_number_of_busy_ones() {
        let mut turns = Turns::new();
        for number in 1..=200 {
            for _ in 0..50 {
                turns.push(client(number), ("busy", 1000));
            }
        }
        for _ in 0..1000 {
            turn(&mut turns);
        }
        // One slice runs while the request of the quiet client arrives; its five steps follow one another.
        for _ in 0..5 {
            let (running, item) = turns.pop().unwrap();
            turns.push(client(250), ("quiet", 1));
            turns.end_turn(running, Some(item));
            let waited = std::iter::from_fn(|| turn(&mut turns)).take_while(|name| *name != "quiet").count();
            assert!(waited <= 1, "{waited}");
        }
    }

    #[test]
    fn work_that_arrives_without_end_stops_no_other() {
        let mut turns = Turns::new();
        turns.push(client(1), ("busy", 1000));
        turn(&mut turns);
        let mut served = 0;
        for number in 0..100 {
            turns.push(client(2 + number), ("new", 1));
            turns.push(client(102 + number), ("new", 1));
            served += usize::from(turn(&mut turns) == Some("busy"));
        }
        assert_eq!(served, 20, "one turn in five");
    }

    #[test]
    fn a_client_is_not_quiet_while_its_work_runs() {
        let mut turns = Turns::new();
        turns.push(client(1), ("running", 1));
        let (running, _) = turns.pop().unwrap();
        turns.push(client(2), ("busy", 2));
        turn(&mut turns);
        turns.push(client(1), ("second", 1));
        turns.end_turn(running, None);
        assert_eq!(turn(&mut turns), Some("busy"));
        assert_eq!(turn(&mut turns), Some("second"));
        assert_eq!(turn(&mut turns), None);
        assert!(turns.clients.is_empty());
    }

    /// Behind a balancer many users are one client.
    #[test]
    fn a_new_piece_of_work_goes_before_old_ones_of_its_client() {
        let mut turns = Turns::new();
        for _ in 0..10 {
            turns.push(client(1), ("long", 100));
        }
        for _ in 0..40 {
            turn(&mut turns);
        }
        turns.push(client(1), ("small", 1));
        let waited = std::iter::from_fn(|| turn(&mut turns)).take_while(|name| *name != "small").count();
        assert!(waited <= 1, "{waited}");
    }
}
