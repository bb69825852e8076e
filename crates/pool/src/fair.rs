//! One level of start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996) for several workers and costs that are known afterwards.
//!
//! Each flow has a tag: the nanoseconds of service that it has received. The flow with the lowest tag is served next. The virtual time is a
//! lower bound of all waiting tags: a flow that returns from idleness starts there, so that idleness gains nothing, or at its own tag if
//! that is later.
//!
//! The cost of a slice is known only when it ends. Until then the flow is charged the expected cost; otherwise all workers would choose the
//! flow that is behind. The virtual time excludes running slices: a flow whose slices were cheaper than expected never falls behind it, and
//! no waiting flow is served before a new one.

use crate::front::Front;

/// Why a flow waits. Determines the order of equal tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FlowArrival {
    /// It has new work.
    New,
    /// Its work was interrupted.
    Returned,
}

/// The account of a flow in its [`FairQueue`].
#[derive(Debug, Default)]
pub(crate) struct FlowAccount {
    /// Nanoseconds of service so far, or the virtual time from which it began.
    served: u64,
    /// Expected cost of its running slices.
    running_cost: u64,
    /// Set while the flow waits.
    place: Option<QueuePosition>,
}

impl FlowAccount {
    /// The tag, by which flows are ordered.
    #[cfg(test)]
    pub(crate) fn tag(&self) -> u64 {
        self.served + self.running_cost
    }
}

/// The position of a flow in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct QueuePosition {
    tag: u64,
    arrival: FlowArrival,
    /// Breaks ties: first come, first served.
    number: u64,
}

/// Flows that wait or are remembered, by their index.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    virtual_time: u64,
    waiting: Front<(QueuePosition, usize)>,
    /// Flows without jobs whose tags the virtual time has not reached.
    idle: Front<(u64, usize)>,
    /// Expected cost of all running slices.
    running_cost: u64,
    number: u64,
}

impl FairQueue {
    /// The flow to be served next.
    pub(crate) fn first(&self) -> Option<usize> {
        self.waiting.first().map(|(_, index)| index)
    }

    /// Whether exactly one flow waits.
    pub(crate) fn has_one(&self) -> bool {
        self.waiting.len() == 1
    }

    /// Queues a flow that has work.
    pub(crate) fn wait(&mut self, index: usize, flow: &mut FlowAccount, arrival: FlowArrival) {
        debug_assert!(flow.place.is_none(), "a flow waits once");
        flow.served = flow.served.max(self.virtual_time);
        let place = self.next_place(flow, arrival);
        self.waiting.insert((place, index));
    }

    /// Removes a flow that has no waiting work.
    pub(crate) fn leave(&mut self, index: usize, flow: &mut FlowAccount) {
        let place = flow.place.take().expect("only who waits leaves");
        self.waiting.remove((place, index));
    }

    /// Advances the virtual time to the flow that is about to be served.
    pub(crate) fn advance(&mut self, flow: &FlowAccount) {
        let place = flow.place.expect("only who waits is served");
        self.virtual_time = self.virtual_time.max(place.tag.saturating_sub(self.running_cost));
    }

    /// Charges a slice that begins its expected cost.
    pub(crate) fn charge(&mut self, index: usize, flow: &mut FlowAccount, expected: u64) {
        flow.running_cost += expected;
        self.running_cost += expected;
        self.place_again(index, flow);
    }

    /// Replaces the expected cost of a slice by its actual cost.
    pub(crate) fn settle(&mut self, index: usize, flow: &mut FlowAccount, expected: u64, cost: u64) {
        flow.running_cost -= expected;
        self.running_cost -= expected;
        flow.served += cost;
        self.place_again(index, flow);
    }

    fn place_again(&mut self, index: usize, flow: &mut FlowAccount) {
        if let Some(old) = flow.place {
            let place = self.next_place(flow, FlowArrival::Returned);
            self.waiting.replace((old, index), (place, index));
        }
    }

    fn next_place(&mut self, flow: &mut FlowAccount, arrival: FlowArrival) -> QueuePosition {
        let place = QueuePosition { tag: flow.served + flow.running_cost, arrival, number: self.number };
        self.number += 1;
        flow.place = Some(place);
        place
    }

    /// Marks a flow without jobs as idle: it is remembered until [`FairQueue::forget`] returns it.
    pub(crate) fn become_idle(&mut self, index: usize, flow: &FlowAccount) {
        debug_assert!(flow.place.is_none() && flow.running_cost == 0, "a flow rests when nothing of it is held");
        self.idle.insert((flow.served, index));
    }

    /// Marks an idle flow as active again.
    pub(crate) fn become_active(&mut self, index: usize, flow: &FlowAccount) {
        self.idle.remove((flow.served, index));
    }

    /// Whether a flow that returns now begins like a new one.
    #[cfg(test)]
    pub(crate) fn is_like_new(&self, flow: &FlowAccount) -> bool {
        flow.served <= self.virtual_time
    }

