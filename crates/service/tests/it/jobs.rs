//! Requests that behave as a seed determines, on a pool without threads: while a part runs, slices of other workers run nested inside it,
//! so that several work on one request at once and every run can be replayed. The output must equal that of a single worker.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use leafseal_engine::pool::{
    Abandoned, Admission, CancelReason, Cancellation, Pool, PoolClock, PoolObserver, PoolSettings,
};
use leafseal_protocol::{ErrorCode, ErrorObject, Message, answer};
use leafseal_service::*;

mod schedules;

const ID: u32 = 9;
const REQUEST_SIZE: usize = 100;
/// Some steps end a slice, most do not.
const STEP_TIME_MAX_NS: usize = 60_000;

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), random enough for a schedule.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn one_in(&mut self, limit: usize) -> bool {
        self.below(limit) == 0
    }
}

/// The script of a request, computed in advance.
#[derive(Clone, Debug, Default)]
struct Script {
    steps_alone: usize,
    fault_alone: bool,
    parts: Vec<PartScript>,
    /// Planning fails instead of this part.
    fault_in_planning: Option<usize>,
    knows_last: bool,
    /// It runs without a plan if no other worker can join.
    works_unplanned: bool,
    size_max: usize,
    /// Bytes of working memory after each call, in its own steps and in planning; none beyond the end.
    memory: Vec<usize>,
}

#[derive(Clone, Debug)]
struct PartScript {
    /// Bytes written by each step.
    steps: Vec<usize>,
    fails: bool,
    panics: bool,
    /// Planning steps before it.
    walks: usize,
}

impl Script {
    fn from_random(random: &mut Random) -> Script {
        let count = if random.one_in(4) { 0 } else { random.below(12) + 1 };
        let part = |random: &mut Random| PartScript {
            steps: (0..random.below(4) + 1).map(|_| random.below(40)).collect(),
            fails: random.one_in(40),
            panics: random.one_in(300),
            walks: if random.one_in(5) { random.below(3) } else { 0 },
        };
        Script {
            steps_alone: random.below(3),
            fault_alone: random.one_in(40),
            parts: (0..count).map(|_| part(random)).collect(),
            fault_in_planning: random.one_in(20).then(|| random.below(count.max(1))),
            knows_last: random.one_in(2),
            works_unplanned: random.one_in(2),
            size_max: if random.one_in(10) { random.below(400) } else { usize::MAX },
            memory: (0..random.below(20)).map(|_| random.below(100)).collect(),
        }
    }

    /// The result of a single worker: the content, or the error's message. Steps without a plan count immediately, so a part that fails at
    /// its end may have exceeded the limit before.
    fn expected(&self, is_planned: bool) -> Result<Vec<u8>, String> {
        if self.fault_alone {
            return Err("alone".to_owned());
        }
        let mut content = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            if self.fault_in_planning == Some(number) {
                return Err(format!("planning {number}"));
            }
            let steps = if part.fails { &part.steps[..part.steps.len() - 1] } else { &part.steps };
            let size = steps.iter().sum::<usize>();
            if part.fails && (is_planned || content.len() + size + HEAD_SIZE <= self.size_max) {
                return Err(format!("part {number}"));
            }
            content.extend(std::iter::repeat_n(number as u8, size));
            if content.len() + HEAD_SIZE > self.size_max {
                return Err("too large".to_owned());
            }
        }
        Ok(content)
    }
}

/// Bytes before the content of an answer, which is one binary.
const HEAD_SIZE: usize = 9;

/// An event that occurs during a step.
type Event = Box<dyn FnOnce() + Send>;

/// The state shared by all requests of a simulation.
#[derive(Default)]
struct World {
    engine: OnceLock<Arc<Pool>>,
    random: Mutex<Option<Random>>,
    /// The nesting depth of workers.
    depth: AtomicUsize,
    workers: usize,
    /// Requests and parts that have not been dropped.
    alive: AtomicUsize,
    steps: AtomicUsize,
    /// The number of steps that report one field each.
    fields: AtomicU64,
    /// Nanoseconds since the start.
    time: Arc<AtomicU64>,
    /// Nanoseconds by which each reading advances the clock.
    tick: Arc<AtomicU64>,
    cancellation: Mutex<Option<Arc<Cancellation>>>,
    /// Steps until the request is cancelled.
    cancel_in: AtomicUsize,
    /// The step and the nesting depth at the cancellation.
    cancelled_at: Mutex<Option<(usize, usize)>>,
    /// The event during a step, and that step.
    arrival: Mutex<Option<(usize, Event)>>,
}

