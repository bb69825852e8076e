"""Alert rules and dashboard against a real Prometheus that scrapes a real engine and relay under load."""

import json
import math
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from files import CHART, DEPLOY, ROOT, manifests, only, program, rendered, run
from ports import free_ports

RULES = DEPLOY / "prometheus/alerts.yml"
DASHBOARD = DEPLOY / "grafana/leafseal.json"
ADAPTER = DEPLOY / "prometheus/adapter.yaml"
PATIENCE_SECONDS = 240
"""Longer than the slowest start and scrape on a busy machine."""
JOBS = ("leafseal", "leafseal-relay")

# Queries and selectors without data in a healthy installation, each with the reason.
EMPTY = {
    'leafseal_tls_signature_fallbacks_total{reason="fault"}': "the CPU computes no wrong signatures, and families have only combinations that have occurred",
    'leafseal_handshakes_total{result="failed"}': "no handshake fails here",
    "leafseal_relay_unopened_total": "a relay whose rules encrypt opens nothing",
}


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        return answer.read()


@dataclass(frozen=True)
class Prometheus:
    port: int

    def ask(self, path: str, **parameters: str) -> dict:
        answer = json.loads(get(f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))
        assert answer["status"] == "success", answer
        return answer["data"]

    def values(self, query: str) -> list[float]:
        """The values of all series of a query now."""
        return [float(series["value"][1]) for series in self.ask("query", query=query)["result"]]


