//! A request as its job sees it: first its beginning, which joins its frame, reads its parameters and checks the caller's permission,
//! then the work, which may spread over several workers.

use std::time::Duration;

use leafseal_protocol::{ErrorCode, ErrorObject};

/// The beginning of a request, on one worker.
pub trait Request: Send {
    /// Runs one step of about 50 µs, at most 200. `out` is the buffer that the work continues to write, or contains the complete answer on
    /// [`Begun::Done`].
    ///
    /// A step that lacks something which is being looked up fails, after it has requested that its job is parked
    /// ([`park_job`](leafseal_engine::pool::park_job)): it must leave the request as it was, and is repeated.
    ///
    /// # Errors
    /// The request's answer. The content of `out` is dropped.
    fn begin(&mut self, out: &mut Vec<u8>) -> Result<BegunRequest, ErrorObject>;

    /// The counted work of the next step; `None` if it is not known, or not to be done on the thread that submits the request: the step may
    /// need the store, or be long. A step that finds that it needs a key agreement, and has changed nothing yet, is handed over
    /// ([`hand_over`](leafseal_engine::pool::hand_over)).
    fn counted_work(&self) -> Option<Duration> {
        None
    }

    /// Bytes of working memory, besides its frame, read after each step.
    fn memory(&self) -> usize {
        0
    }
}

/// The result of a step of the beginning.
pub enum BegunRequest {
    /// More steps follow.
    More,
    /// The rest is done by this, which replaces the request.
    Next(RequestStage),
    /// The response is complete.
    Done,
}

/// How far a request has come.
pub enum RequestStage {
    /// It has not begun its work.
    Beginning(Box<dyn Request>),
    /// It works.
    Working {
        /// Its work.
        work: Box<dyn RequestWork>,
        /// Maximum size of the answer in bytes.
        answer_size_max: usize,
        /// Whether the work itself has set a lower maximum.
        is_limited: bool,
    },
}

impl RequestStage {
    /// A request that has not begun its work.
    pub fn beginning(request: impl Request + 'static) -> Self {
        RequestStage::Beginning(Box::new(request))
    }

    /// A request that works, with an answer of any size.
    pub fn working(work: impl RequestWork + 'static) -> Self {
        RequestStage::limited(Box::new(work), usize::MAX)
    }

    /// A request that works, with an answer of at most this many bytes.
    pub fn limited(work: Box<dyn RequestWork>, answer_size_max: usize) -> Self {
        RequestStage::Working { work, answer_size_max, is_limited: false }
    }

    /// The counted work of its next step, if it is known and may be done on the thread that submits it.
    pub fn counted_work(&self) -> Option<Duration> {
        match self {
            RequestStage::Beginning(request) => request.counted_work(),
            RequestStage::Working { work, .. } => work.counted_work(),
        }
    }

    /// Runs one step of the request on its own, as [`Request::begin`] or [`RequestWork::step`].
    ///
    /// # Errors
    /// The request's answer. The content of `out` is dropped.
    pub fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject> {
        let step = match self {
            RequestStage::Beginning(request) => match request.begin(out)? {
                BegunRequest::More => return Ok(RequestStep::More),
                BegunRequest::Done => return Ok(RequestStep::Done),
                BegunRequest::Next(next) => {
                    *self = next;
                    RequestStep::More
                }
            },
            RequestStage::Working { work, answer_size_max, is_limited } => match work.step(out)? {
                RequestStep::Spread { answer_size_max: own } => {
                    *is_limited = own < *answer_size_max;
                    RequestStep::Spread { answer_size_max: own.min(*answer_size_max) }
                }
                step => step,
            },
        };
        match self {
            RequestStage::Working { answer_size_max, .. } if out.len() > *answer_size_max => {
                Err(answer_too_large(*answer_size_max))
            }
            _ => Ok(step),
        }
    }

    /// The work of a request that has spread.
    ///
    /// # Panics
    /// If it has not begun its work.
    pub fn work(&mut self) -> &mut dyn RequestWork {
        match self {
            RequestStage::Working { work, .. } => &mut **work,
            RequestStage::Beginning(_) => panic!("a request has parts once it has spread"),
        }
    }

    /// The error of a request whose parts exceed the size of its answer.
    pub fn too_large(&self) -> ErrorObject {
        match self {
            RequestStage::Working { work, is_limited: true, .. } => work.too_large(),
            RequestStage::Working { answer_size_max, .. } => answer_too_large(*answer_size_max),
            RequestStage::Beginning(_) => panic!("a request has parts once it has spread"),
        }
    }

    /// The number of values that its own steps have encrypted, decrypted or rewrapped.
    pub fn fields(&self) -> u64 {
        match self {
            RequestStage::Working { work, .. } => work.fields(),
            RequestStage::Beginning(_) => 0,
        }
    }

