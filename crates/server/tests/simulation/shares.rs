//! The workers' time by flow, as the pool counts it: by slices, from start to return.

use std::collections::BTreeMap;
use std::time::Instant;

/// The owner of the work. All requests of a schedule belong to one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub app: String,
    pub connection: u64,
}

/// An app, or one of its connections.
type Account = (String, Option<u64>);

impl Flow {
    fn app(&self) -> Account {
        (self.app.clone(), None)
    }

    fn connection(&self) -> Account {
        (self.app.clone(), Some(self.connection))
    }
}

/// Nanoseconds of worker time.
pub(crate) type Served = BTreeMap<Account, u64>;

#[derive(Default)]
pub(crate) struct Shares {
    served: Served,
    /// The outermost first.
    slices: Vec<Slice>,
    longest_ns: u64,
}

struct Slice {
    began: Instant,
    /// Set by its first step. Slices that only end a request have none, and take no simulated time.
    flow: Option<Flow>,
}

impl Shares {
    pub(crate) fn begin_slice(&mut self, now: Instant) {
        self.slices.push(Slice { began: now, flow: None });
    }

    pub(crate) fn end_slice(&mut self, now: Instant) {
        let Slice { began, flow } = self.slices.pop().expect("it has begun");
        let Some(flow) = flow else { return };
        let took_ns = nanoseconds(began, now);
        self.longest_ns = self.longest_ns.max(took_ns);
        for account in [flow.app(), flow.connection()] {
            *self.served.entry(account).or_default() += took_ns;
        }
    }

    /// Begins a step. Returns true if it is the first of its slice.
    pub(crate) fn begin_step(&mut self, flow: &Flow) -> bool {
        let slice = self.slices.last_mut().expect("steps are in slices");
        let is_first = slice.flow.is_none();
        slice.flow.get_or_insert_with(|| flow.clone());
        is_first
    }

    pub(crate) fn served(&self) -> Served {
        self.served.clone()
    }

    /// By how much `flow` has received more than `other` since then, at the outermost level where they differ; 0 if they do not.
    pub(crate) fn lead_ns(&self, flow: &Flow, other: &Flow, since: &Served) -> u64 {
        let (account, other) = match flow.app == other.app {
            true => (flow.connection(), other.connection()),
            false => (flow.app(), other.app()),
        };
        let got = |account| {
            let now = self.served.get(account).copied().unwrap_or_default();
            now - since.get(account).copied().unwrap_or_default()
        };
        got(&account).saturating_sub(got(&other))
    }

    /// The longest slice so far, including running ones.
    pub(crate) fn longest_ns(&self, now: Instant) -> u64 {
        let in_hand = self.slices.iter().map(|slice| nanoseconds(slice.began, now));
        in_hand.fold(self.longest_ns, u64::max)
    }
}

fn nanoseconds(began: Instant, now: Instant) -> u64 {
    u64::try_from((now - began).as_nanos()).expect("short")
}
