//! The engines of a conversation, and what reaches the client from them.

use super::calls::ModelStage;
use super::{Model, ModelEvent};
use crate::script::{Attempt, Timed};

impl Model<'_> {
    fn attempt(&self, connection: usize) -> &Attempt {
        let connection = &self.connections[connection];
        self.conversation.addresses[connection.address].attempt(connection.number)
    }

    pub(super) fn engine_opens(&mut self, connection: usize) {
        for event in &self.attempt(connection).events.clone() {
            let event = Timed::parse(event).expect("an event has a time");
            self.push(self.now + event.after, ModelEvent::Engine(connection, event));
        }
    }

    pub(super) fn engine_reads(&mut self, connection: usize, request: usize) {
        if let Some(answer) = self.attempt(connection).answer(request) {
            self.push(self.now + answer.after, ModelEvent::Answer(connection, request, answer));
        }
    }

    pub(super) fn answered(&mut self, connection: usize, request: usize, answer: &Timed) {
        if self.connections[connection].has_ended {
            return;
        }
        let call = self.connections[connection].requests.remove(&request).expect("answered once");
        self.connections[connection].has_answered = true;
        if let Some(call) = call {
            let ModelStage::Sent(_, _, sent) = self.calls[call].stage else { unreachable!("its request is in flight") };
            if answer.what == "ok" {
                self.call_succeeds(call, connection, sent);
            } else {
                self.avoid_after(self.connections[connection].address, "answer", &answer.what);
                self.attempt_ends(call, "answer", &answer.what, answer.retry_after);
            }
        }
        self.close_if_idle(connection);
        self.pump_soon();
    }

    pub(super) fn engine_does(&mut self, connection: usize, event: &Timed) {
        if self.connections[connection].has_ended {
            return;
        }
        let address = self.connections[connection].address;
        self.avoid_after(address, &event.what, &event.code);
        if self.connections[connection].is_usable {
            self.dialling.last_unusable = Some(self.connections[connection].has_answered);
        }
        match (&*event.what, &*event.code) {
            ("going_away", "closed") => self.ended(connection, "going_away", ""),
            ("going_away", _) => self.make_unusable(connection),
            ("close", _) => self.ended(connection, "connection_lost", ""),
            (what, code) => self.ended(connection, what, code),
        }
    }

    /// A connection has ended for all calls on it.
    fn ended(&mut self, connection: usize, event: &str, code: &str) {
        self.connections[connection].has_ended = true;
        self.connections[connection].is_usable = false;
        for call in std::mem::take(&mut self.connections[connection].requests).into_values().flatten() {
            self.push(self.now, ModelEvent::Failed(call, event.to_owned(), code.to_owned()));
        }
        self.pump_soon();
    }

    /// The answer to a cancelled request has not come.
    pub(super) fn overdue(&mut self, connection: usize, request: usize) {
        let is_outstanding = self.connections[connection].requests.contains_key(&request);
        if self.connections[connection].has_ended || !is_outstanding {
            return;
        }
        if self.connections[connection].is_usable {
            self.dialling.last_unusable = Some(self.connections[connection].has_answered);
        }
        self.close(connection);
        self.ended(connection, "connection_lost", "");
    }
}