    /// Bytes of working memory, besides its frame and its answer.
    pub fn memory(&self) -> usize {
        match self {
            RequestStage::Working { work, .. } => work.memory(),
            RequestStage::Beginning(request) => request.memory(),
        }
    }
}

/// The error of an answer that exceeds the service's limit.
pub(crate) fn answer_too_large(limit: usize) -> ErrorObject {
    let message = format!("the answer exceeds the limit of {limit} bytes: send less at a time");
    ErrorObject::new(ErrorCode::TooLarge, message)
}

/// The work of a request. Dropped as soon as it is done, cancelled or late.
///
/// It starts on one worker: [`RequestWork::step`] is called until it is done or spreads. A request that spreads has parts, which several
/// workers run at the same time while one of them plans the next; the answer is the output of the steps, then that of each part in order,
/// then that of [`RequestWork::finish`]. A panic is answered with `internal`.
pub trait RequestWork: Send {
    /// Runs one step of about 50 µs, at most 200. On [`Step::Done`], `out` contains exactly one complete response message with the
    /// request's id, on [`Step::Spread`] the beginning of one; until then the content of `out` is up to the request, and the same buffer is
    /// passed to the next step.
    ///
    /// A step that lacks something which is being looked up fails, after it has requested that its job is parked
    /// ([`park_job`](leafseal_engine::pool::park_job)): it must leave the request as it was, and is repeated.
    ///
    /// # Errors
    /// The request's answer. The content of `out` is dropped.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject>;

    /// As [`Request::counted_work`].
    fn counted_work(&self) -> Option<Duration> {
        None
    }

    /// Plans the next part, which follows all planned ones. Called only after [`Step::Spread`], and not after it has returned the last part
    /// or an error. It must take much less time than a part, because other workers may wait for the next one.
    ///
    /// # Errors
    /// The request's answer, unless an earlier part fails.
    fn next_part(&mut self) -> Result<PlannedRequest, ErrorObject> {
        Ok(PlannedRequest::None)
    }

    /// Runs the next part, or a step of it, without planning: for a worker that no other would join, which saves the cost of planning.
    /// Called only when [`RequestWork::next_part`] may be, and in any order with it. Its output in `out`, an empty buffer, follows all
    /// planned parts. Returns `None` without doing anything if the request does not support this, now or ever.
    ///
    /// # Errors
    /// As [`RequestPart::step`].
    fn step_unplanned(&mut self, _out: &mut Vec<u8>) -> Option<Result<PartStep, ErrorObject>> {
        None
    }

    /// Completes an answer whose parts are all done: `head` is what the steps wrote, `written` describes the output of all parts and steps;
    /// what is appended to `tail` ends the message.
    fn finish(&mut self, _head: &mut Vec<u8>, _written: WrittenOutput, _tail: &mut Vec<u8>) {}

    /// The error of a request that spread, if its parts exceed the size that it then allowed.
    fn too_large(&self) -> ErrorObject {
        ErrorObject::new(ErrorCode::TooLarge, "the answer is too large")
    }

    /// The number of values that its own steps have encrypted, decrypted or rewrapped; read when it ends, successful or not.
    fn fields(&self) -> u64 {
        0
    }

    /// Bytes of working memory, besides its frame and its answer, that can grow with the request. Read after each of its own steps and each
    /// planning call; they count towards the memory for answers until it ends.
    fn memory(&self) -> usize {
        0
    }
}

/// A part of a request, which one worker runs. It owns its inputs or shares them with the others.
pub trait RequestPart: Send {
    /// Runs one step, as [`RequestWork::step`], and appends to `out`, which belongs to this part.
    ///
    /// # Errors
    /// The request's answer, unless an earlier part fails.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject>;

    /// The number of values that it has encrypted, decrypted or rewrapped; read when it ends, successful or not.
    fn fields(&self) -> u64 {
        0
    }
}

/// The combined output of a request's steps and parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenOutput {
    /// Bytes.
    pub size: usize,
    /// Values encrypted, decrypted or rewrapped.
    pub fields: u64,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStep {
    /// More steps follow.
    More,
    /// The rest is done in parts.
    Spread {
        /// Maximum size of the answer in bytes.
        answer_size_max: usize,
    },
    /// The response is complete.
    Done,
}

/// The result of a step of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartStep {
    /// More steps follow.
    More,
    /// The part is complete.
    Done,
}

/// The result of planning.
pub enum PlannedRequest {
    /// A part; more remain to be planned.
    Part(Box<dyn RequestPart>),
    /// The last part.
    Last(Box<dyn RequestPart>),
    /// No part yet: planning took a step by itself.
    Nothing,
    /// No more parts.
    None,
}
