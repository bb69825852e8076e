"""Writes the Grafana dashboard of engines and relays to standard output.

    target/deploy/venv/bin/python deploy/grafana/dashboard.py > deploy/grafana/leafseal.json

Needs `grafana-foundation-sdk` (tests/deploy/requirements.txt). A test compares the file with this program, and runs every query in a Prometheus that
scrapes a real engine.
"""

import sys
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueGraphMode, LegendDisplayMode, LegendPlacement, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")
AT = 'instance=~"$instance"'
WINDOW = "$__rate_interval"
FAILED = ', outcome!="ok"'
HIT = ', result="hit"'


@dataclass(frozen=True)
class Panel:
    """`queries` are expressions, each with the legend of its series. The unit is one of Grafana's."""

    title: str
    about: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    is_stat: bool = False
    span: int = 8
    maximum: float | None = None


def rate(metric: str, by: str, labels: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{{{AT}{labels}}}[{WINDOW}]))"


def quantile(share: float, metric: str, by: str = "", labels: str = "") -> str:
    buckets = ", ".join(filter(None, ("le", by)))
    return f"histogram_quantile({share}, {rate(f'{metric}_bucket', buckets, labels)})"


def quantiles(metric: str) -> tuple[tuple[str, str], ...]:
    return tuple((quantile(share, metric), name) for share, name in ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")))


def gauge(metric: str, labels: str = "") -> str:
    return f"{metric}{{{AT}{labels}}}"


OVERVIEW = (
    Panel("Engines ready", "Engines whose /readyz returns 200.", "none", ((f"sum({gauge('leafseal_ready')})", "ready"),), True, 4),
    Panel("Requests", "Requests that ended, all methods.", "reqps", ((rate("leafseal_requests_total", ""), "requests"),), True, 4),
    Panel("Fields", "Values encrypted, decrypted or rewrapped.", "ops", ((rate("leafseal_fields_total", ""), "fields"),), True, 4),
    Panel(
        "Requests that failed",
        "Share of requests with an outcome other than ok.",
        "percentunit",
        ((f"{rate('leafseal_requests_total', '', FAILED)} / {rate('leafseal_requests_total', '')}", "failed"),),
        True,
        4,
    ),
    Panel("Workers busy", "Share of all workers that are busy.", "percentunit",
          ((f"{rate('leafseal_worker_busy_seconds_total', '')} / sum({gauge('leafseal_workers')})", "busy"),), True, 4),
    Panel("Next certificate expires in", "The earliest expiry of all certificates in use.", "s",
          (("min(" + gauge("leafseal_certificate_expiry_timestamp_seconds") + " or " +
            gauge("leafseal_relay_certificate_expiry_timestamp_seconds") + ") - time()", "expiry"),), True, 4),
)

REQUESTS = (
    Panel("Requests by method", "Requests that ended.", "reqps", ((rate("leafseal_requests_total", "method"), "{{method}}"),)),
    Panel("Requests that failed, by outcome", "Error codes of docs/protocol.md; disconnected: the client left.", "reqps",
          ((rate("leafseal_requests_total", "outcome", FAILED) + " > 0", "{{outcome}}"),)),
    Panel("Fields by method", "Values of requests that succeeded.", "ops",
          ((rate("leafseal_fields_total", "method", ', outcome="ok"'), "{{method}}"),)),
    Panel("Service time", "From the last byte of a request until its answer is ready.", "s", quantiles("leafseal_service_seconds")),
    Panel("Service time p99 by method", "The same, for each method.", "s",
          ((quantile(0.99, "leafseal_service_seconds", "method"), "{{method}}"),)),
    Panel("Queue wait", "From the admission of a request to its first slice.", "s", quantiles("leafseal_queue_wait_seconds")),
)

ENGINES = (
    Panel("Workers busy by engine", "Above 80 % latency grows. The autoscaler adds engines at 60 %.", "percentunit",
          ((f"{rate('leafseal_worker_busy_seconds_total', 'instance')} / on (instance) {gauge('leafseal_workers')}", "{{instance}}"),),
          maximum=1),
    Panel("Backlog", "Estimated time to finish all requests queued or running.", "s",
          ((gauge("leafseal_queue_backlog_seconds"), "{{instance}}"),)),
    Panel("Requests queued or running", "By engine.", "none", ((gauge("leafseal_queue_jobs"), "{{instance}}"),)),
    Panel("CPU time by threads", "Cores. Network threads at one core each: raise server.network_threads.", "none",
          ((rate("leafseal_cpu_seconds_total", "threads"), "{{threads}}"),)),
    Panel("Memory", "Resident memory of the process.", "bytes", ((gauge("process_resident_memory_bytes"), "{{instance}}"),)),
    Panel("Memory of messages", "Messages that arrive, messages of requests in the queue, and answers.", "bytes",
          tuple((f"sum({gauge(metric)})", name) for metric, name in (
              ("leafseal_incoming_bytes", "arriving"), ("leafseal_queue_bytes", "queued"), ("leafseal_answers_bytes", "answers")))),
    Panel("Open connections", "By engine. After a scale-out they level within server.connection_age_max.", "none",
          ((gauge("leafseal_connections_open"), "{{instance}}"),)),
    Panel("TLS handshakes", "By result.", "ops", ((rate("leafseal_handshakes_total", "result"), "{{result}}"),)),
    Panel("Network", "Bytes including TLS.", "Bps", ((rate("leafseal_network_received_bytes_total", ""), "received"),
                                                     (rate("leafseal_network_sent_bytes_total", ""), "sent"))),
    Panel("Cache hits", "Share of lookups that found an entry.", "percentunit",
          ((f"{rate('leafseal_cache_lookups_total', 'cache', HIT)} / {rate('leafseal_cache_lookups_total', 'cache')}",
            "{{cache}}"),), maximum=1),
    Panel("Slices p99", "What a worker processes before it yields: small requests wait about this long.", "s",
          ((quantile(0.99, "leafseal_slice_seconds"), "p99"),)),
    Panel("File descriptors", "Open ones as a share of the limit.", "percentunit",
          ((f"{gauge('process_open_fds')} / {gauge('process_max_fds')}", "{{instance}}"),), maximum=1),
)

API = (
    Panel("API calls by status", "Calls of the HTTPS API that ended.", "reqps", ((rate("leafseal_api_calls_total", "status"), "{{status}}"),)),
    Panel("API service time p99", "By call, including the body of the call.", "s",
          ((quantile(0.99, "leafseal_api_service_seconds", "call"), "{{call}}"),)),
    Panel("API connections", "Open ones, by engine.", "none", ((gauge("leafseal_api_connections_open"), "{{instance}}"),)),
)

AUDIT = (
    Panel("Audit records", "Records that are durable, and those that the log has lost.", "ops",
          ((rate("leafseal_audit_records_total", "result"), "{{result}}"),)),
    Panel("Audit lag", "How long records wait to be durable, and durable ones for a checkpoint.", "s",
          tuple((f"max({gauge(metric)})", name) for metric, name in (
              ("leafseal_audit_lag_seconds", "durable"), ("leafseal_audit_checkpoint_lag_seconds", "checkpoint")))),
    Panel("Audit logs that refuse", "Engines whose audit log takes no records.", "none",
          ((gauge("leafseal_audit_refuses"), "{{instance}}"),)),
    Panel("Answers withheld", "Answers that were refused because their record did not become durable.", "reqps",
          ((rate("leafseal_audit_answers_withheld_total", "instance"), "{{instance}}"),)),
    Panel("Audit bytes", "Records written, without the tree of their hashes.", "Bps", ((rate("leafseal_audit_written_bytes_total", "instance"), "{{instance}}"),)),
    Panel("Sink lag", "How long sinks of the audit log have not had all its records.", "s", ((gauge("leafseal_audit_sink_lag_seconds"), "{{instance}} {{sink}}"),)),
    Panel("Strangers", "Refusals of callers without a certificate or key.", "reqps", ((rate("leafseal_audit_strangers_total", "instance"), "{{instance}}"),)),
)

RELAYS = (
    Panel("Relay requests by status", "By class of status; 0xx: the client left.", "reqps",
          ((rate("leafseal_relay_requests_total", "listener, status"), "{{listener}} {{status}}"),)),
    Panel("Relay request time p99", "From the head of a request to the end of its answer.", "s",
          ((quantile(0.99, "leafseal_relay_request_seconds", "listener"), "{{listener}}"),)),
    Panel("Refused messages by code", "Messages that were not forwarded.", "ops",
          ((rate("leafseal_relay_refusals_total", "listener, code") + " > 0", "{{listener}} {{code}}"),)),
    Panel("Values by action", "Values that rules changed.", "ops",
          ((rate("leafseal_relay_values_total", "listener, action"), "{{listener}} {{action}}"),)),
    Panel("Memory of bodies", "Share of bodies_size_max.", "percentunit",
          ((f"{gauge('leafseal_relay_buffered_bodies_bytes')} / {gauge('leafseal_relay_buffered_bodies_limit_bytes')}", "{{instance}}"),),
          maximum=1),
    Panel("Relay connections", "Open connections of clients.", "none",
          ((f"sum by (listener) ({gauge('leafseal_relay_connections_open')})", "{{listener}}"),)),
)

ROWS = (("Overview", OVERVIEW), ("Requests", REQUESTS), ("Engines", ENGINES), ("HTTPS API", API), ("Audit log", AUDIT), ("Relays", RELAYS))


def built(panel: Panel) -> stat.Panel | timeseries.Panel:
    if panel.is_stat:
        made = stat.Panel().graph_mode(BigValueGraphMode.AREA).height(4)
    else:
        legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM).show_legend(True)
        tooltip = common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI)
        made = timeseries.Panel().legend(legend).tooltip(tooltip).min(0).height(8)
    made = made.title(panel.title).description(panel.about).unit(panel.unit).datasource(SOURCE).span(panel.span)
    if panel.maximum is not None:
        made = made.max(panel.maximum)
    for index, (expression, legend_format) in enumerate(panel.queries):
        query = prometheus.Dataquery().ref_id(chr(ord("A") + index)).datasource(SOURCE)
        made = made.with_target(query.expr(expression).legend_format(legend_format).range())
    return made


def whole() -> dashboard.Dashboard:
    engines = 'label_values({__name__=~"leafseal_ready|leafseal_relay_ready"}, instance)'
    made = (
        dashboard.Dashboard("Leafseal")
        .uid("leafseal")
        .description("Engines and relays. Metrics: docs/metrics.md and docs/relay.md.")
        .tags(["leafseal"])
        .timezone("browser")
        .time("now-1h", "now")
        .refresh("30s")
        .with_variable(dashboard.DatasourceVariable("source").label("Source").type("prometheus"))
        .with_variable(
            dashboard.QueryVariable("instance")
            .label("Instance")
            .datasource(SOURCE)
            .query(engines)
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".+")
        )
    )
    for title, panels in ROWS:
        made = made.with_row(dashboard.Row(title))
        for panel in panels:
            made = made.with_panel(built(panel))
    return made.build()


if __name__ == "__main__":
    sys.stdout.write(JSONEncoder(sort_keys=True, indent=2).encode(whole()) + "\n")
