//! A request as a job of the pool: the request's own steps first, then its parts, on as many workers as are available. The cancellation is
//! checked before each step, and no lock is held while one runs.

mod inline;
mod outputs;
mod parking;
mod replies;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leafseal_engine::pool::{
    Abandoned, Cancellation, Job, Parking, Rejection, Slice, SliceTurn, StopReason, take_hand_over, take_parking,
    take_yield,
};
use leafseal_protocol::{ErrorCode, ErrorObject};

use crate::memory::{Exhausted, Share};
use crate::reply::{Effort, Reply};
use crate::rope::{FREED_BUFFERS_MAX, Rope};
use crate::work::{PartStep, PlannedRequest, RequestPart, RequestStage, RequestStep, WrittenOutput};
use outputs::JobOutputs;
use replies::{answer, refuse, shrink};

/// Steps run one after another without checking the queue until this much time is used: short steps do not justify a check.
pub const SLICE_TIME: Duration = Duration::from_micros(50);
/// The part number of faults of a request as a whole, which precede all its parts.
const WHOLE: u64 = 0;
const FIRST_PART: u64 = 1;

/// A request in the pool.
pub struct RequestJob {
    cancellation: Arc<Cancellation>,
    state: Mutex<JobState>,
}

struct JobState {
    /// `None` while a worker runs it, and after the end.
    request: Option<RequestStage>,
    phase: Phase,
    outputs: JobOutputs,
    /// The number of the first of the parts in `held`.
    first: u64,
    /// Workers that run the request or a part of it.
    busy: usize,
    /// How a failed request ends, and the part that causes it: nothing after that part is needed.
    ending: Option<(u64, Ending)>,
    answer_size_max: usize,
    /// Memory of all buffers, including those that workers use, and the request's working memory, with the share of the memory for answers
    /// that covers both.
    bytes: usize,
    /// The working memory in `bytes`, as last reported.
    working: usize,
    share: Share,
    /// Since when it has waited for what is being looked up, in all steps without one that lacks nothing.
    parked_since: Option<Instant>,
    /// The work done so far, except for the request's own steps and paused parts.
    effort: Effort,
    /// Taken when the answer is sent.
    reply: Option<Reply>,
}

/// The progress of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Runs its own steps.
    Alone,
    /// Its parts are being planned, or run without a plan.
    Spreading,
    /// All its parts are planned.
    Planned,
    /// It has written the answer itself.
    Written,
    /// It has ended.
    Ended,
}

/// How a failed request ends.
enum Ending {
    /// The service returned an error. Boxed, because it is rare and large.
    Fault(Box<ErrorObject>),
    /// The parts together exceed the answer's limit.
    TooLarge,
    /// It is not needed any more.
    Stop(StopReason),
    /// There is no memory for its answer.
    OutOfMemory,
    /// A missing entry could not be looked up in time.
    NotFoundInTime,
}

impl From<ErrorObject> for Ending {
    fn from(error: ErrorObject) -> Self {
        Ending::Fault(Box::new(error))
    }
}

/// A part that has started.
struct RunningPart {
    number: u64,
    part: Box<dyn RequestPart>,
    out: Vec<u8>,
}

/// A worker's next action, without the lock.
enum WorkerTask {
    Step(RequestStage, Vec<u8>),
    Plan(RequestStage),
    Work(RunningPart, OtherWorkers),
    /// Buffers that are not needed, to be freed.
    Free(Vec<Vec<u8>>),
    End(Remains),
    Leave(Slice),
}

/// Whether other workers could join.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OtherWorkers {
    Needed,
    NotNeeded,
}

/// The remains of a request that has ended, after its last worker.
struct Remains {
    request: RequestStage,
    phase: Phase,
    ending: Option<Ending>,
    outputs: JobOutputs,
    effort: Effort,
}

impl RequestJob {
    /// Creates a job; `share` is empty.
    pub fn new(request: RequestStage, cancellation: Arc<Cancellation>, share: Share, reply: Reply) -> Self {
        let state = JobState {
            request: Some(request),
            phase: Phase::Alone,
            outputs: JobOutputs::default(),
            first: FIRST_PART,
            busy: 0,
            ending: None,
            answer_size_max: usize::MAX,
            bytes: 0,
            working: 0,
            parked_since: None,
            share,
            effort: Effort::default(),
            reply: Some(reply),
        };
        RequestJob { cancellation, state: Mutex::new(state) }
    }

    /// Answers a request that has not been admitted and is not needed any more.
    pub fn stop(&self, stop: StopReason) {
        if let Some((reply, effort)) = self.free() {
            refuse(Ending::Stop(stop), effort, reply);
        }
    }

