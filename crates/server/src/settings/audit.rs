//! Settings of the audit log.

use std::path::PathBuf;
use std::time::Duration;

use leafseal_config::{ms, secs, settings};

/// Which answers wait until their record is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditWait {
    /// None: a record can be lost with the machine.
    None,
    /// Those with values that were decrypted.
    Decrypt,
    /// All.
    All,
}

settings! {
    /// Where the audit log is, and what waits for it.
    #[derive(Clone, Debug)]
    pub struct AuditSettings {
        /// The folder of the engine's audit logs, one for each name of an engine and root of the keystore. Without one, nothing is
        /// recorded.
        pub folder: Option<PathBuf> = None;
        /// Which answers wait until their record is durable: none, those of requests that decrypt, or all. While the log's disk refuses,
        /// what waits is refused with `audit_unavailable`, and the rest goes on and leaves a gap in the log, which says how many records it
        /// lacks.
        pub wait: AuditWait = AuditWait::Decrypt,
            one of { "none" => AuditWait::None, "decrypt" => AuditWait::Decrypt, "all" => AuditWait::All };
        /// Memory for records that wait to be written.
        pub waiting_bytes_max: usize = 8 << 20, bytes in 64 << 10..=16 << 20;
        /// Bytes of the journal, which has what is not in a signed checkpoint yet, from which on its next file begins.
        pub segment_bytes: u64 = 16 << 20, bytes in 1..=1 << 30;
        /// How often the log's size and root are signed while there are new records.
        pub checkpoint_interval: Duration = secs(1), in ms(10)..;
        /// Days for which records are kept. Older ones are removed in bundles of 256, after a signed statement from which one on the log
        /// still is. With 0, all are kept.
        pub retention_days: u32 = 0, in 0..=36_500;
    }
}
