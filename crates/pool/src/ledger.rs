//! Counts jobs and their bytes, in total, by tenant and by connection, against limits.

use std::fmt;

use foldhash::HashMap;

/// A limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReachedLimit {
    /// The scope of the limit.
    pub scope: LimitScope,
    /// The measure that it limits.
    pub measure: Measure,
}

/// The scope over which a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitScope {
    /// One connection, for jobs of all tenants.
    Connection,
    /// One tenant.
    Tenant,
    /// All jobs.
    Total,
}

/// The quantity that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Jobs.
    Jobs,
    /// Bytes.
    Bytes,
}

impl fmt::Display for ReachedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measure = match self.measure {
            Measure::Jobs => "jobs",
            Measure::Bytes => "bytes",
        };
        let scope = match self.scope {
            LimitScope::Connection => "on this connection",
            LimitScope::Tenant => "for this tenant",
            LimitScope::Total => "in all",
        };
        write!(f, "as many {measure} are held {scope} as may be")
    }
}

/// A number of jobs and bytes: in use, or a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) jobs: usize,
    pub(crate) bytes: usize,
}

impl Amount {
    /// The measure that would exceed `max` with one more job of `bytes`.
    fn exceeds(self, bytes: usize, max: Amount) -> Option<Measure> {
        if self.jobs >= max.jobs {
            Some(Measure::Jobs)
        } else if self.bytes.checked_add(bytes).is_none_or(|bytes| bytes > max.bytes) {
            Some(Measure::Bytes)
        } else {
            None
        }
    }

    fn add(&mut self, bytes: usize) {
        self.jobs += 1;
        self.bytes += bytes;
    }

    fn subtract(&mut self, bytes: usize) {
        self.jobs -= 1;
        self.bytes -= bytes;
    }
}

/// The limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LedgerLimits {
    pub(crate) total: Amount,
    pub(crate) tenant: Amount,
    pub(crate) connection: Amount,
}

/// The entry of one job, from its admission until its memory is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is entered is released, or the bounds leak"]
pub(crate) struct Receipt {
    pub(crate) tenant: u64,
    pub(crate) connection: u64,
    pub(crate) bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    limits: LedgerLimits,
    total: Amount,
    tenants: HashMap<u64, Amount>,
    connections: HashMap<u64, Amount>,
}

impl Ledger {
    pub(crate) fn new(limits: LedgerLimits) -> Self {
        Ledger { limits, total: Amount::default(), tenants: HashMap::default(), connections: HashMap::default() }
    }

    /// Adds a job, or returns the narrowest limit that forbids it.
    pub(crate) fn enter(&mut self, receipt: Receipt) -> Result<(), ReachedLimit> {
        let Receipt { tenant, connection, bytes } = receipt;
        let held = |accounts: &HashMap<u64, Amount>, key| accounts.get(&key).copied().unwrap_or_default();
        let accounts = [
            (LimitScope::Connection, held(&self.connections, connection), self.limits.connection),
            (LimitScope::Tenant, held(&self.tenants, tenant), self.limits.tenant),
            (LimitScope::Total, self.total, self.limits.total),
        ];
        for (scope, held, max) in accounts {
            if let Some(measure) = held.exceeds(bytes, max) {
                return Err(ReachedLimit { scope, measure });
            }
        }
        self.connections.entry(connection).or_default().add(bytes);
        self.tenants.entry(tenant).or_default().add(bytes);
        self.total.add(bytes);
        Ok(())
    }

    /// Removes a job.
    pub(crate) fn release(&mut self, receipt: Receipt) {
        let Receipt { tenant, connection, bytes } = receipt;
        for (accounts, key) in [(&mut self.connections, connection), (&mut self.tenants, tenant)] {
            let held = accounts.get_mut(&key).expect("only what is entered is released");
            held.subtract(bytes);
            if held.jobs == 0 {
                accounts.remove(&key);
            }
        }
        self.total.subtract(bytes);
    }

    pub(crate) fn total(&self) -> Amount {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new(LedgerLimits {
            total: Amount { jobs: 5, bytes: 100 },
            tenant: Amount { jobs: 3, bytes: 60 },
            connection: Amount { jobs: 2, bytes: 50 },
        })
    }

    fn receipt(tenant: u64, connection: u64, bytes: usize) -> Receipt {
        Receipt { tenant, connection, bytes }
    }

    #[test]
    fn the_narrowest_bound_is_named_at_the_job_and_at_the_byte() {
        let mut ledger = ledger();
        let refused = |scope, measure| Err(ReachedLimit { scope, measure });
        assert_eq!(ledger.enter(receipt(1, 1, 51)), refused(LimitScope::Connection, Measure::Bytes));
        ledger.enter(receipt(1, 1, 50)).unwrap();
        assert_eq!(ledger.enter(receipt(1, 1, 1)), refused(LimitScope::Connection, Measure::Bytes));
        assert_eq!(ledger.enter(receipt(1, 2, 11)), refused(LimitScope::Tenant, Measure::Bytes));
        ledger.enter(receipt(2, 1, 0)).unwrap();
        assert_eq!(
            ledger.enter(receipt(3, 1, 0)),
            refused(LimitScope::Connection, Measure::Jobs),
            "whatever the tenants"
        );
        ledger.enter(receipt(1, 2, 10)).unwrap();
        ledger.enter(receipt(1, 3, 0)).unwrap();
        assert_eq!(ledger.enter(receipt(1, 4, 0)), refused(LimitScope::Tenant, Measure::Jobs));
        assert_eq!(ledger.enter(receipt(2, 4, 41)), refused(LimitScope::Total, Measure::Bytes));
        ledger.enter(receipt(2, 4, 40)).unwrap();
        assert_eq!(ledger.enter(receipt(4, 5, 0)), refused(LimitScope::Total, Measure::Jobs));
        assert_eq!(ledger.enter(receipt(4, 5, usize::MAX)), refused(LimitScope::Connection, Measure::Bytes));
        assert_eq!(ledger.total(), Amount { jobs: 5, bytes: 100 });
    }

    #[test]
    fn released_objects_leave_no_memory() {
        let mut ledger = ledger();
        let receipts = [receipt(1, 1, 20), receipt(1, 2, 30), receipt(2, 1, 5)];
        receipts.iter().for_each(|&receipt| ledger.enter(receipt).unwrap());
        receipts.iter().for_each(|&receipt| ledger.release(receipt));
        assert_eq!(ledger.total(), Amount::default());
        assert!(ledger.tenants.is_empty() && ledger.connections.is_empty());
    }
}
