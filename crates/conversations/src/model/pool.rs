//! The connections that calls may begin on, the places that are avoided, and the calls that wait.

use super::calls::ModelStage;
use super::{DialKind, Model, ModelEvent};

/// A connection that was opened, for ever.
pub(super) struct ModelConnection {
    pub(super) address: usize,
    /// The number of its attempt at the address, from 1.
    pub(super) number: usize,
    /// It takes new calls: it has not ended, and it does not drain.
    pub(super) is_usable: bool,
    pub(super) has_ended: bool,
    pub(super) has_answered: bool,
    /// The call of each request by arrival; none if it was cancelled. Removed with its answer.
    pub(super) requests: std::collections::BTreeMap<usize, Option<usize>>,
    /// The number of requests that were ever sent.
    pub(super) sent: usize,
}

/// Why, and for how long, a place is used only if there is no other.
#[derive(Clone, Copy)]
pub(super) struct ModelAvoidance {
    pub(super) until: u64,
    since: u64,
    until_success: bool,
}

impl Model<'_> {
    pub(super) fn is_avoided(&self, address: usize) -> bool {
        self.avoided.get(&address).is_some_and(|avoided| self.now < avoided.until)
    }

    /// Avoids a place if the rules say so for this event.
    pub(super) fn avoid_after(&mut self, address: usize, event: &str, code: &str) {
        let rule = self.rules.avoid.iter().find(|rule| rule.event == event && rule.code == code);
        let Some(until_success) = rule.map(|rule| rule.until_success) else { return };
        let lasts = self.is_avoided(address) && !self.avoided[&address].until_success;
        let until = self.now + self.rules.avoided_ms;
        let avoided = ModelAvoidance { until, since: self.now, until_success: until_success && !lasts };
        self.avoided.insert(address, avoided);
    }

    /// An engine has done a call that was sent at this time.
    pub(super) fn succeeded(&mut self, address: usize, sent: u64) {
        if self.avoided.get(&address).is_some_and(|avoided| avoided.until_success && avoided.since <= sent) {
            self.avoided.remove(&address);
        }
    }

    /// Whether a new connection may reach an engine that is not avoided.
    pub(super) fn may_dial_elsewhere(&self) -> bool {
        if self.dial.as_ref().is_some_and(|dial| dial.kind == DialKind::Elsewhere) {
            return true;
        }
        let is_some_fresh = (0..self.conversation.addresses.len()).any(|address| !self.is_avoided(address));
        let dialling = &self.dialling;
        self.now >= dialling.stuck_until
            && self.now >= dialling.failed_until
            && (is_some_fresh || self.now >= dialling.renewed_until)
    }

    pub(super) fn usable(&self) -> impl Iterator<Item = usize> {
        (0..self.connections.len()).filter(|index| self.connections[*index].is_usable)
    }

    /// An attempt of a call begins, or one that waits looks again.
    pub(super) fn begin(&mut self, call: usize) {
        let max = self.rules.requests_in_flight_max;
        let best = self.usable().min_by_key(|index| {
            let ModelConnection { address, requests, .. } = &self.connections[*index];
            let is_refused = self.calls[call].refused_by == Some(*index);
            (self.is_avoided(*address), requests.len() >= max, is_refused, requests.len(), *index)
        });
        let Some(best) = best else {
            if self.now < self.dialling.failed_until {
                self.stop_waiting(call);
                let error = self.dialling.failed_error.clone();
                return self.attempt_ends(call, &error, "", None);
            }
            self.wait(call);
            return self.start_dial(DialKind::Any);
        };
        if self.is_avoided(self.connections[best].address) && self.may_dial_elsewhere() {
            self.wait(call);
            return self.start_dial(DialKind::Elsewhere);
        }
        let in_flight = self.connections[best].requests.len();
        if in_flight > 0 && self.usable().count() < self.rules.connections_max {
            self.start_dial(DialKind::Any);
        }
        match in_flight < max {
            true => {
                let has_waited = self.calls[call].stage == ModelStage::Waiting;
                self.arrivals.push((self.now, best, has_waited));
                self.stop_waiting(call);
                self.send(call, best);
            }
            false => self.wait(call),
        }
    }

    fn wait(&mut self, call: usize) {
        if !self.waiting.contains(&call) {
            self.waiting.push(call);
            self.calls[call].stage = ModelStage::Waiting;
        }
    }

    pub(super) fn stop_waiting(&mut self, call: usize) {
        self.waiting.retain(|waiting| *waiting != call);
    }

    /// The calls that wait look again, in order.
    pub(super) fn pump(&mut self) {
        for call in self.waiting.clone() {
            self.begin(call);
        }
    }

    /// They do so now, but what else has the same cause may come before them.
    pub(super) fn pump_soon(&mut self) {
        self.push(self.now, ModelEvent::Pump);
    }

    /// No call begins on this connection from now on; it closes when none waits for an answer on it.
    pub(super) fn make_unusable(&mut self, connection: usize) {
        self.connections[connection].is_usable = false;
        self.close_if_idle(connection);
        self.pump_soon();
    }

    /// Closes a connection that is not usable and on which no call waits.
    pub(super) fn close_if_idle(&mut self, connection: usize) {
        let ModelConnection { is_usable, requests, has_ended, .. } = &self.connections[connection];
        if !is_usable && !has_ended && requests.values().all(Option::is_none) {
            self.close(connection);
        }
    }

    pub(super) fn close(&mut self, connection: usize) {
        self.connections[connection].has_ended = true;
        self.connections[connection].is_usable = false;
        self.write(format!("close {}", self.name(connection)));
    }

    /// How transcripts name a connection.
    pub(super) fn name(&self, connection: usize) -> String {
        let ModelConnection { address, number, .. } = &self.connections[connection];
        format!("{}#{number}", self.conversation.addresses[*address].name)
    }
}