    /// Drops everything except the obligation to answer, if it remains, which is returned with the work done so far.
    fn free(&self) -> Option<(Reply, Effort)> {
        let mut state = self.lock();
        let (request, outputs, share) = (state.request.take(), std::mem::take(&mut state.outputs), state.share.take());
        let (reply, mut effort) = (state.reply.take(), state.effort);
        drop(state);
        effort.fields += request.as_ref().map_or(0, RequestStage::fields) + outputs.paused_fields();
        drop((request, outputs, share));
        reply.map(|reply| (reply, effort))
    }

    /// Locks the state, only briefly: steps run without the lock.
    fn lock(&self) -> MutexGuard<'_, JobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job for RequestJob {
    fn run_slice(&self, turn: &SliceTurn<'_>) -> Slice {
        let began = turn.now();
        Visit { job: self, turn, has_turn: true, began, now: began, counted: began, yields: false, parking: None }.run()
    }

    fn abandoned(&self, cause: Abandoned) {
        let Some((reply, effort)) = self.free() else { return };
        match cause {
            Abandoned::Rejected(Rejection::Overloaded(_)) => {
                reply.fail(ErrorCode::Overloaded, "the queue is full", effort);
            }
            Abandoned::Rejected(Rejection::TooLate { wait }) => {
                let wait = wait.as_millis();
                let message = format!("the queue is too long for the deadline: the estimated wait is {wait} ms");
                reply.fail(ErrorCode::Overloaded, &message, effort);
            }
            Abandoned::Rejected(Rejection::ShuttingDown) | Abandoned::ShutDown => {
                reply.fail(ErrorCode::Unavailable, "the engine is shutting down", effort);
            }
            Abandoned::Panicked => {
                tracing::error!("a request panicked");
                reply.fail_internally(effort);
            }
        }
    }
}

impl JobState {
    /// The next task of `visit`.
    fn next_task(&mut self, visit: &Visit<'_>) -> WorkerTask {
        if self.phase == Phase::Ended {
            return WorkerTask::Leave(Slice::Left);
        }
        if !self.is_complete() {
            self.look_for_stop(visit);
        }
        if self.is_complete() {
            return self.free_or_end(visit);
        }
        if let Some(parking) = visit.parking {
            return self.park(visit, parking);
        }
        if visit.is_over() {
            return self.leave();
        }
        if self.has_paused()
            && let Some((_, running)) = self.outputs.paused.pop_first()
        {
            self.busy += 1;
            return WorkerTask::Work(running, self.others());
        }
        if !visit.has_turn || !self.has_more() || !self.allows_step(visit) {
            return self.leave();
        }
        let request = self.request.take().expect("there is more for who has the turn");
        self.busy += 1;
        match self.phase {
            Phase::Alone => WorkerTask::Step(request, std::mem::take(&mut self.outputs.head)),
            _ => WorkerTask::Plan(request),
        }
    }

    fn look_for_stop(&mut self, visit: &Visit<'_>) {
        if let Err(stop) = visit.job.cancellation.check(visit.now) {
            self.end_at(WHOLE, Ending::Stop(stop));
        }
    }

    /// Whether all needed parts are done, and no worker is running.
    fn is_complete(&self) -> bool {
        let is_known = self.ending.is_some() || matches!(self.phase, Phase::Planned | Phase::Written);
        is_known && self.busy == 0 && !self.has_paused()
    }

    /// Whether another worker could start something.
    fn has_more(&self) -> bool {
        let is_planning = matches!(self.phase, Phase::Alone | Phase::Spreading) && self.request.is_some();
        self.has_paused() || (is_planning && self.ending.is_none())
    }

    fn has_paused(&self) -> bool {
        self.outputs.paused.first_key_value().is_some_and(|(&number, _)| self.wants(number))
    }

    /// Whether nothing before this part ends the request.
    fn wants(&self, number: u64) -> bool {
        self.ending.as_ref().is_none_or(|(last, _)| number < *last)
    }

    fn others(&self) -> OtherWorkers {
        if self.has_more() { OtherWorkers::Needed } else { OtherWorkers::NotNeeded }
    }

    /// Starts a new part.
    fn begin_part(&mut self, part: Box<dyn RequestPart>) -> RunningPart {
        let number = self.next_number();
        self.outputs.parts.push_back(None);
        RunningPart { number, part, out: Vec::new() }
    }

    fn next_number(&self) -> u64 {
        self.first + self.outputs.parts.len() as u64
    }

    /// Stores the output of a part, and joins the outputs that have become contiguous.
    fn settle(&mut self, number: u64, out: Vec<u8>) {
        let place = usize::try_from(number - self.first).expect("fewer parts than memory has bytes");
        self.outputs.parts[place] = Some(out);
        while let Some(Some(_)) = self.outputs.parts.front() {
            let out = self.outputs.parts.pop_front().flatten().expect("looked at");
            let before = out.capacity() + self.outputs.written.capacity();
            self.outputs.written.push(out);
            self.charge(before, self.outputs.written.capacity());
            if self.outputs.written.size() > self.answer_size_max {
                self.end_at(self.first, Ending::TooLarge);
            }
            self.first += 1;
        }
    }

