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

const SINK_WAITING: MetricName = MetricName::plain(
    "audit_sink_records_waiting",
    "Signed records of the audit log that a sink has not taken, by sink",
);
const SINK_LAG: MetricName =
    MetricName::seconds("audit_sink_lag", "How long ago a sink had every signed record; 0 if it has, by sink");
const SINK_REFUSED: MetricName = MetricName::plain(
    "audit_sink_records_refused",
    "Records that a sink has refused for what is in them, and that are not sent to it again, by sink",
);
const FORWARDING_STOPPED: MetricName = MetricName::plain(
    "audit_forwarding_stopped",
    "1 while sinks, witnesses or the address of a witness are set and nothing is sent or answered, because the log is not open or the \
     address cannot be bound",
);
const FORGED_CURSORS: MetricName = MetricName::plain(
    "audit_cursors_forged",
    "Files with the place of a sink that somebody else than this engine has written: the sink gets all records again",
);
const FORKS: MetricName = MetricName::plain(
    "audit_witness_forks",
    "Times that a log showed this engine, its witness, another history than the one that it has cosigned",
);

/// Writes the figures; all are 0 without an audit log.
pub(super) fn write(audit: &AuditFigures, out: &mut MetricsWriter<'_>) -> fmt::Result {
    let AuditFigures { is_on, refuses, not_recorded, withheld, strangers, recorder, ref forwarding } = *audit;
    out.gauge(ENABLED, u64::from(is_on))?;
    out.gauge(REFUSES, u64::from(refuses))?;
    out.counters(RECORDS, ["result"], [(["durable"], recorder.durable), (["lost"], recorder.lost + not_recorded)])?;
    out.counter(RECORD_BYTES, recorder.durable_bytes)?;
    out.gauge(WAITING, recorder.waiting_bytes as u64)?;
    out.gauge(LAG, recorder.lag.as_secs_f64())?;
    out.gauge(CHECKPOINT_LAG, recorder.checkpoint_lag.as_secs_f64())?;
    out.counter(WITHHELD, withheld)?;
    out.counter(STRANGERS, strangers)?;
    let sinks = || forwarding.sinks.iter().map(|sink| ([sink.name.as_str()], sink));
    out.gauges(SINK_WAITING, ["sink"], sinks().map(|(labels, sink)| (labels, sink.waiting)))?;
    out.gauges(SINK_LAG, ["sink"], sinks().map(|(labels, sink)| (labels, sink.lag.as_secs_f64())))?;
    out.counters(SINK_REFUSED, ["sink"], sinks().map(|(labels, sink)| (labels, sink.refused)))?;
    out.gauge(FORWARDING_STOPPED, u64::from(forwarding.has_stopped))?;
    out.counter(FORGED_CURSORS, forwarding.forged_cursors)?;
    out.counter(FORKS, forwarding.forks)
}
