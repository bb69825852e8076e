//! One level of start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) for several workers and costs known afterwards.
//!
//! Each flow has a tag: the nanoseconds of service that it has received. The flow with the lowest tag is served next. The virtual
//! time is a lower bound of all waiting tags: a flow that returns from idleness starts there, so that idleness gains nothing, or at
//! its own tag if that is later.
//!
//! The cost of a slice is known only when it ends. Until then the flow is charged the expected cost; otherwise all workers at once
//! would choose the flow that is behind. The virtual time excludes everything that is running: a flow whose slices were cheaper
//! than expected never falls behind it, and no waiting flow goes before a new one.

use crate::front::Front;

/// How a flow came to wait. The order decides where tags are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Arrival {
    /// Something new to do.
    New,
    /// Something that has been worked on.
    Returned,
}

/// A flow's account in its [`FairQueue`].
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Nanoseconds of service so far, or the virtual time from which it began.
    served: u64,
    /// Expected cost of its running slices.
    in_hand: u64,
    /// Set while it waits.
    place: Option<Place>,
}

impl Flow {
    /// The order of flows.
    #[cfg(test)]
    pub(crate) fn tag(&self) -> u64 {
        self.served + self.in_hand
    }
}

/// The position of a flow in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    tag: u64,
    arrival: Arrival,
    /// First come, first served where the rest is equal.
    number: u64,
}

/// Flows, by their index, that wait or are remembered.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    virtual_time: u64,
    waiting: Front<(Place, usize)>,
    /// Flows of which nothing is held, with tags that the virtual time has not reached yet.
    idle: Front<(u64, usize)>,
    /// Expected cost of all running slices.
    in_hand: u64,
    number: u64,
}

impl FairQueue {
    /// The flow to be served next.
    pub(crate) fn first(&self) -> Option<usize> {
        self.waiting.first().map(|(_, index)| index)
    }

    /// A flow that did not wait has something to be done.
    pub(crate) fn wait(&mut self, index: usize, flow: &mut Flow, arrival: Arrival) {
        debug_assert!(flow.place.is_none(), "a flow waits once");
        flow.served = flow.served.max(self.virtual_time);
        let place = self.next_place(flow, arrival);
        self.waiting.insert((place, index));
    }

    /// Nothing of the flow waits any more.
    pub(crate) fn leave(&mut self, index: usize, flow: &mut Flow) {
        let place = flow.place.take().expect("only who waits leaves");
        self.waiting.remove((place, index));
    }

    /// The virtual time moves on to the flow that is about to be served.
    pub(crate) fn advance(&mut self, flow: &Flow) {
        let place = flow.place.expect("only who waits is served");
        self.virtual_time = self.virtual_time.max(place.tag.saturating_sub(self.in_hand));
    }

    /// Charges a slice that begins with what it is expected to cost.
    pub(crate) fn charge(&mut self, index: usize, flow: &mut Flow, expected: u64) {
        flow.in_hand += expected;
        self.in_hand += expected;
        self.place_again(index, flow);
    }

    /// Puts in what the slice did cost.
    pub(crate) fn settle(&mut self, index: usize, flow: &mut Flow, expected: u64, cost: u64) {
        flow.in_hand -= expected;
        self.in_hand -= expected;
        flow.served += cost;
        self.place_again(index, flow);
    }

    fn place_again(&mut self, index: usize, flow: &mut Flow) {
        if let Some(old) = flow.place {
            let place = self.next_place(flow, Arrival::Returned);
            self.waiting.replace((old, index), (place, index));
        }
    }

    fn next_place(&mut self, flow: &mut Flow, arrival: Arrival) -> Place {
        let place = Place { tag: flow.served + flow.in_hand, arrival, number: self.number };
        self.number += 1;
        flow.place = Some(place);
        place
    }

    /// Nothing of the flow is held any more: it is remembered until [`FairQueue::forget`] names it.
    pub(crate) fn rest(&mut self, index: usize, flow: &Flow) {
        debug_assert!(flow.place.is_none() && flow.in_hand == 0, "a flow rests when nothing of it is held");
        self.idle.insert((flow.served, index));
    }

    /// Something of a resting flow is held again.
    pub(crate) fn rise(&mut self, index: usize, flow: &Flow) {
        self.idle.remove((flow.served, index));
    }

    /// Whether a flow that comes now begins as one that was never served.
    #[cfg(test)]
    pub(crate) fn counts_nothing(&self, flow: &Flow) -> bool {
        flow.served <= self.virtual_time
    }

    /// Whether the virtual time has passed a flow of which something is held, as only forgetting makes it do.
    #[cfg(test)]
    pub(crate) fn has_passed(&self, flow: &Flow) -> bool {
        flow.served < self.virtual_time
    }

    /// No flow competes: tags have no meaning.
    pub(crate) fn level(&mut self) {
        if let Some((tag, _)) = self.idle.last() {
            self.virtual_time = self.virtual_time.max(tag);
        }
    }

