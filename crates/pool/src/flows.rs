//! The levels at which work is shared: tenants, the clients of a tenant, the connections of a client, and the lanes of a connection.
//!
//! A node represents one of them while it has jobs, or while its tag still counts in its parent's [`FairQueue`]. Node 0 is the root. Jobs
//! are in the lanes of connections.

use foldhash::HashMap;
use slab::Slab;

use crate::estimate::{Costs, LevelLoad};
use crate::fair::{FairQueue, FlowAccount, FlowArrival};
use crate::list::{Linked, LinkedList};

/// From the outermost level to the innermost: the owner of the job, its sender, and its connection.
pub(crate) type FlowPath = [u64; 3];

/// Jobs of a connection that must stop run first, but after this much time with them a live job of the connection has its turn.
pub(crate) const ENDING_TURN_NS: u64 = 50_000;
/// Maximum number of flows that one operation forgets per level.
const FORGOTTEN_MAX: usize = 2;
/// Tenants and clients without jobs that are remembered, in addition to the number of jobs.
pub(crate) const IDLE_FLOWS_SPARE: usize = 64;
/// Connections of a client without jobs that are remembered. Unlike tenants and clients, connections cost nothing to create: short-lived
/// connections of a client together get as much as this many plus one permanent ones.
pub(crate) const IDLE_CONNECTIONS_MAX: usize = 8;

/// Tenants, clients of a tenant and connections of a client that are kept although they have no jobs and their tags have no meaning, so
/// that the next job need not create them again.
const KEPT_TENANTS_MAX: usize = 64;
const KEPT_MAX: usize = 1;

const ROOT: usize = 0;
/// The level of clients.
const CLIENT: usize = 2;

#[derive(Debug, Default)]
struct FlowNode {
    parent: usize,
    id: u64,
    /// Its account among its parent's children.
    flow: FlowAccount,
    lanes: ConnectionLanes,
    /// The number of jobs.
    entries: usize,
    /// Children with jobs; for a connection the jobs themselves.
    competitors: usize,
    /// Service that its jobs are expected to need, in nanoseconds.
    backlog: u64,
    /// The costs of a client's jobs.
    costs: Costs,
    /// Its depth: 0 for the root.
    level: usize,
}

/// The lanes in which the jobs of a connection wait.
#[derive(Debug, Default)]
struct ConnectionLanes {
    live: LinkedList,
    /// Jobs that must stop.
    ending: LinkedList,
    /// Time spent on stopping jobs since a live one had its turn.
    ended_ns: u64,
}

impl ConnectionLanes {
    fn is_empty(&self) -> bool {
        self.live.is_empty() && self.ending.is_empty()
    }

    fn has_one(&self) -> bool {
        (self.live.has_one() && self.ending.is_empty()) || (self.ending.has_one() && self.live.is_empty())
    }

    /// The next job: one that must stop, unless live ones have waited long enough.
    fn first(&self) -> Option<usize> {
        let is_live_due = self.ended_ns >= ENDING_TURN_NS && !self.live.is_empty();
        let ending = self.ending.first().filter(|_| !is_live_due);
        ending.or(self.live.first())
    }
}

/// A lane of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionLane {
    Live,
    /// For jobs that must stop, each once.
    Ending,
}

/// A finished slice, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettledSlice {
    /// The expected and the actual cost.
    pub(crate) expected: u64,
    pub(crate) cost: u64,
    /// The remaining cost of its job before and now.
    pub(crate) before: u64,
    pub(crate) after: u64,
}

#[derive(Debug)]
pub(crate) struct Flows {
    nodes: Slab<FlowNode>,
    /// The queue of each node's children, by the node's index.
    queues: Slab<FairQueue>,
    by_id: HashMap<(usize, u64), usize>,
}

impl Flows {
    pub(crate) fn new() -> Self {
        let (mut nodes, mut queues) = (Slab::new(), Slab::new());
        insert(&mut nodes, &mut queues, FlowNode::default());
        Flows { nodes, queues, by_id: HashMap::default() }
    }