def stop(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict]:
    """The line that `leafseal dev` prints: an engine, its API and a relay on free ports."""
    folder = tmp_path_factory.mktemp("engine")
    flags = ["--set", "operator.address=127.0.0.1:0", "--set", "audit.folder=audit", "--set", "audit.sinks=syslog+udp://127.0.0.1:9"]
    command = [program("LEAFSEAL"), "--dir", str(folder), *flags, "dev", "--app", "acme", "--port", "0", "--api-port", "0", "--json"]
    with (folder / "engine.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
    try:
        line = process.stdout.readline()
        assert line, (folder / "engine.log").read_text()
        yield {**json.loads(line), "folder": folder}
    finally:
        stop(process)


def call(engine: dict, address: str, path: str, body: bytes | None = None) -> None:
    """A call over HTTPS, with any status."""
    context = ssl.create_default_context(cafile=engine["ca"])
    try:
        urllib.request.urlopen(f"https://{address}{path}", data=body, context=context, timeout=PATIENCE_SECONDS).close()
    except urllib.error.HTTPError as refusal:
        refusal.close()


def traffic(engine: dict) -> None:
    """Requests of each kind that the dashboard shows, and some that fail."""
    leafseal, folder = program("LEAFSEAL"), engine["folder"]
    connection = ("--connect", engine["address"])
    document = '{"card": "4111111111111111", "name": "Ada"}'
    sealed = run(leafseal, "--dir", folder, "encrypt", *connection, "--app", "acme", stdin=document)[0]
    run(leafseal, "--dir", folder, "decrypt", *connection, "--app", "acme", stdin=sealed)
    run(leafseal, "--dir", folder, "encrypt", *connection, "--app", "nobody", stdin=document, code=1)
    call(engine, engine["api"], "/none")
    inbound = engine["relay"]["inbound"]
    for path in ("/seal", "/seal/and/open"):
        call(engine, inbound, path, document.encode())
    call(engine, inbound, "/seal", b"{")


@pytest.fixture(scope="module")
def prometheus(engine: dict, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Scrapes the engine and its relay, with the alert rules."""
    folder = tmp_path_factory.mktemp("prometheus")
    addresses = dict(zip(JOBS, (engine["operator"], engine["relay"]["operator"]), strict=True))
    jobs = [{"job_name": job, "static_configs": [{"targets": [address]}]} for job, address in addresses.items()]
    # The label that Kubernetes' service discovery adds.
    for job in jobs:
        job["static_configs"][0]["labels"] = {"namespace": "leafseal", "pod": "pod-1"}
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES.resolve())],
        "scrape_configs": jobs,
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    port = free_ports(1)[0]
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        server = Prometheus(port)
        wait_for("Prometheus scrapes both", lambda: ready(port) and server.values("up") == [1, 1])
        yield server
    finally:
        stop(process)


def ready(port: int) -> bool:
    try:
        return bool(get(f"http://127.0.0.1:{port}/-/ready"))
    except OSError:
        return False


def wait_for(what: str, holds) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, f"not within {PATIENCE_SECONDS} s: {what}"
        time.sleep(0.2)


def dashboard_queries() -> list[str]:
    """The queries, as Grafana sends them for all instances and a range of a minute."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    return [query.replace("$instance", ".+").replace("$__rate_interval", "1m") for query in queries]


def alerts() -> dict[str, dict]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def selectors(expression: str) -> list[str]:
    """The selectors of an expression: names of metrics with their labels."""
    return re.findall(r"\b(?:leafseal_\w+|process_\w+|up\b)(?:\{[^}]*\})?", expression)


def without_data(prometheus: Prometheus, queries: list[str]) -> list[str]:
    """Queries without a single finite value."""
    return [query for query in queries if query not in EMPTY and not any(map(math.isfinite, prometheus.values(query)))]


def assert_all_have_data(engine: dict, prometheus: Prometheus, queries: list[str]) -> None:
    """Traffic goes on until each query has returned a value once."""
    left = list(queries)
    end = time.monotonic() + PATIENCE_SECONDS
    while left and time.monotonic() < end:
        traffic(engine)
        left = without_data(prometheus, left)
    assert not left, "no data: " + "\n".join(left)


def test_the_dashboard_is_what_its_program_writes() -> None:
    text = run(sys.executable, DEPLOY / "grafana/dashboard.py")[0]
    if os.environ.get("UPDATE"):
        DASHBOARD.write_text(text)
    assert DASHBOARD.read_text() == text, "run UPDATE=1 tests/deploy/run.sh"


def test_every_query_of_the_dashboard_returns_data(engine: dict, prometheus: Prometheus) -> None:
    queries = dashboard_queries()
    assert len(queries) > 30
    assert_all_have_data(engine, prometheus, queries)


def test_every_selector_of_the_alerts_returns_data(engine: dict, prometheus: Prometheus) -> None:
    """The alerts themselves return nothing while all is well, so each of their parts is queried."""
    found = {selector for rule in alerts().values() for selector in selectors(rule["expr"])}
    assert len(found) > 20
    assert_all_have_data(engine, prometheus, sorted(found))


def test_selectors_listed_as_empty_are_used() -> None:
    used = {selector for rule in alerts().values() for selector in selectors(rule["expr"])}
    assert set(EMPTY) <= used | set(dashboard_queries())


def test_no_alert_fires_in_a_healthy_installation(engine: dict, prometheus: Prometheus) -> None:
    traffic(engine)
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == set(alerts())
    wait_for("all rules are evaluated", lambda: all(rule["health"] == "ok" for rule in evaluated(prometheus)))
    assert [alert for alert in prometheus.ask("alerts")["alerts"] if alert["state"] == "firing"] == []


def evaluated(prometheus: Prometheus) -> list[dict]:
    return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]


def test_the_metrics_of_the_autoscaler_are_those_of_the_adapter(engine: dict, prometheus: Prometheus) -> None:
    """As prometheus-adapter sends its queries for one pod."""
    rules = {rule["name"]["as"]: rule for rule in yaml.safe_load(ADAPTER.read_text())["rules"]["custom"]}
    scaled = only(manifests(rendered()), "HorizontalPodAutoscaler")["spec"]["metrics"]
    assert {metric["pods"]["metric"]["name"] for metric in scaled} == set(rules)
    for rule in rules.values():
        assert prometheus.ask("series", **{"match[]": rule["seriesQuery"]}), rule["seriesQuery"]
        query = rule["metricsQuery"].replace("<<.LabelMatchers>>", 'namespace="leafseal",pod=~"pod-1|pod-2"').replace("<<.GroupBy>>", "pod")
        assert_all_have_data(engine, prometheus, [query])
        assert len(prometheus.values(query)) == 1


def test_promtool_runs_the_unit_tests(tmp_path: Path) -> None:
    tests = tmp_path / "alerts.test.yml"
    tests.write_text((Path(__file__).parent / "alerts.test.yml").read_text().replace("RULES", str(RULES.resolve())))
    assert "SUCCESS" in run("promtool", "test", "rules", tests)[0]


def test_every_alert_has_a_unit_test_that_fires_it() -> None:
    groups = yaml.safe_load((Path(__file__).parent / "alerts.test.yml").read_text())["tests"]
    fired = {case["alertname"] for group in groups for case in group["alert_rule_test"] if case["exp_alerts"]}
    assert fired == set(alerts())


def test_the_chart_has_the_same_rules() -> None:
    assert RULES.resolve() == (CHART / "files/alerts.yml").resolve()
    assert only(manifests(rendered()), "PrometheusRule")["spec"] == yaml.safe_load(RULES.read_text())


def test_the_metrics_are_documented() -> None:
    tables = (ROOT / "docs/metrics.md").read_text() + (ROOT / "docs/relay.md").read_text()
    known = set(re.findall(r"^\| `(\w+)`", tables, re.MULTILINE))
    named = set(re.findall(r"\b(?:leafseal|process)_\w+", RULES.read_text() + DASHBOARD.read_text() + ADAPTER.read_text()))
    ours = {"leafseal_workers_busy_ratio"}
    assert {re.sub(r"_bucket$", "", name) for name in named} - ours <= known
