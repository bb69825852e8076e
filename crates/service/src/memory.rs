//! Memory budgets, charged before memory is allocated: for all connections, for those of a client and for one; and shares of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory is ample while no more than this part of it is used.
const AMPLE_PART: usize = 4;

/// The bytes that all connections, those of one client, or one connection may hold for one purpose.
#[derive(Debug)]
pub struct MemoryBudget {
    used: AtomicUsize,
    max: usize,
    /// Whether a single share may exceed `max`.
    admits_one: bool,
    /// The budget that this one is part of.
    whole: Option<Arc<MemoryBudget>>,
}

impl MemoryBudget {
    /// Creates a budget that is part of `whole`, if there is one.
    pub fn new(max: usize, whole: Option<Arc<MemoryBudget>>) -> Self {
        MemoryBudget { used: AtomicUsize::new(0), max, admits_one: false, whole }
    }

    /// A budget in which a single share may exceed the limit; the limit of `whole` still applies to it.
    pub fn admitting_one(max: usize, whole: Arc<MemoryBudget>) -> Self {
        MemoryBudget { admits_one: true, ..MemoryBudget::new(max, Some(whole)) }
    }

    /// Bytes that all shares hold.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Adds `more` bytes to a share that holds `held`, in this budget and all that it is part of, or in none; up to a `part`-th of each.
    fn take(&self, held: usize, more: usize, part: usize) -> Result<(), Exhausted> {
        let fits = |used: usize| used + more <= self.max / part || (part == 1 && self.admits_one && used == held);
        let taken = |used: usize| fits(used).then_some(used + more);
        let update = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
        update.map_err(|_| Exhausted)?;
        let taken = self.whole.as_ref().map_or(Ok(()), |whole| whole.take(held, more, part));
        if taken.is_err() {
            self.used.fetch_sub(more, Ordering::Relaxed);
        }
        taken
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
        }
    }
}

/// The part of a budget that one holder uses, released on drop.
#[derive(Debug)]
pub struct Share {
    budget: Arc<MemoryBudget>,
    bytes: usize,
}

/// The budget is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

impl Share {
    /// Sets the size of the share. If the budget does not allow it, nothing changes.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.resize_in_part(bytes, 1)
    }

    /// The same for memory that is useful but not needed: succeeds only if at most a quarter of the budget is then used.
    pub fn resize_while_ample(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.resize_in_part(bytes, AMPLE_PART)
    }

    fn resize_in_part(&mut self, bytes: usize, part: usize) -> Result<(), Exhausted> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.budget.take(self.bytes, more, part)?,
            None => self.budget.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Moves the share out, leaving an empty one.
    pub fn take(&mut self) -> Share {
        Share { budget: Arc::clone(&self.budget), bytes: std::mem::take(&mut self.bytes) }
    }

    /// Splits off up to `bytes` as a separate share.
    pub fn split(&mut self, bytes: usize) -> Share {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Share { budget: Arc::clone(&self.budget), bytes }
    }

    /// Merges `other`, of the same budget, into this share.
    pub fn absorb(&mut self, mut other: Share) {
        debug_assert!(Arc::ptr_eq(&self.budget, &other.budget), "bytes stay in their budget");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Creates an empty share of a budget.
    pub fn of(budget: &Arc<MemoryBudget>) -> Share {
        Share { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Creates an empty share of a new budget.
    pub fn alone(max: usize) -> Share {
        Share::of(&Arc::new(MemoryBudget::new(max, None)))
    }

    /// The sum of all shares of the budget.
    pub fn budget_used(&self) -> usize {
        self.budget.used()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_stay_within_the_budget_and_are_returned() {
        let budget = Arc::new(MemoryBudget::new(100, None));
        let share = || Share { budget: Arc::clone(&budget), bytes: 0 };
        let (mut first, mut second) = (share(), share());
        assert_eq!((first.resize(60), second.resize(40)), (Ok(()), Ok(())));
        assert_eq!((first.resize(61), second.resize(41)), (Err(Exhausted), Err(Exhausted)));
        assert_eq!((first.resize(10), second.resize(90)), (Ok(()), Ok(())));
        drop(second);
        assert_eq!(budget.used.load(Ordering::Relaxed), 10);
        let mut third = first.take();
        assert_eq!((first.resize(90), third.resize(11)), (Ok(()), Err(Exhausted)));
        first.absorb(third);
        assert_eq!(budget.used.load(Ordering::Relaxed), 100);
        assert_eq!(first.resize(101), Err(Exhausted));
        let (one, other) = (first.split(60), first.split(60));
        assert_eq!((one.bytes, other.bytes, first.bytes), (60, 40, 0));
        drop((one, first));
        assert_eq!(budget.used.load(Ordering::Relaxed), 40);
        drop(other);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn memory_is_ample_up_to_a_quarter_of_every_budget() {
        let whole = Arc::new(MemoryBudget::new(400, None));
        let part = Arc::new(MemoryBudget::new(200, Some(Arc::clone(&whole))));
        let (mut first, mut second) = (Share::of(&part), Share::of(&whole));
        assert_eq!((first.resize_while_ample(51), first.resize_while_ample(50)), (Err(Exhausted), Ok(())));
        assert_eq!((second.resize_while_ample(51), second.resize_while_ample(50)), (Err(Exhausted), Ok(())));
        assert_eq!((first.resize_while_ample(40), first.resize(150)), (Ok(()), Ok(())));
        assert_eq!((part.used(), whole.used()), (150, 200));
    }

    #[test]
    fn a_partial_budget_counts_in_the_whole_and_a_single_share_may_exceed_it() {
        let whole = Arc::new(MemoryBudget::new(100, None));
        let part =
            |max| Arc::new(MemoryBudget { admits_one: true, ..MemoryBudget::new(max, Some(Arc::clone(&whole))) });
        let (first, second) = (part(50), part(50));
        let used = || [&first, &second, &whole].map(|budget| budget.used.load(Ordering::Relaxed));
        let share = |budget: &Arc<MemoryBudget>| Share { budget: Arc::clone(budget), bytes: 0 };
        let (mut large, mut small, mut other) = (share(&first), share(&first), share(&second));
        assert_eq!((large.resize(20), large.resize(70), small.resize(1)), (Ok(()), Ok(()), Err(Exhausted)));
        assert_eq!((other.resize(31), other.resize(30)), (Err(Exhausted), Ok(())));
        assert_eq!(used(), [70, 30, 100]);
        assert_eq!((large.resize(71), large.resize(49), small.resize(1)), (Err(Exhausted), Ok(()), Ok(())));
        assert_eq!((small.resize(2), large.resize(50)), (Err(Exhausted), Err(Exhausted)));
        assert_eq!(used(), [50, 30, 80]);
        drop((large, small, other));
        assert_eq!(used(), [0, 0, 0]);
    }
}