    /// Removes and returns an idle flow to forget. At most `idle_max` are kept: above that the virtual time advances, so that the
    /// forgotten ones gain nothing; only then may it pass some that wait. Of those whose tags have no meaning any more at most
    /// `kept_max` are kept, which saves creating them again.
    pub(crate) fn forget(&mut self, idle_max: usize, kept_max: usize) -> Option<usize> {
        let count = self.idle.len();
        if count <= kept_max {
            return None;
        }
        let (tag, index) = self.idle.first()?;
        if tag > self.virtual_time && count <= idle_max {
            return None;
        }
        self.virtual_time = self.virtual_time.max(tag);
        self.idle.pop_first();
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows that always have something to do, served by one worker.
    fn serve(queue: &mut FairQueue, flows: &mut [Flow], costs: &[u64], slices: usize) -> Vec<usize> {
        let mut order = Vec::new();
        for _ in 0..slices {
            let index = queue.first().unwrap();
            queue.advance(&flows[index]);
            queue.leave(index, &mut flows[index]);
            queue.charge(index, &mut flows[index], 50);
            queue.settle(index, &mut flows[index], 50, costs[index]);
            queue.wait(index, &mut flows[index], Arrival::Returned);
            order.push(index);
        }
        order
    }

    #[test]
    fn service_is_shared_by_its_cost() {
        let (mut queue, mut flows) = (FairQueue::default(), [Flow::default(), Flow::default()]);
        flows.iter_mut().enumerate().for_each(|(index, flow)| queue.wait(index, flow, Arrival::New));
        assert_eq!(serve(&mut queue, &mut flows, &[30, 10], 8), [0, 1, 1, 1, 0, 1, 1, 1]);
        assert_eq!((flows[0].served, flows[1].served), (60, 60));
    }

    #[test]
    fn a_new_flow_goes_first_and_has_no_earlier_credit() {
        let (mut queue, mut flows) = (FairQueue::default(), [Flow::default(), Flow::default()]);
        queue.wait(0, &mut flows[0], Arrival::New);
        serve(&mut queue, &mut flows, &[10, 10], 100);
        queue.wait(1, &mut flows[1], Arrival::New);
        assert_eq!(serve(&mut queue, &mut flows, &[10, 10], 6), [1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn an_idle_flow_keeps_its_tag_until_the_others_reach_it() {
        let (mut queue, mut flows) = (FairQueue::default(), [Flow::default(), Flow::default()]);
        flows.iter_mut().enumerate().for_each(|(index, flow)| queue.wait(index, flow, Arrival::New));
        // One expensive slice of flow 0, which then goes idle and comes back at once.
        assert_eq!(serve(&mut queue, &mut flows, &[95, 10], 1), [0]);
        queue.leave(0, &mut flows[0]);
        queue.rest(0, &flows[0]);
        assert_eq!(queue.forget(9, 0), None);
        queue.rise(0, &flows[0]);
        queue.wait(0, &mut flows[0], Arrival::New);
        assert_eq!(serve(&mut queue, &mut flows, &[95, 10], 11), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
        queue.leave(0, &mut flows[0]);
        queue.rest(0, &flows[0]);
        serve(&mut queue, &mut flows, &[95, 10], 10);
        assert_eq!((queue.forget(9, 0), queue.forget(9, 0)), (Some(0), None));
    }

    #[test]
    fn running_slices_are_charged_their_expected_cost() {
        let (mut queue, mut flows) = (FairQueue::default(), [Flow::default(), Flow::default()]);
        flows.iter_mut().enumerate().for_each(|(index, flow)| queue.wait(index, flow, Arrival::New));
        let mut order = Vec::new();
        // Four workers take at the same moment; both flows have more waiting.
        for _ in 0..4 {
            let index = queue.first().unwrap();
            queue.advance(&flows[index]);
            queue.charge(index, &mut flows[index], 50);
            order.push(index);
        }
        assert_eq!(order, [0, 1, 0, 1]);
        assert_eq!(queue.virtual_time, 0, "nobody has been served yet");
        queue.settle(0, &mut flows[0], 50, 1);
        assert_eq!(queue.first(), Some(0), "cheaper than expected");
    }

    #[test]
    fn the_memory_for_idle_flows_is_bounded() {
        let (mut queue, mut flows) = (FairQueue::default(), (0..10).map(|_| Flow::default()).collect::<Vec<_>>());
        for (index, flow) in flows.iter_mut().enumerate() {
            flow.served = 100 + index as u64;
            queue.rest(index, flow);
        }
        let forgotten: Vec<usize> = std::iter::from_fn(|| queue.forget(4, 0)).collect();
        assert_eq!(forgotten, [0, 1, 2, 3, 4, 5]);
        assert_eq!(queue.virtual_time, 105, "what is forgotten is no credit");
    }
}
