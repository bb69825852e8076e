//! Metrics of the audit log.

use std::fmt;

use leafseal_net::metrics::{MetricName, MetricsWriter};

use crate::audit::AuditFigures;

const ENABLED: MetricName = MetricName::plain("audit_enabled", "1 if there is an audit log (audit.folder), else 0");
const REFUSES: MetricName = MetricName::plain(
    "audit_refuses",
    "1 while the audit log takes no records, because its folder cannot be opened or its disk refuses; what waits for a record \
     (audit.wait) is refused with audit_unavailable meanwhile",
);
const RECORDS: MetricName = MetricName::plain(
    "audit_records",
    "Records of the audit log, by result: durable; lost, because too many waited for a disk that refused, or because the log was not open. \
     A record of kind gap has the number of those that the open log has lost",
);
const RECORD_BYTES: MetricName =
    MetricName::bytes("audit_written", "Bytes of the durable records, without the tree of their hashes");
const WAITING: MetricName =
    MetricName::bytes("audit_waiting", "Bytes of records that are not durable yet: at most audit.waiting_bytes_max");
const LAG: MetricName =
    MetricName::seconds("audit_lag", "How long the oldest record that is not durable has waited; 0 if none waits");
const CHECKPOINT_LAG: MetricName = MetricName::seconds(
    "audit_checkpoint_lag",
    "How long durable records have waited for a signed checkpoint that covers them; 0 if the newest covers all",
);
const WITHHELD: MetricName = MetricName::plain(
    "audit_answers_withheld",
    "Answers that were replaced with audit_unavailable because their record did not become durable",
);
const STRANGERS: MetricName = MetricName::plain(
    "audit_strangers",
    "Refusals of callers who have shown no certificate and no key, which the audit log counts by address instead of recording each",
);

/// Writes the figures; all are 0 without an audit log.
pub(super) fn write(audit: &AuditFigures, out: &mut MetricsWriter<'_>) -> fmt::Result {
    let AuditFigures { is_on, refuses, not_recorded, withheld, strangers, recorder } = *audit;
    out.gauge(ENABLED, u64::from(is_on))?;
    out.gauge(REFUSES, u64::from(refuses))?;
    out.counters(RECORDS, ["result"], [(["durable"], recorder.durable), (["lost"], recorder.lost + not_recorded)])?;
    out.counter(RECORD_BYTES, recorder.durable_bytes)?;
    out.gauge(WAITING, recorder.waiting_bytes as u64)?;
    out.gauge(LAG, recorder.lag.as_secs_f64())?;
    out.gauge(CHECKPOINT_LAG, recorder.checkpoint_lag.as_secs_f64())?;
    out.counter(WITHHELD, withheld)?;
    out.counter(STRANGERS, strangers)
}
