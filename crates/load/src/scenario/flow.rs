//! The actions of a user: a program for a machine with a position and one counter for each active loop.

use std::time::Duration;

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
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
pub struct Flow {
    steps: Vec<Step>,
}

impl Flow {
    /// Appends a step.
    pub(super) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the number of requests that one run of the flow sends.
    pub fn requests(&self) -> u64 {
        let mut counts = vec![0_u64];
        let mut times = Vec::new();
        for step in &self.steps {
            match step {
                Step::Send(_) => *counts.last_mut().expect("one for each open loop") += 1,
                Step::Think(_) => {}
                Step::Begin(count) => {
                    times.push(u64::from(*count));
                    counts.push(0);
                }
                Step::End => {
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
pub struct Cursor {
    next: usize,
    /// The active loops: position of the first step, and remaining iterations.
    loops: Vec<(usize, u32)>,
}

/// The next action of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A request of this kind.
    Send(usize),
    /// A pause.
    Think(Duration),
    /// The flow is complete.
    Done,
}

impl Cursor {
    /// Returns the next action and advances.
    pub fn advance(&mut self, flow: &Flow) -> Next {
        loop {
            let Some(step) = flow.steps.get(self.next) else { return Next::Done };
            self.next += 1;
            match *step {
                Step::Send(kind) => return Next::Send(kind),
                Step::Think(time) => return Next::Think(time),
                Step::Begin(count) => self.loops.push((self.next, count - 1)),
                Step::End => {
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
            Step::Send(0),
            Step::Begin(2),
            Step::Send(1),
            Step::Begin(3),
            Step::Send(2),
            Step::End,
            Step::Think(think),
            Step::End,
            Step::Send(3),
        ];
        let flow = Flow { steps };
        let mut cursor = Cursor::default();
        let mut run = Vec::new();
        loop {
            match cursor.advance(&flow) {
                Next::Done => break,
                next => run.push(next),
            }
        }
        let [zero, one, two, three] = [0, 1, 2, 3].map(Next::Send);
        let pause = Next::Think(think);
        assert_eq!(run, [zero, one, two, two, two, pause, one, two, two, two, pause, three]);
        assert_eq!(flow.requests(), 10);
        assert_eq!(cursor.advance(&flow), Next::Done, "done stays done");
    }
}