    /// A node, and the queue in which it waits.
    #[inline]
    fn pair(&mut self, index: usize) -> (&mut FlowNode, &mut FairQueue) {
        let node = &mut self.nodes[index];
        let queue = &mut self.queues[node.parent];
        (node, queue)
    }

    /// Counts a job; returns its connection.
    pub(crate) fn enter(&mut self, path: FlowPath) -> usize {
        self.nodes[ROOT].entries += 1;
        let mut parent = ROOT;
        for (level, id) in (1..).zip(path) {
            let Flows { nodes, queues, by_id } = self;
            let new = || insert(nodes, queues, FlowNode { parent, id, level, ..FlowNode::default() });
            let index = *by_id.entry((parent, id)).or_insert_with(new);
            let (node, queue) = self.pair(index);
            node.entries += 1;
            if node.entries == 1 {
                queue.become_active(index, &node.flow);
                self.nodes[parent].competitors += 1;
            }
            parent = index;
        }
        self.nodes[parent].competitors += 1;
        parent
    }

    /// Stops counting a job.
    pub(crate) fn exit(&mut self, connection: usize) {
        self.nodes[connection].competitors -= 1;
        let mut index = connection;
        while index != ROOT {
            let (node, queue) = self.pair(index);
            let parent = node.parent;
            node.entries -= 1;
            if node.entries == 0 {
                queue.become_idle(index, &node.flow);
                self.nodes[parent].competitors -= 1;
            }
            index = parent;
        }
        self.nodes[ROOT].entries -= 1;
        self.forget(connection);
    }

    /// Queues a job in a lane of its connection.
    pub(crate) fn wait<T: Linked>(
        &mut self,
        connection: usize,
        lane: ConnectionLane,
        arrival: FlowArrival,
        items: &mut Slab<T>,
        job: usize,
    ) {
        let lanes = &mut self.nodes[connection].lanes;
        let was_empty = lanes.is_empty();
        match lane {
            ConnectionLane::Live => lanes.live.push_last(items, job),
            ConnectionLane::Ending => lanes.ending.push_last(items, job),
        }
        let mut index = connection;
        let mut begins = was_empty;
        while begins && index != ROOT {
            let (node, queue) = self.pair(index);
            begins = queue.first().is_none();
            queue.wait(index, &mut node.flow, arrival);
            index = node.parent;
        }
    }

    /// Takes the first job out of its lane for a slice, and charges the slice's expected cost; the virtual times advance to it.
    pub(crate) fn begin<T: Linked>(
        &mut self,
        connection: usize,
        lane: ConnectionLane,
        items: &mut Slab<T>,
        job: usize,
        expected: u64,
    ) {
        self.take_out(connection, lane, items, job, Some(expected));
    }

    /// Takes a job out of its lane.
    pub(crate) fn leave<T: Linked>(
        &mut self,
        connection: usize,
        lane: ConnectionLane,
        items: &mut Slab<T>,
        job: usize,
    ) {
        self.take_out(connection, lane, items, job, None);
    }

    /// Takes a job out of its lane. If a slice of it begins, its expected cost is charged.
    fn take_out<T: Linked>(
        &mut self,
        connection: usize,
        lane: ConnectionLane,
        items: &mut Slab<T>,
        job: usize,
        expected: Option<u64>,
    ) {
        let lanes = &mut self.nodes[connection].lanes;
        match lane {
            ConnectionLane::Live => {
                lanes.live.remove(items, job);
                if expected.is_some() {
                    lanes.ended_ns = 0;
                }
            }
            ConnectionLane::Ending => lanes.ending.remove(items, job),
        }
        let mut ends = lanes.is_empty();
        let mut index = connection;
        while index != ROOT {
            let (node, queue) = self.pair(index);
            if expected.is_some() {
                queue.advance(&node.flow);
            }
            if ends {
                queue.leave(index, &mut node.flow);
                ends = queue.first().is_none();
            }
            if let Some(expected) = expected {
                queue.charge(index, &mut node.flow, expected);
            }
            index = node.parent;
        }
    }

