//! The actions of a user: a program for a machine with a position and one counter for each active loop.

use std::time::Duration;

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowStep {
    /// Sends a request of this kind and waits for its answer.
    Send(usize),
    /// Pauses.
    Think(Duration),
    /// Starts a loop over the steps up to the matching end, with this many iterations, at least one.
    Begin(u32),
    /// Ends the innermost loop.
    End,
}

/// Steps of a scenario; every `Begin` has its `End`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserFlow {
    steps: Vec<FlowStep>,
}

impl UserFlow {
    /// Appends a step.
    pub(super) fn push(&mut self, step: FlowStep) {
        self.steps.push(step);
    }

    /// The steps.
    pub fn steps(&self) -> &[FlowStep] {
        &self.steps
    }

    /// Returns the number of requests that one run of the flow sends.
    pub fn requests(&self) -> u64 {
        let mut counts = vec![0_u64];
        let mut times = Vec::new();
        for step in &self.steps {
            match step {
                FlowStep::Send(_) => *counts.last_mut().expect("one for each open loop") += 1,
                FlowStep::Think(_) => {}
                FlowStep::Begin(count) => {
                    times.push(u64::from(*count));
                    counts.push(0);
                }
                FlowStep::End => {
                    let inside = counts.pop().expect("a loop that has begun");
                    let inside = inside.saturating_mul(times.pop().expect("a loop that has begun"));
                    let outside = counts.last_mut().expect("one for each open loop");
                    *outside = outside.saturating_add(inside);
                }
            }
        }
        counts[0]
    }
}

/// The position of a user in its flow.
#[derive(Clone, Debug, Default)]
pub struct FlowPosition {
    next: usize,
    /// The active loops: position of the first step, and remaining iterations.
    loops: Vec<(usize, u32)>,
}

/// The next action of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// A request of this kind.
    Send(usize),
    /// A pause.
    Think(Duration),
    /// The flow is complete.
    Done,
}

impl FlowPosition {
    /// Returns the next action and advances.
    pub fn advance(&mut self, flow: &UserFlow) -> NextAction {
        loop {
            let Some(step) = flow.steps.get(self.next) else { return NextAction::Done };
            self.next += 1;
            match *step {
                FlowStep::Send(kind) => return NextAction::Send(kind),
                FlowStep::Think(time) => return NextAction::Think(time),
                FlowStep::Begin(count) => self.loops.push((self.next, count - 1)),
                FlowStep::End => {
                    let (begin, again) = self.loops.last_mut().expect("a loop that has begun");
                    if *again == 0 {
                        self.loops.pop();
                    } else {
                        *again -= 1;
                        self.next = *begin;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_in_loops_run_as_often_as_they_say() {
        let think = Duration::from_secs(1);
        let steps = vec![
            FlowStep::Send(0),
            FlowStep::Begin(2),
            FlowStep::Send(1),
            FlowStep::Begin(3),
            FlowStep::Send(2),
            FlowStep::End,
            FlowStep::Think(think),
            FlowStep::End,
            FlowStep::Send(3),
        ];
        let flow = UserFlow { steps };
        let mut cursor = FlowPosition::default();
        let mut run = Vec::new();
        loop {
            match cursor.advance(&flow) {
                NextAction::Done => break,
                next => run.push(next),
            }
        }
        let [zero, one, two, three] = [0, 1, 2, 3].map(NextAction::Send);
        let pause = NextAction::Think(think);
        assert_eq!(run, [zero, one, two, two, two, pause, one, two, two, two, pause, three]);
        assert_eq!(flow.requests(), 10);
        assert_eq!(cursor.advance(&flow), NextAction::Done, "done stays done");
    }
}
