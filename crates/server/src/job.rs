//! A request as the pool sees it: steps of the service, with the cancellation looked at before each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fieldseal_engine::pool::{Abandoned, Cancellation, Job, Rejection, Slice, Stop, Turn};
use fieldseal_protocol::{ErrorCode, Limits, Scanner};

use crate::hub::Share;
use crate::interface::{Request, Step};
use crate::outbox::Reply;

/// Steps follow one another without a look at the queue until this much time is used: short steps are not worth one.
const SLICE_TIME: Duration = Duration::from_micros(25);

pub(crate) struct RequestJob {
    work: Mutex<Work>,
}

struct Work {
    /// Taken, and so freed, as soon as the request is answered.
    request: Option<Box<dyn Request>>,
    out: Vec<u8>,
    /// What `out` takes of the memory for answers.
    share: Share,
    cancellation: Arc<Cancellation>,
    reply: Reply,
}

impl RequestJob {
    /// `share` is an empty one.
    pub(crate) fn new(request: Box<dyn Request>, cancellation: Arc<Cancellation>, share: Share, reply: Reply) -> Self {
        let work = Work { request: Some(request), out: Vec::new(), share, cancellation, reply };
        RequestJob { work: Mutex::new(work) }
    }

    /// Answers a request that has not been admitted and is not wanted any more.
    pub(crate) fn stop(&self, stop: Stop) {
        self.lock().stop(stop);
    }

    /// One worker at a time has the turn, so nobody ever waits here.
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work {
    /// Frees the request before anybody learns that it has ended.
    fn free(&mut self) {
        self.request = None;
        self.out = Vec::new();
        drop(self.share.take());
    }

    fn stop(&mut self, stop: Stop) -> Slice {
        self.free();
        match stop {
            Stop::Cancelled => self.reply.fail(ErrorCode::Cancelled, "the request was cancelled"),
            Stop::DeadlineExceeded => {
                self.reply.fail(ErrorCode::DeadlineExceeded, "the deadline passed before the work was done");
            }
        }
        Slice::Done
    }

    fn starve(&mut self) -> Slice {
        self.free();
        self.reply.fail(ErrorCode::Overloaded, "the engine holds too many bytes of answers");
        Slice::Done
    }

    fn finish(&mut self) -> Slice {
        self.request = None;
        let mut answer = std::mem::take(&mut self.out);
        if answer.is_empty() {
            self.free();
            tracing::error!("the service wrote no answer");
            self.reply.fail(ErrorCode::Internal, "the engine wrote no answer");
            return Slice::Done;
        }
        debug_assert!(is_one_message(&answer), "the service writes exactly one message");
        // The answer may wait long for a slow reader: it shall not hold much more than its own bytes.
        if answer.capacity() / 2 > answer.len() {
            answer.shrink_to_fit();
            self.share.resize(answer.capacity()).expect("a share may always shrink");
        }
        self.reply.send(answer, self.share.take());
        Slice::Done
    }

    fn run_slice(&mut self) -> Slice {
        let began = Instant::now();
        let mut now = began;
        loop {
            if let Err(stop) = self.cancellation.check(now) {
                return self.stop(stop);
            }
            let request = self.request.as_mut().expect("no slice follows the answer");
            let step = request.step(&mut self.out);
            if self.share.resize(self.out.capacity()).is_err() {
                return self.starve();
            }
            if step == Step::Done {
                return self.finish();
            }
            now = Instant::now();
            if now - began >= SLICE_TIME {
                return Slice::More;
            }
        }
    }

    fn abandoned(&mut self, cause: Abandoned) {
        self.free();
        match cause {
            Abandoned::Rejected(Rejection::Overloaded(_)) => {
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

impl Job for RequestJob {
    fn run_slice(&self, _turn: &Turn<'_>) -> Slice {
        self.lock().run_slice()
    }

    fn abandoned(&self, cause: Abandoned) {
        self.lock().abandoned(cause);
    }
}

fn is_one_message(bytes: &[u8]) -> bool {
    let limits = Limits { frame_size_max: usize::MAX, elements_max: u32::MAX, ..Limits::default() };
    Scanner::new(limits).scan(bytes) == Ok(Some(bytes.len()))
}
