//! A request as the pool sees it: steps of the service, with the cancellation looked at before each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fieldseal_engine::pool::{Abandoned, Cancellation, Job, Rejection, Slice, Stop};
use fieldseal_protocol::{ErrorCode, Limits, Scanner};

use crate::interface::{Request, Step};
use crate::outbox::Reply;

/// Steps follow one another without a look at the queue until this much time is used: short steps are not worth one.
const SLICE_TIME: Duration = Duration::from_micros(25);

pub(crate) struct RequestJob {
    /// Taken, and so freed, as soon as the request is answered.
    request: Option<Box<dyn Request>>,
    out: Vec<u8>,
    cancellation: Arc<Cancellation>,
    reply: Reply,
}

impl RequestJob {
    pub(crate) fn new(request: Box<dyn Request>, cancellation: Arc<Cancellation>, reply: Reply) -> Self {
        RequestJob { request: Some(request), out: Vec::new(), cancellation, reply }
    }

    /// Frees the request before anybody learns that it has ended.
    fn stop(&mut self, stop: Stop) -> Slice {
        self.request = None;
        self.out = Vec::new();
        match stop {
            Stop::Cancelled => self.reply.fail(ErrorCode::Cancelled, "the request was cancelled"),
            Stop::DeadlineExceeded => {
                self.reply.fail(ErrorCode::DeadlineExceeded, "the deadline passed before the work was done");
            }
        }
        Slice::Done
    }

    fn finish(&mut self) -> Slice {
        self.request = None;
        let mut answer = std::mem::take(&mut self.out);
        if answer.is_empty() {
            tracing::error!("the service wrote no answer");
            self.reply.fail(ErrorCode::Internal, "the engine wrote no answer");
            return Slice::Done;
        }
        debug_assert!(is_one_message(&answer), "the service writes exactly one message");
        // The answer may wait long for a slow reader: it shall not hold much more than its own bytes.
        if answer.capacity() / 2 > answer.len() {
            answer.shrink_to_fit();
        }
        self.reply.send(answer);
        Slice::Done
    }
}

impl Job for RequestJob {
    fn run_slice(&mut self) -> Slice {
        let began = Instant::now();
        let mut now = began;
        loop {
            if let Err(stop) = self.cancellation.check(now) {
                return self.stop(stop);
            }
            let request = self.request.as_mut().expect("no slice follows the answer");
            if request.step(&mut self.out) == Step::Done {
                return self.finish();
            }
            now = Instant::now();
            if now - began >= SLICE_TIME {
                return Slice::More;
            }
        }
    }

    fn abandoned(&mut self, cause: Abandoned) {
        self.request = None;
        match cause {
            Abandoned::Rejected(Rejection::Overloaded) => {
                self.reply.fail(ErrorCode::Overloaded, "the queue is full");
            }
            Abandoned::Rejected(Rejection::ShuttingDown) | Abandoned::ShutDown => {
                self.reply.fail(ErrorCode::Unavailable, "the engine is shutting down");
            }
            // The reply answers by itself when it is dropped.
            Abandoned::Panicked => tracing::error!("a request panicked"),
        }
    }
}

fn is_one_message(bytes: &[u8]) -> bool {
    let limits = Limits { frame_size_max: usize::MAX, elements_max: u32::MAX, ..Limits::default() };
    Scanner::new(limits).scan(bytes) == Ok(Some(bytes.len()))
}