    /// Records how the request ends, unless an earlier part determines it.
    fn end_at(&mut self, number: u64, ending: Ending) {
        if self.wants(number) {
            self.ending = Some((number, ending));
        }
    }

    /// Charges a buffer whose memory has changed from `before` to `after` bytes.
    fn charge(&mut self, before: usize, after: usize) {
        self.bytes = self.bytes + after - before;
        if self.share.resize(self.bytes).is_err() {
            self.end_at(WHOLE, Ending::OutOfMemory);
        }
    }

    /// Charges the request's current working memory.
    fn charge_working(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.working, bytes);
        self.charge(before, bytes);
    }

    /// Ends the request, unless so many buffers remain that freeing them takes more than a step.
    fn free_or_end(&mut self, visit: &Visit<'_>) -> WorkerTask {
        if self.ending.is_none() || self.outputs.count() <= FREED_BUFFERS_MAX {
            return self.end();
        }
        if visit.is_over() {
            return WorkerTask::Leave(Slice::More);
        }
        self.busy += 1;
        WorkerTask::Free(self.outputs.take_some())
    }

    fn end(&mut self) -> WorkerTask {
        let request = self.request.take().expect("no worker has it in hand");
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        let ending = self.ending.take().map(|(_, ending)| ending);
        let outputs = std::mem::take(&mut self.outputs);
        WorkerTask::End(Remains { request, phase, ending, outputs, effort: self.effort })
    }
}

/// One worker's time with a job.
struct Visit<'a> {
    job: &'a RequestJob,
    turn: &'a SliceTurn<'a>,
    /// Whether this worker may use the request itself.
    has_turn: bool,
    began: Instant,
    now: Instant,
    /// Until when its time has been counted.
    counted: Instant,
    /// Whether a step has asked to let others go first.
    yields: bool,
    /// Set if the last step lacked something that is being looked up.
    parking: Option<Parking>,
}

impl<'a> Visit<'a> {
    fn run(mut self) -> Slice {
        let mut state = self.job.lock();
        loop {
            let task = state.next_task(&self);
            drop(state);
            state = match task {
                WorkerTask::Step(request, head) => self.step(request, head),
                WorkerTask::Plan(request) => self.plan(request),
                WorkerTask::Work(running, others) => self.work(running, others),
                WorkerTask::Free(buffers) => self.free(buffers),
                WorkerTask::End(remains) => return self.end(remains),
                WorkerTask::Leave(slice) => return slice,
            };
            self.yields |= take_yield();
            if self.parking.is_none() {
                state.parked_since = None;
            }
            state.effort.time += self.now.saturating_duration_since(self.counted);
            self.counted = self.now;
        }
    }

    fn is_over(&self) -> bool {
        self.yields || self.now - self.began >= SLICE_TIME
    }