    /// Whether the virtual time has passed the tag of an active flow, which only forgetting can cause.
    #[cfg(test)]
    pub(crate) fn has_passed(&self, flow: &FlowAccount) -> bool {
        flow.served < self.virtual_time
    }

    /// Resets the queue when no flow competes and tags have no meaning.
    pub(crate) fn reset(&mut self) {
        if let Some((tag, _)) = self.idle.last() {
            self.virtual_time = self.virtual_time.max(tag);
        }
    }

    /// Removes and returns an idle flow to forget. At most `idle_max` are kept: above that the virtual time advances, so that forgotten
    /// flows gain nothing; only then may it pass waiting ones. At most `kept_max` of those whose tags have no meaning any more are kept,
    /// which saves creating them again.
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

    /// Flows that always have work, served by one worker.
    fn serve(queue: &mut FairQueue, flows: &mut [FlowAccount], costs: &[u64], slices: usize) -> Vec<usize> {
        let mut order = Vec::new();
        for _ in 0..slices {
            let index = queue.first().unwrap();
            queue.advance(&flows[index]);
            queue.leave(index, &mut flows[index]);
            queue.charge(index, &mut flows[index], 50);
            queue.settle(index, &mut flows[index], 50, costs[index]);
            queue.wait(index, &mut flows[index], FlowArrival::Returned);
            order.push(index);
        }
        order
    }

    #[test]
    fn service_is_shared_by_its_cost() {
        let (mut queue, mut flows) = (FairQueue::default(), [FlowAccount::default(), FlowAccount::default()]);
        flows.iter_mut().enumerate().for_each(|(index, flow)| queue.wait(index, flow, FlowArrival::New));
        assert_eq!(serve(&mut queue, &mut flows, &[30, 10], 8), [0, 1, 1, 1, 0, 1, 1, 1]);
        assert_eq!((flows[0].served, flows[1].served), (60, 60));
    }

    #[test]
    fn a_new_flow_goes_first_and_has_no_earlier_credit() {
        let (mut queue, mut flows) = (FairQueue::default(), [FlowAccount::default(), FlowAccount::default()]);
        queue.wait(0, &mut flows[0], FlowArrival::New);
        serve(&mut queue, &mut flows, &[10, 10], 100);
        queue.wait(1, &mut flows[1], FlowArrival::New);
        assert_eq!(serve(&mut queue, &mut flows, &[10, 10], 6), [1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn an_idle_flow_keeps_its_tag_until_the_others_reach_it() {
        let (mut queue, mut flows) = (FairQueue::default(), [FlowAccount::default(), FlowAccount::default()]);
        flows.iter_mut().enumerate().for_each(|(index, flow)| queue.wait(index, flow, FlowArrival::New));
        // Flow 0 gets one expensive slice, becomes idle and returns at once.
        assert_eq!(serve(&mut queue, &mut flows, &[95, 10], 1), [0]);
        queue.leave(0, &mut flows[0]);
        queue.become_idle(0, &flows[0]);
        assert_eq!(queue.forget(9, 0), None);
        queue.become_active(0, &flows[0]);
        queue.wait(0, &mut flows[0], FlowArrival::New);
        assert_eq!(serve(&mut queue, &mut flows, &[95, 10], 11), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]);
        queue.leave(0, &mut flows[0]);
        queue.become_idle(0, &flows[0]);
        serve(&mut queue, &mut flows, &[95, 10], 10);
        assert_eq!((queue.forget(9, 0), queue.forget(9, 0)), (Some(0), None));
    }

    #[test]
    fn running_slices_are_charged_their_expected_cost() {
        let (mut queue, mut flows) = (FairQueue::default(), [FlowAccount::default(), FlowAccount::default()]);
        flows.iter_mut().enumerate().for_each(|(index, flow)| queue.wait(index, flow, FlowArrival::New));
        let mut order = Vec::new();
        // Four workers take slices at the same time; both flows have more work.
        for _ in 0..4 {
            let index = queue.first().unwrap();
            queue.advance(&flows[index]);
            queue.charge(index, &mut flows[index], 50);
            order.push(index);
        }
        assert_eq!(order, [0, 1, 0, 1]);
        assert_eq!(queue.virtual_time, 0, "no job has been served yet");
        queue.settle(0, &mut flows[0], 50, 1);
        assert_eq!(queue.first(), Some(0), "cheaper than expected");
    }

    #[test]
    fn the_memory_for_idle_flows_is_bounded() {
        let (mut queue, mut flows) =
            (FairQueue::default(), (0..10).map(|_| FlowAccount::default()).collect::<Vec<_>>());
        for (index, flow) in flows.iter_mut().enumerate() {
            flow.served = 100 + index as u64;
            queue.become_idle(index, flow);
        }
        let forgotten: Vec<usize> = std::iter::from_fn(|| queue.forget(4, 0)).collect();
        assert_eq!(forgotten, [0, 1, 2, 3, 4, 5]);
        assert_eq!(queue.virtual_time, 105, "what is forgotten is no credit");
    }
}
