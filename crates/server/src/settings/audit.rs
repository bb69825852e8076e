//! Settings of the audit log.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use leafseal_config::{Kind, ListItem, ms, secs, settings};
use leafseal_engine::audit::{SinkTarget, VerifierKey, WitnessTarget};

const SINKS: ListItem = ListItem {
    about: "sinks, such as [\"syslog+tls://siem.example.com:6514;ca=/etc/siem.pem;format=ocsf\", \
            \"webhook+https://hooks.example.com/audit;ca=/etc/ca.pem;secret=/etc/secret;kinds=canary,checkpoint\"]",
    is_valid: |text| SinkTarget::parse(text).is_some(),
};

const WITNESSES: ListItem = ListItem {
    about: "witnesses, each with address and public key, such as \
            [\"https://witness.example.com;witness.example.com/w1+…+…;ca=/etc/ca.pem\"]",
    is_valid: |text| WitnessTarget::parse(text).is_some(),
};

const LOG_KEYS: ListItem = ListItem {
    about: "public keys of logs, as the line \"audit log opened\" of their engines has them",
    is_valid: |text| VerifierKey::parse(text).is_ok_and(|key| !key.is_of_witness()),
};

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

/// Where records are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditDurability {
    /// On the disk of the log's folder.
    Disk,
    /// In the keystore's database.
    Keystore,
}

settings! {
    /// Where the audit log is, and what waits for it.
    #[derive(Clone)]
    pub struct AuditSettings {
        /// The folder of the engine's audit logs, one for each name of an engine and root of the keystore. Without one, nothing is
        /// recorded.
        pub folder: Option<PathBuf> = None;
        /// Which answers wait until their record is durable: none, those of requests that decrypt, or all. While the log's disk refuses,
        /// what waits is refused with `audit_unavailable`, and the rest goes on and leaves a gap in the log, which says how many records it
        /// lacks.
        pub wait: AuditWait = AuditWait::Decrypt,
            one of { "none" => AuditWait::None, "decrypt" => AuditWait::Decrypt, "all" => AuditWait::All };
        /// Where a record has to be before it counts as durable. `disk`: in the log's folder. `keystore`: in the PostgreSQL database of the
        /// keystore, for machines whose disks do not outlive a restart; the folder may then be on a `tmpfs`, and is written again from
        /// there. A keystore in a file cannot do that.
        pub durable: AuditDurability = AuditDurability::Disk,
            one of { "disk" => AuditDurability::Disk, "keystore" => AuditDurability::Keystore };
        /// How long records gather that no answer waits for, so that the disk flushes many at once. A machine that stops loses as much.
        pub gathering: Duration = ms(20), in ms(0)..;
        /// How long the disk may take for one write. Then it counts as a disk that refuses, until the write has ended.
        pub write_wait_max: Duration = secs(5), in ms(10)..;
        /// Memory for records that wait to be written, each with 128 bytes besides its text.
        pub waiting_bytes_max: usize = 8 << 20, bytes in 64 << 10..=16 << 20;
        /// Bytes of the log, in a minute, of records that peers cause whose identity nothing proves: failed TLS handshakes, wrong keys,
        /// calls without credentials. They are counted by source, and what exceeds this is counted together.
        pub strangers_bytes_max: usize = 16 << 10, bytes in 1 << 10..=1 << 20;
        /// Bytes of the journal, which has what is not in a signed checkpoint yet, from which on its next file begins.
        pub segment_bytes: u64 = 16 << 20, bytes in 1..=1 << 30;
        /// How often the log's size and root are signed while there are new records.
        pub checkpoint_interval: Duration = secs(1), in ms(10)..;
        /// Days for which records are kept. Older ones are removed in bundles of 256, after a signed statement from which one on the log
        /// still is, unless a sink or a witness has not had them yet. With 0, all are kept.
        pub retention_days: u32 = 0, in 0..=36_500;
        /// Where records are sent to as they are signed: `KIND+TRANSPORT://ADDRESS[;format=json|ocsf|ecs][;kinds=KIND,…][;ca=FILE]
        /// [;secret=FILE]`, with absolute paths. Kinds and transports: `syslog+tls`, `syslog+tcp`, `syslog+udp`, `syslog+unix`,
        /// `otlp+https`, `otlp+http`, `webhook+https`, `webhook+http`. Nothing waits for a sink.
        pub sinks: Vec<String> = Vec::new(), is kind(Kind::List(SINKS));
        /// How long a sink or a witness may take for one message.
        pub sinks_timeout: Duration = secs(10), in ms(1)..;
        /// Witnesses (C2SP `tlog-witness`) that are asked to cosign new checkpoints, each `URL;KEY[;ca=FILE]`.
        pub witnesses: Vec<String> = Vec::new(), is kind(Kind::List(WITNESSES));
        /// How many of them must cosign a checkpoint so that it replaces the one before in the file `checkpoint.cosigned`.
        pub witnesses_min: u32 = 1, in 1..=64;
        /// How often they are asked while there are new records.
        pub witnesses_interval: Duration = secs(10), in ms(10)..;
        /// Where this engine is a witness for other logs, over plain HTTP (C2SP `tlog-witness`). Not by default.
        pub witness_address: Option<SocketAddr> = None;
        /// The logs that it is a witness for.
        pub witness_logs: Vec<String> = Vec::new(), is kind(Kind::List(LOG_KEYS));
    }
}

impl AuditSettings {
    /// The numbers, from 1, of two sinks with one name: they would share a place in the log, and each record would go to one of them.
    pub(crate) fn duplicate_sinks(&self) -> Option<(usize, usize)> {
        let mut names = BTreeMap::new();
        let sinks = self.sinks.iter().zip(1..).filter_map(|(text, number)| Some((SinkTarget::parse(text)?, number)));
        sinks.into_iter().find_map(|(sink, number)| Some((names.insert(sink.name(), number)?, number)))
    }
}

/// Addresses of sinks may have secrets.
impl fmt::Debug for AuditSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditSettings").field("folder", &self.folder).field("wait", &self.wait).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinks_are_shown_to_nobody_and_are_no_two_alike() {
        let sinks = |sinks: &[&str]| AuditSettings {
            sinks: sinks.iter().map(|sink| (*sink).to_owned()).collect(),
            ..AuditSettings::default()
        };
        let secret = "webhook+http://a.example/?token=hunter2";
        assert!(!format!("{:?}", sinks(&[secret])).contains("hunter2"));
        let twice = sinks(&[secret, "syslog+udp://a:514", "webhook+http://a.example:80/?token=hunter2;secret=/key"]);
        assert_eq!(twice.duplicate_sinks(), Some((1, 3)));
        let other = "webhook+http://a.example/?token=hunter2;format=ecs";
        assert_eq!(sinks(&[secret, other, "syslog+udp://a:514"]).duplicate_sinks(), None);
    }
}
