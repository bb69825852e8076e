//! Which small requests of a connection are tried on the network thread.

use std::time::Duration;

/// The longest pause doubles so often: 31 requests.
const PAUSE_DOUBLINGS_MAX: u32 = 5;
/// Requests that needed no worker until the next pause is halved. Fewer would let requests that lack their key, sent among others, be tried
/// more often.
const ANSWERED_PER_HALVING: u32 = 8;

/// The trials of a connection. A request that lacks its key, waits for the store or is more work than it seemed has been read on the
/// network thread for nothing; each such trial is followed by
/// a pause, in which requests go to the workers untried: of 0, 1, 3, 7, 15 and then always 31 requests. Every eighth request that needed no
/// worker shortens the next pause by one of these steps.
///
/// Of `n` requests at most `6 + n / 9` are tried for nothing, in whatever order they come.
#[derive(Default)]
pub(super) struct InlineTrials {
    /// The next pause has `2^doublings - 1` requests.
    doublings: u32,
    /// The rest of this pause.
    untried: u32,
    /// Requests that needed no worker since a pause became shorter, or the first longer.
    answered: u32,
}

impl InlineTrials {
    /// Whether the next request that is small enough is tried.
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.untried == 0;
        self.untried = self.untried.saturating_sub(1);
        is_due
    }

    /// Notes a request that did this much work on the network thread, or nothing.
    pub(super) fn note(&mut self, work: Duration, is_left: bool) {
        if is_left {
            self.untried = (1 << self.doublings) - 1;
            self.doublings = PAUSE_DOUBLINGS_MAX.min(self.doublings + 1);
        } else if !work.is_zero() && self.doublings > 0 {
            self.answered += 1;
            if self.answered == ANSWERED_PER_HALVING {
                (self.answered, self.doublings) = (0, self.doublings - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const WORK: Duration = Duration::from_nanos(1);
    const REQUESTS: u32 = 2_000;

    /// What a peer can send: a request that lacks its key, one that does not.
    const CHOICES: [bool; 2] = [true, false];

    type State = (u32, u32, u32);

    /// Sends a request; returns whether it was tried for nothing.
    fn send((doublings, untried, answered): State, lacks_key: bool) -> (State, bool) {
        let mut trials = InlineTrials { doublings, untried, answered };
        let is_due = trials.is_due();
        if is_due {
            trials.note(WORK, lacks_key);
        }
        ((trials.doublings, trials.untried, trials.answered), is_due && lacks_key)
    }

    /// The peer that knows the state best: of all that can be sent, the most trials for nothing, by the number of requests.
    #[test]
    fn no_order_of_requests_causes_more_trials_for_nothing_than_the_bound() {
        let mut most = BTreeMap::from([((0, 0, 0), 0)]);
        for sent in 1..=REQUESTS {
            let mut next = BTreeMap::new();
            for (&state, &futile) in &most {
                for lacks_key in CHOICES {
                    let (state, is_futile) = send(state, lacks_key);
                    let best = next.entry(state).or_insert(0);
                    *best = (*best).max(futile + u32::from(is_futile));
                }
            }
            most = next;
            let worst = most.values().max().copied().expect("states");
            assert!(worst <= 6 + sent / 9, "{worst} of {sent}");
        }
        let worst = most.values().max().copied().expect("states");
        assert!(worst >= REQUESTS / 9, "the bound is near what a peer can reach: {worst}");
    }

    /// Sends requests, by whether each lacks its key; returns which were tried.
    fn tried(requests: impl Iterator<Item = bool>) -> Vec<bool> {
        let mut trials = InlineTrials::default();
        requests
            .map(|lacks_key| {
                let is_due = trials.is_due();
                if is_due {
                    trials.note(WORK, lacks_key);
                }
                is_due
            })
            .collect()
    }

    #[test]
    fn pauses_grow_while_requests_lack_their_keys() {
        let tried = tried(std::iter::repeat_n(true, 100));
        let trials: Vec<_> = (0..100).filter(|&i| tried[i]).collect();
        assert_eq!(trials, [0, 1, 3, 7, 15, 31, 63, 95]);
    }

    #[test]
    fn alternating_requests_do_not_end_the_pauses() {
        let tried = tried((0..1_000).map(|i| i % 2 == 0));
        let futile = (0..1_000).step_by(2).filter(|&i| tried[i]).count();
        assert!(futile <= 6 + 1_000 / 31, "{futile}");
    }

    /// Once keys are known all is tried, however many lacked theirs before; a lone request that lacks its key costs no pause then.
    #[test]
    fn requests_whose_keys_have_become_known_are_all_tried() {
        let known = ANSWERED_PER_HALVING as usize * PAUSE_DOUBLINGS_MAX as usize;
        let requests = std::iter::repeat_n(true, 64).chain((0..200).map(|i| i == 31 + known));
        let tried = tried(requests);
        assert!(tried[64..95].iter().all(|tried| !tried) && tried[95..].iter().all(|tried| *tried));
    }

    #[test]
    fn a_request_that_is_not_the_next_to_be_served_changes_nothing() {
        let mut trials = InlineTrials::default();
        (0..3).for_each(|_| trials.note(WORK, true));
        let before = (trials.doublings, trials.untried, trials.answered);
        (0..100).for_each(|_| trials.note(Duration::ZERO, false));
        assert_eq!((trials.doublings, trials.untried, trials.answered), before);
    }
}