impl World {
    /// Begins a step: other workers may run nested, and the request may be cancelled.
    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.time.fetch_add(self.below(STEP_TIME_MAX_NS), Ordering::Relaxed);
        self.arrive();
        if self.cancel_in.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.cancel();
        }
        while self.depth.load(Ordering::Relaxed) < self.workers && self.below(2) == 1 {
            self.depth.fetch_add(1, Ordering::Relaxed);
            let has_run = self.engine.get().is_some_and(|pool| pool.run_one());
            self.depth.fetch_sub(1, Ordering::Relaxed);
            if !has_run {
                break;
            }
        }
    }

    fn arrive(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        let arrival = self.arrival.lock().unwrap().take_if(|(step, _)| *step <= steps);
        if let Some((_, arrive)) = arrival {
            arrive();
        }
    }

    fn cancel(&self) {
        if let Some(cancellation) = &*self.cancellation.lock().unwrap() {
            cancellation.cancel(CancelReason::Cancelled);
            let now = (self.steps.load(Ordering::Relaxed), self.depth.load(Ordering::Relaxed));
            *self.cancelled_at.lock().unwrap() = Some(now);
        }
    }

    /// Returns a random number below `limit`; 0 if the world has no random source.
    fn below(&self, limit: usize) -> u64 {
        self.random.lock().unwrap().as_mut().map_or(0, |random| random.below(limit) as u64)
    }
}

struct Alive(Arc<World>);