    /// Moves a waiting live job to those that must stop.
    pub(crate) fn put_first<T: Linked>(&mut self, connection: usize, items: &mut Slab<T>, job: usize) {
        let lanes = &mut self.nodes[connection].lanes;
        lanes.live.remove(items, job);
        lanes.ending.push_last(items, job);
    }

    /// The job whose turn it is.
    pub(crate) fn first(&self) -> Option<usize> {
        let mut index = ROOT;
        while let Some(child) = self.queues[index].first() {
            index = child;
        }
        self.nodes[index].lanes.first()
    }

    /// Whether no other job of the tenant waits than one of this connection.
    pub(crate) fn waits_alone(&self, connection: usize) -> bool {
        let client = self.nodes[connection].parent;
        let tenant = self.nodes[client].parent;
        self.nodes[connection].lanes.has_one() && [client, tenant].iter().all(|&level| self.queues[level].has_one())
    }

    /// Charges a slice of a job that is in no lane.
    pub(crate) fn charge(&mut self, connection: usize, expected: u64) {
        let mut index = connection;
        while index != ROOT {
            let (node, queue) = self.pair(index);
            queue.charge(index, &mut node.flow, expected);
            index = node.parent;
        }
    }

    /// Settles the cost of a slice, and the decrease of its job's remaining cost.
    pub(crate) fn settle(&mut self, connection: usize, lane: ConnectionLane, slice: SettledSlice) {
        let SettledSlice { expected, cost, before, after } = slice;
        let connection_node = &mut self.nodes[connection];
        if lane == ConnectionLane::Ending {
            connection_node.lanes.ended_ns += cost;
        }
        let mut index = connection;
        while index != ROOT {
            let (node, queue) = self.pair(index);
            queue.settle(index, &mut node.flow, expected, cost);
            node.backlog = node.backlog + after - before;
            index = node.parent;
        }
        let root = &mut self.nodes[ROOT];
        root.backlog = root.backlog + after - before;
    }

    /// Changes the expected remaining cost of a job from `before` to `after` nanoseconds.
    pub(crate) fn expect(&mut self, connection: usize, before: u64, after: u64) {
        if before == after {
            return;
        }
        let mut index = connection;
        loop {
            let node = &mut self.nodes[index];
            node.backlog = node.backlog + after - before;
            if index == ROOT {
                break;
            }
            index = node.parent;
        }
    }

    /// Nanoseconds of service that all jobs are expected to need.
    pub(crate) fn backlog(&self) -> u64 {
        self.nodes[ROOT].backlog
    }

    /// Whether this tenant has no jobs.
    pub(crate) fn is_quiet(&self, tenant: u64) -> bool {
        self.by_id.get(&(ROOT, tenant)).is_none_or(|&index| self.nodes[index].entries == 0)
    }

    /// The costs of a client's jobs, if it is remembered.
    pub(crate) fn costs_of(&mut self, tenant: u64, client: u64) -> Option<&mut Costs> {
        let tenant = *self.by_id.get(&(ROOT, tenant))?;
        let client = *self.by_id.get(&(tenant, client))?;
        Some(&mut self.nodes[client].costs)
    }

    /// The costs of the jobs of the connection's client.
    pub(crate) fn costs_mut(&mut self, connection: usize) -> &mut Costs {
        let client = self.nodes[connection].parent;
        &mut self.nodes[client].costs
    }

    /// The jobs held on each level, from the connection to the root, as a new job would find them.
    pub(crate) fn loads(&self, path: FlowPath) -> [LevelLoad; 4] {
        let mut loads = [LevelLoad { backlog: 0.0, competitors: 1.0 }; 4];
        let mut ids = path.into_iter();
        let mut index = ROOT;
        for load in loads.iter_mut().rev() {
            let node = &self.nodes[index];
            let child = ids.next().and_then(|id| self.by_id.get(&(index, id)).copied());
            let is_counted = child.is_some_and(|child| self.nodes[child].entries > 0);
            let competitors = node.competitors + usize::from(!is_counted);
            *load = LevelLoad { backlog: node.backlog as f64, competitors: competitors as f64 };
            let Some(child) = child else { break };
            index = child;
        }
        loads
    }