    /// Runs one of the request's own steps.
    fn step(&mut self, mut request: RequestStage, mut head: Vec<u8>) -> MutexGuard<'a, JobState> {
        let (before, size) = (head.capacity(), head.len());
        let result = request.step(&mut head);
        self.parking = take_parking();
        let is_handed_over = take_hand_over();
        self.yields |= is_handed_over;
        if (is_handed_over || self.parking.is_some_and(|parking| parking.repeats)) && result.is_err() {
            return self.repeat(request, head, before, size);
        }
        if result != Ok(RequestStep::More) {
            shrink(&mut head);
        }
        self.now = self.turn.now();
        let working = request.memory();
        let mut state = self.job.lock();
        state.busy -= 1;
        state.request = Some(request);
        state.charge(before, head.capacity());
        state.charge_working(working);
        match result {
            Ok(RequestStep::More) => state.outputs.head = head,
            Ok(RequestStep::Spread { answer_size_max }) => {
                (state.phase, state.outputs.written) = (Phase::Spreading, Rope::from(head));
                state.answer_size_max = answer_size_max;
            }
            Ok(RequestStep::Done) => (state.phase, state.outputs.written) = (Phase::Written, Rope::from(head)),
            Err(error) => {
                state.outputs.head = head;
                state.end_at(WHOLE, error.into());
            }
        }
        state
    }

    /// Runs the next part without a plan if no other worker could join; otherwise plans it and runs it, while others continue to plan.
    fn plan(&mut self, mut request: RequestStage) -> MutexGuard<'a, JobState> {
        if !self.turn.is_wanted() {
            let mut out = Vec::new();
            if let Some(result) = request.work().step_unplanned(&mut out) {
                self.parking = take_parking();
                return self.end_unplanned(request, out, result);
            }
        }
        let planned = request.work().next_part();
        self.parking = take_parking();
        self.now = self.turn.now();
        let working = request.memory();
        let mut state = self.job.lock();
        state.request = Some(request);
        state.charge_working(working);
        if matches!(planned, Ok(PlannedRequest::Last(_) | PlannedRequest::None)) {
            state.phase = Phase::Planned;
        }
        match planned {
            Ok(PlannedRequest::Part(part) | PlannedRequest::Last(part)) => {
                let running = state.begin_part(part);
                if !self.is_over() && self.parking.is_none() && state.wants(running.number) {
                    let others = state.others();
                    drop(state);
                    return self.work(running, others);
                }
                // Planning has used up the slice, or the memory.
                state.outputs.paused.insert(running.number, running);
            }
            Ok(PlannedRequest::Nothing | PlannedRequest::None) => {}
            Err(error) => {
                let number = state.next_number();
                state.end_at(number, error.into());
            }
        }
        state.busy -= 1;
        state
    }

    /// Stores the output of a step without a plan, which counts as a part, although it may be less than one.
    fn end_unplanned(
        &mut self,
        request: RequestStage,
        mut out: Vec<u8>,
        result: Result<PartStep, ErrorObject>,
    ) -> MutexGuard<'a, JobState> {
        shrink(&mut out);
        self.now = self.turn.now();
        let working = request.memory();
        let mut state = self.job.lock();
        state.busy -= 1;
        state.request = Some(request);
        state.charge_working(working);
        let number = state.next_number();
        match result {
            Ok(step) => {
                if step == PartStep::Done {
                    state.phase = Phase::Planned;
                }
                state.outputs.parts.push_back(None);
                state.charge(0, out.capacity());
                state.settle(number, out);
            }
            Err(error) => state.end_at(number, error.into()),
        }
        state
    }

    /// Runs a part; before that it releases the turn if other workers could join.
    fn work(&mut self, running: RunningPart, others: OtherWorkers) -> MutexGuard<'a, JobState> {
        if self.has_turn && others == OtherWorkers::Needed && self.turn.share() {
            self.has_turn = false;
        }
        let RunningPart { number, mut part, mut out } = running;
        loop {
            let before = out.capacity();
            let result = part.step(&mut out);
            self.parking = take_parking();
            self.now = self.turn.now();
            if result != Ok(PartStep::More) {
                // Freed before the lock is taken, because others may wait for it.
                let fields = part.fields();
                drop(part);
                let mut state = self.end_part(number, out, before, result);
                state.effort.fields += fields;
                return state;
            }
            let mut state = self.job.lock();
            state.charge(before, out.capacity());
            state.look_for_stop(self);
            if self.is_over() || self.parking.is_some() || !state.wants(number) {
                state.busy -= 1;
                state.outputs.paused.insert(number, RunningPart { number, part, out });
                return state;
            }
        }
    }

    fn end_part(
        &mut self,
        number: u64,
        mut out: Vec<u8>,
        before: usize,
        result: Result<PartStep, ErrorObject>,
    ) -> MutexGuard<'a, JobState> {
        shrink(&mut out);
        let mut state = self.job.lock();
        state.busy -= 1;
        state.charge(before, out.capacity());
        match result {
            Ok(_) => state.settle(number, out),
            Err(error) => state.end_at(number, error.into()),
        }
        state
    }

    /// Frees some of the buffers that are not needed.
    fn free(&mut self, buffers: Vec<Vec<u8>>) -> MutexGuard<'a, JobState> {
        drop(buffers);
        self.now = self.turn.now();
        let mut state = self.job.lock();
        state.busy -= 1;
        state
    }

    /// Sends the answer. The request's memory is freed before the end becomes visible.
    fn end(&self, remains: Remains) -> Slice {
        let Remains { mut request, phase, ending, outputs, mut effort } = remains;
        effort.fields += request.fields() + outputs.paused_fields();
        let JobOutputs { mut written, head, parts, paused } = outputs;
        if phase == Phase::Planned && ending.is_none() {
            let (all, mut tail) = (WrittenOutput { size: written.size(), fields: effort.fields }, Vec::new());
            request.work().finish(written.first_mut(), all, &mut tail);
            written.push(tail);
        }
        let ending = match ending {
            Some(Ending::TooLarge) => Some(request.too_large().into()),
            ending => ending,
        };
        drop((request, head, parts, paused));
        let mut state = self.job.lock();
        let (share, reply) = (state.share.take(), state.reply.take().expect("a request ends once"));
        drop(state);
        match ending {
            None => answer(written, share, effort, reply),
            Some(ending) => {
                drop((written, share));
                refuse(ending, effort, reply);
            }
        }
        Slice::Done
    }
}