impl Alive {
    fn new(world: &Arc<World>) -> Alive {
        world.alive.fetch_add(1, Ordering::Relaxed);
        Alive(Arc::clone(world))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

struct ScriptedRequest {
    alive: Alive,
    script: Script,
    /// The number of steps and planning calls.
    calls: usize,
    steps: usize,
    planned: usize,
    walked: usize,
    /// A part that was begun without a plan, and whether it is the last.
    begun: Option<(ScriptedPart, bool)>,
}

impl ScriptedRequest {
    fn new(world: &Arc<World>, script: Script) -> ScriptedRequest {
        ScriptedRequest { alive: Alive::new(world), script, calls: 0, steps: 0, planned: 0, walked: 0, begun: None }
    }

    /// Returns the next part and whether it is known to be the last; `None` if planning took a step, or if no part is left.
    fn next(&mut self) -> Result<Option<(ScriptedPart, bool)>, ErrorObject> {
        if let Some(begun) = self.begun.take() {
            return Ok(Some(begun));
        }
        let (number, count) = (self.planned, self.script.parts.len());
        let Some(script) = self.script.parts.get(number) else { return Ok(None) };
        if self.walked < script.walks {
            self.walked += 1;
            return Ok(None);
        }
        if self.script.fault_in_planning == Some(number) {
            return Err(fault(format!("planning {number}")));
        }
        (self.planned, self.walked) = (number + 1, 0);
        let alive = Alive::new(&self.alive.0);
        let part = ScriptedPart { alive, script: script.clone(), number, step: 0, own_steps: 0 };
        Ok(Some((part, self.script.knows_last && number + 1 == count)))
    }

    /// Runs a step of the next part.
    fn run_step(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject> {
        let Some((mut part, is_last)) = self.next()? else {
            let is_end = self.planned == self.script.parts.len();
            return Ok(if is_end { PartStep::Done } else { PartStep::More });
        };
        let done = part.write(out);
        self.steps += 1;
        match done? {
            PartStep::Done if is_last => return Ok(PartStep::Done),
            PartStep::Done => {}
            PartStep::More => self.begun = Some((part, is_last)),
        }
        Ok(PartStep::More)
    }
}

fn fault(message: impl Into<String>) -> ErrorObject {
    ErrorObject::new(ErrorCode::InvalidParams, message)
}

impl RequestWork for ScriptedRequest {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject> {
        self.alive.0.step();
        self.calls += 1;
        if self.steps < self.script.steps_alone {
            self.steps += 1;
            self.alive.0.fields.fetch_add(1, Ordering::Relaxed);
            return Ok(RequestStep::More);
        }
        if self.script.fault_alone {
            return Err(fault("alone"));
        }
        answer::begin(ID, out);
        out.extend_from_slice(&[0xc6, 0, 0, 0, 0]);
        assert_eq!(out.len(), HEAD_SIZE);
        match self.script.parts.len() {
            0 => Ok(RequestStep::Done),
            _ => Ok(RequestStep::Spread { answer_size_max: self.script.size_max }),
        }
    }

    fn next_part(&mut self) -> Result<PlannedRequest, ErrorObject> {
        self.alive.0.step();
        self.calls += 1;
        Ok(match self.next()? {
            Some((part, true)) => PlannedRequest::Last(Box::new(part)),
            Some((part, false)) => PlannedRequest::Part(Box::new(part)),
            None if self.planned == self.script.parts.len() => PlannedRequest::None,
            None => PlannedRequest::Nothing,
        })
    }

    fn step_unplanned(&mut self, out: &mut Vec<u8>) -> Option<Result<PartStep, ErrorObject>> {
        if !self.script.works_unplanned {
            return None;
        }
        self.alive.0.step();
        self.calls += 1;
        Some(self.run_step(out))
    }

    fn finish(&mut self, head: &mut Vec<u8>, written: WrittenOutput, _tail: &mut Vec<u8>) {
        head[HEAD_SIZE - 4..HEAD_SIZE].copy_from_slice(&((written.size - HEAD_SIZE) as u32).to_be_bytes());
    }

    fn too_large(&self) -> ErrorObject {
        fault("too large")
    }

    fn fields(&self) -> u64 {
        self.steps as u64
    }

    fn memory(&self) -> usize {
        self.calls.checked_sub(1).and_then(|call| self.script.memory.get(call)).copied().unwrap_or(0)
    }
}

struct ScriptedPart {
    alive: Alive,
    script: PartScript,
    number: usize,
    step: usize,
    /// Steps that it did as a part, as opposed to those of the request without a plan.
    own_steps: u64,
}

impl RequestPart for ScriptedPart {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject> {
        self.alive.0.step();
        self.own_steps += 1;
        self.write(out)
    }

    fn fields(&self) -> u64 {
        self.own_steps
    }
}

impl ScriptedPart {
    fn write(&mut self, out: &mut Vec<u8>) -> Result<PartStep, ErrorObject> {
        out.resize(out.len() + self.script.steps[self.step], self.number as u8);
        self.step += 1;
        self.alive.0.fields.fetch_add(1, Ordering::Relaxed);
        let is_last = self.step == self.script.steps.len();
        assert!(!(is_last && self.script.panics), "as the script wishes");
        match (is_last, self.script.fails) {
            (true, true) => Err(fault(format!("part {}", self.number))),
            (true, false) => Ok(PartStep::Done),
            (false, _) => Ok(PartStep::More),
        }
    }
}

/// An answer with the work that was done for it.
type Entry = (Answered, Effort);

/// The answers of a request.
#[derive(Clone, Default)]
struct Inbox(Arc<Mutex<Vec<Entry>>>);

impl AnswerReceiver for Inbox {
    fn takes(&self, written: &Rope) -> bool {
        written.size() > 0
    }

    fn receive(self: Box<Self>, answered: Answered, effort: Effort) {
        self.0.lock().unwrap().push((answered, effort));
    }
}

impl Inbox {
    /// The only answer: its buffers, whose memory no longer counts.
    fn take(&self) -> Result<Vec<Vec<u8>>, ErrorObject> {
        let mut answers = self.0.lock().unwrap();
        assert_eq!(answers.len(), 1, "one answer");
        let (answered, _) = answers.pop().expect("one");
        answered.map(|(rope, _)| rope.into_buffers().filter(|bytes| !bytes.is_empty()).collect())
    }
}

/// The content of an answer, or its error's code and message.
fn reported(answer: Result<Vec<Vec<u8>>, ErrorObject>) -> Result<Vec<u8>, (String, String)> {
    let bytes = answer.map_err(|error| (error.code.as_str().to_owned(), error.message))?.concat();
    match Message::parse(&bytes).expect("one message") {
        Message::Response { id: ID, result: Ok(_) } => Ok(bytes[HEAD_SIZE..].to_vec()),
        other => panic!("{other:?}"),
    }
}

/// The times that jobs waited for their first slices.
#[derive(Default)]
struct Waits {
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

impl PoolObserver for Waits {
    fn waited(&self, time: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(u64::try_from(time.as_nanos()).expect("short"), Ordering::Relaxed);
    }
}

impl Waits {
    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}