    /// Forgets flows without meaning: a few, so that no operation is long, but more than one operation adds. If there are no jobs at all,
    /// no flow competes, and all but a few are forgotten.
    pub(crate) fn forget(&mut self, connection: usize) {
        let mut index = connection;
        while index != ROOT {
            index = self.nodes[index].parent;
            self.forget_children(index);
        }
    }

    fn forget_children(&mut self, parent: usize) {
        let node = &mut self.nodes[parent];
        let (mut steps, mut idle_max) = (FORGOTTEN_MAX, node.entries + IDLE_FLOWS_SPARE);
        let mut kept_max = KEPT_MAX;
        match node.level {
            0 => kept_max = KEPT_TENANTS_MAX,
            CLIENT => idle_max = IDLE_CONNECTIONS_MAX,
            _ => {}
        }
        if node.entries == 0 {
            self.queues[parent].reset();
            steps = usize::MAX;
        }
        for _ in 0..steps {
            let Some(index) = self.queues[parent].forget(idle_max, kept_max) else { break };
            self.remove(index);
        }
    }

    /// Removes a node without jobs, with its descendants.
    fn remove(&mut self, index: usize) {
        while let Some(child) = self.queues[index].forget(0, 0) {
            self.remove(child);
        }
        let node = self.nodes.remove(index);
        self.queues.remove(index);
        self.by_id.remove(&(node.parent, node.id));
    }
}

/// Adds a node and the queue of its children, at the same index.
fn insert(nodes: &mut Slab<FlowNode>, queues: &mut Slab<FairQueue>, node: FlowNode) -> usize {
    let index = nodes.insert(node);
    let same = queues.insert(FairQueue::default());
    debug_assert_eq!(index, same, "both have had the same insertions and removals");
    index
}

/// For tests.
#[cfg(test)]
impl Flows {
    /// Whether there are no jobs, and no more is remembered than permitted.
    pub(crate) fn is_empty(&self) -> bool {
        let held = self.nodes.iter().map(|(_, node)| node.entries + node.competitors).sum::<usize>();
        held == 0 && self.backlog() == 0 && self.nodes.len() <= 1 + 3 * KEPT_TENANTS_MAX
    }

    /// The number of levels of `path`, from the tenant inwards, that are known, have no jobs and do not count against a new job, from the
    /// outermost such level: 3 for a quiet tenant, 1 for a quiet connection of a busy client, 0 if nothing is quiet.
    pub(crate) fn quiet_levels(&self, path: FlowPath) -> usize {
        let mut index = ROOT;
        for (level, id) in path.into_iter().enumerate() {
            let queue = &self.queues[index];
            let mut held = self
                .nodes
                .iter()
                .filter(|(_, other)| other.level == level + 1 && other.parent == index && other.entries > 0);
            let is_passed = held.any(|(_, other)| queue.has_passed(&other.flow));
            let child = self.by_id.get(&(index, id));
            let is_quiet =
                child.is_none_or(|&child| self.nodes[child].entries == 0 && queue.is_like_new(&self.nodes[child].flow));
            if is_quiet {
                return if is_passed { 0 } else { 3 - level };
            }
            index = *child.expect("it holds something");
        }
        0
    }

    /// The tags of a connection, its client and its tenant, the outermost first.
    pub(crate) fn tags(&self, connection: usize) -> [u64; 3] {
        let client = self.nodes[connection].parent;
        let tenant = self.nodes[client].parent;
        [tenant, client, connection].map(|index| self.nodes[index].flow.tag())
    }

    /// The number of remembered tenants, and for each node the number of jobs and of remembered children, with its level.
    pub(crate) fn remembered(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        self.nodes.iter().map(|(index, node)| {
            let children = self.nodes.iter().filter(|&(child, other)| child != ROOT && other.parent == index).count();
            (node.level, node.entries, children)
        })
    }
}
