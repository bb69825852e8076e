//! Connections that are being opened: at most one at a time, whichever call caused it.

use super::pool::ModelConnection;
use super::{DialKind, Model, ModelEvent};
use crate::script::Timed;

/// The results of earlier dials.
pub(super) struct ModelDialling {
    pub(super) next_address: usize,
    pub(super) dial_failures: u32,
    pub(super) failed_until: u64,
    pub(super) failed_error: String,
    pub(super) stuck_failures: u32,
    pub(super) stuck_until: u64,
    pub(super) renewed_until: u64,
    /// Whether the last connection that became unusable had answered; none if a dial has begun since then.
    pub(super) last_unusable: Option<bool>,
    pub(super) unused_in_a_row: u32,
    /// Attempts to each address.
    attempts: Vec<usize>,
}

impl ModelDialling {
    pub(super) fn new(addresses: usize) -> Self {
        ModelDialling {
            next_address: 0,
            dial_failures: 0,
            failed_until: 0,
            failed_error: String::new(),
            stuck_failures: 0,
            stuck_until: 0,
            renewed_until: 0,
            last_unusable: None,
            unused_in_a_row: 0,
            attempts: vec![0; addresses],
        }
    }
}

/// A dial that runs.
pub(super) struct Dial {
    pub(super) kind: DialKind,
    /// The addresses that it tries; empty during the pause before.
    order: Vec<usize>,
    /// Those that were not avoided when it began to try.
    fresh: Vec<usize>,
    tried: usize,
    errors: Vec<String>,
}

impl Model<'_> {
    pub(super) fn start_dial(&mut self, kind: DialKind) {
        if self.dial.is_some() || self.now < self.dialling.failed_until {
            return;
        }
        self.dial = Some(Dial { kind, order: Vec::new(), fresh: Vec::new(), tried: 0, errors: Vec::new() });
        let mut pause = 0;
        let last_unusable = self.dialling.last_unusable.take();
        if last_unusable.is_some() {
            self.dialling.next_address = self.random_address();
        }
        match last_unusable {
            Some(true) => self.dialling.unused_in_a_row = 0,
            Some(false) => {
                if let Some(earlier) = self.dialling.unused_in_a_row.checked_sub(1) {
                    pause = self.backoff(earlier);
                }
                self.dialling.unused_in_a_row += 1;
            }
            None => {}
        }
        match pause {
            0 => self.dial(),
            _ => self.push(self.now + pause, ModelEvent::Dial),
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
    fn random_address(&self) -> usize {
        let count = self.conversation.addresses.len();
        (self.conversation.random * count as f64) as usize % count
    }

    /// Chooses the addresses, and connects to the first.
    pub(super) fn dial(&mut self) {
        let count = self.conversation.addresses.len();
        let mut order: Vec<usize> = (0..count).map(|step| (self.dialling.next_address + step) % count).collect();
        order.sort_by_key(|address| {
            let usable = self.usable().filter(|index| self.connections[*index].address == *address);
            (self.is_avoided(*address), usable.count())
        });
        let fresh: Vec<usize> = order.iter().copied().filter(|address| !self.is_avoided(*address)).collect();
        let dial = self.dial.as_mut().expect("a dial runs");
        if fresh.is_empty() {
            self.dialling.renewed_until = self.now + self.rules.avoided_ms;
        } else if dial.kind == DialKind::Elsewhere {
            order.clone_from(&fresh);
        }
        (dial.order, dial.fresh) = (order, fresh);
        self.connect();
    }

    fn connect(&mut self) {
        let dial = self.dial.as_ref().expect("a dial runs");
        let address = dial.order[dial.tried];
        self.dialling.next_address = address + 1;
        self.dialling.attempts[address] += 1;
        let number = self.dialling.attempts[address];
        let address = &self.conversation.addresses[address];
        self.write(format!("connect {}", address.name));
        let limit = self.rules.connect_timeout_ms;
        let outcome = Timed::parse(&address.attempt(number).outcome).filter(|timed| timed.after < limit);
        let (after, outcome) = match outcome {
            Some(timed) if timed.what == "refuse" => (timed.after, "connect_failed".to_owned()),
            Some(timed) => (timed.after, timed.what),
            None => (limit, "connect_failed".to_owned()),
        };
        self.push(self.now + after, ModelEvent::Dialled(outcome));
    }

    /// An attempt has ended.
    pub(super) fn dialled(&mut self, outcome: &str) {
        let dial = self.dial.as_mut().expect("a dial runs");
        let address = dial.order[dial.tried];
        if outcome == "accept" {
            let is_fresh = dial.fresh.contains(&address);
            let has_missed = !is_fresh && !dial.fresh.is_empty();
            self.dial = None;
            self.dialling.dial_failures = 0;
            self.dialling.failed_until = 0;
            if is_fresh {
                self.dialling.stuck_failures = 0;
                self.dialling.stuck_until = 0;
            }
            if has_missed {
                self.be_stuck();
            }
            self.opened(address);
            return self.pump();
        }
        dial.errors.push(outcome.to_owned());
        dial.tried += 1;
        if dial.tried < dial.order.len() {
            return self.connect();
        }
        let dial = self.dial.take().expect("a dial runs");
        if !dial.fresh.is_empty() {
            self.be_stuck();
        }
        if dial.order.len() == self.conversation.addresses.len() {
            let passes = dial.errors.iter().rfind(|error| *error == "connect_failed");
            self.dialling.failed_error = passes.or(dial.errors.last()).expect("an address").clone();
            self.dialling.failed_until = self.now + self.backoff(self.dialling.dial_failures);
            self.dialling.dial_failures += 1;
        }
        self.pump();
    }

    /// No engine that is not avoided could be reached.
    fn be_stuck(&mut self) {
        self.dialling.stuck_until = self.now + self.backoff(self.dialling.stuck_failures);
        self.dialling.stuck_failures += 1;
    }

    fn opened(&mut self, address: usize) {
        let opened = self.connections.len();
        self.connections.push(ModelConnection {
            address,
            number: self.dialling.attempts[address],
            is_usable: true,
            has_ended: false,
            has_answered: false,
            requests: std::collections::BTreeMap::new(),
            sent: 0,
        });
        self.write(format!("opened {}", self.name(opened)));
        self.engine_opens(opened);
        self.replace_avoided(opened);
    }

    /// Drops connections to avoided engines that a new one replaces.
    fn replace_avoided(&mut self, opened: usize) {
        let address = self.connections[opened].address;
        if self.is_avoided(address) {
            let older: Vec<usize> = self.usable().filter(|index| *index != opened).collect();
            for connection in
                older.into_iter().filter(|index| self.connections[*index].address == address).collect::<Vec<_>>()
            {
                self.make_unusable(connection);
            }
            self.avoided.remove(&address);
        }
        if self.usable().count() > self.rules.connections_max {
            let avoided = self.usable().filter(|index| self.is_avoided(self.connections[*index].address));
            if let Some(least) = avoided.min_by_key(|index| (self.connections[*index].requests.len(), *index)) {
                self.make_unusable(least);
            }
        }
    }
}
