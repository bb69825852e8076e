#!/usr/bin/env python3
"""Compares the inbound relay with nginx: both terminate TLS and forward requests to the same upstream, alternating in the same run.

    benches/relay.py --leafseal target/release/leafseal

Needs nginx and wrk (and h2load for HTTP/2) from the distribution's packages. Both proxies get the same number of threads, write no
access log and keep their connections. Rounds alternate; ratios are of medians. CPU time is the proxy's own, from /proc.

The last tables post a document of 50 fields on a route without rules, and on one that encrypts 5 of them; below stands where the added
time goes, by the metrics of engine and relay.

    benches/relay.py --leafseal target/release/leafseal --rounds 7 --json > relay.json

prints the same as one JSON object.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ENGINE, OPERATOR, RELAY, NGINX, UPSTREAM = 23443, 23445, 28444, 28445, 28080
BODY = "x" * 1024
DEV = ("--port", ENGINE, "--api-port", 0, "--no-relay", "--json")

NGINX_CONF = """
worker_processes {threads};
pid {folder}/{name}.pid;
error_log {folder}/{name}.log warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  keepalive_requests 100000000;
  client_body_temp_path {folder}/{name}-body;
  proxy_temp_path {folder}/{name}-proxy;
  fastcgi_temp_path {folder}/{name}-f;
  uwsgi_temp_path {folder}/{name}-u;
  scgi_temp_path {folder}/{name}-s;
  {rest}
}}
"""
UPSTREAM_CONF = """
  server {{
    listen 127.0.0.1:{port};
    location / {{ default_type application/json; return 200 '{body}'; }}
  }}
"""
PROXY_CONF = """
  upstream it {{ server 127.0.0.1:{upstream}; keepalive 256; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port} ssl http2;
    ssl_certificate {certs}/server.pem;
    ssl_certificate_key {certs}/server.key;
    ssl_protocols TLSv1.3;
    location / {{
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_pass http://it;
    }}
  }}
"""
RELAY_CONF = """
[relay]
threads = {threads}
operator_address = "127.0.0.1:{operator}"
access_log = false
[engine]
addresses = ["localhost:{engine}"]
authorities = "certs/ca.pem"
certificate = "certs/relay.pem"
private_key = "certs/relay.key"
[[inbound]]
address = "127.0.0.1:{port}"
certificate = "certs/server.pem"
private_key = "certs/server.key"
upstream = "http://127.0.0.1:{upstream}"
[[inbound.route]]
path = "/sealed/**"
app = "bench"
request = [{{ action = "encrypt", json = ["$.f3", "$.f13", "$.f23", "$.f33", "$.f43"] }}]
"""
POST_LUA = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{body}'
"""


@dataclass
class Run:
    """One round: requests a second, latency in ms, CPU of the proxy a request in µs."""

    rate: float
    p50: float
    p99: float
    cpu: float


def cpu_seconds(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [pid, *map(int, text.split())]


def milliseconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]


def wrk(url: str, seconds: int, connections: int, pids: list[int], script: Path | None = None) -> Run:
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", url]
    if script:
        command[1:1] = ["-s", str(script)]
    before = cpu_seconds(pids)
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    spent = cpu_seconds(pids) - before
    if "Non-2xx" in text or "Socket errors" in text or " 0 requests in" in text:
        raise SystemExit(f"{url}: {text}")
    count = int(re.search(r"(\d+) requests in", text)[1])
    # At the start of its line: a share such as 61.50 % stands in the lines above.
    find = lambda what: milliseconds(re.search(rf"^\s+{what}%\s+(\S+)", text, re.MULTILINE)[1])
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])
    return Run(rate, find("50"), find("99"), spent / count * 1e6)


def h2load(url: str, seconds: int, connections: int, pids: list[int], log: Path) -> Run:
    log.unlink(missing_ok=True)
    command = ["h2load", f"-c{connections}", "-m8", f"-D{seconds}", "-t1", f"--log-file={log}", url]
    before = cpu_seconds(pids)
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    spent = cpu_seconds(pids) - before
    done = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", text)
    if int(done[1]) == 0 or int(done[2]) + int(done[3]) > 0 or f"status codes: {done[1]} 2xx" not in text:
        raise SystemExit(f"{url}: {text}")
    # A line for each request: when it began, its status, how long it took in microseconds.
    times = sorted(int(line.split("\t")[2]) for line in log.read_text().splitlines())
    at = lambda share: times[min(int(len(times) * share), len(times) - 1)] / 1e3
    return Run(float(re.search(r"finished in \S+ ([\d.]+) req/s", text)[1]), at(0.50), at(0.99), spent / int(done[1]) * 1e6)


# The program's name, and its name in builds before it was renamed, which `versions.py` compares with later ones.
PROGRAMS = ("leafseal", "field" + "seal")


def samples(address: str) -> dict[str, float]:
    """Returns all metrics of an operator port, summed over labels; names are without the program's, which begins them."""
    text = urllib.request.urlopen(f"http://{address}/metrics", timeout=5).read().decode()
    totals: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = re.sub(r"\{.*\}", "", line).split(" ")[:2]
            name = re.sub(f"^({'|'.join(PROGRAMS)})_", "", name)
            totals[name] = totals.get(name, 0) + float(value)
    return totals


@dataclass
class Explained:
    """Means of one request, in µs: the relay's whole time, the engine's from its arrival to its answer, waiting in its queue, working."""

    relay: float
    engine: float
    queue: float
    work: float


def explain(engine: str, measure: Callable[[], Run]) -> Explained:
    before = samples(engine), samples(f"127.0.0.1:{OPERATOR}")
    measure()
    after = samples(engine), samples(f"127.0.0.1:{OPERATOR}")
    grown = [{name: value - old.get(name, 0) for name, value in new.items()} for old, new in zip(before, after, strict=True)]
    of_engine, of_relay = grown
    count = max(of_engine["service_seconds_count"], 1)
    spent = ("service_seconds_sum", "queue_wait_seconds_sum", "request_work_seconds_total")
    whole = of_relay["relay_request_seconds_sum"] / of_relay["relay_request_seconds_count"]
    return Explained(whole * 1e6, *(of_engine[name] / count * 1e6 for name in spent))


def median(runs: list[Run]) -> Run:
    pick = lambda name: statistics.median(getattr(run, name) for run in runs)
    return Run(*map(pick, ("rate", "p50", "p99", "cpu")))


@dataclass
class Table:
    title: str
    against: str
    rows: list[tuple[str, Run]]

    def ratio(self, run: Run) -> float:
        return run.rate / dict(self.rows)[self.against].rate

    def thrift(self, run: Run) -> float:
        """The same for CPU time, which other processes on the machine disturb less."""
        return dict(self.rows)[self.against].cpu / run.cpu

    def text(self) -> str:
        lines = [self.title, "", "| | requests/s | ratio | p50 ms | p99 ms | CPU µs a request | ratio |", "|---" * 7 + "|"]
        for name, run in self.rows:
            figures = f"{run.rate:,.0f} | {self.ratio(run):.2f} | {run.p50:.2f} | {run.p99:.2f} | {run.cpu:.1f} | {self.thrift(run):.2f}"
            lines.append(f"| {name} | {figures} |")
        return "\n".join([*lines, ""])

    def json(self) -> dict[str, object]:
        rows = [{"name": name, **asdict(run), "ratio": self.ratio(run), "cpu_ratio": self.thrift(run)} for name, run in self.rows]
        return {"title": self.title, "against": self.against, "rows": rows}


def alternate(rounds: int, kinds: dict[str, Callable[[], Run]]) -> list[tuple[str, Run]]:
    runs: dict[str, list[Run]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, measure in kinds.items():
            runs[name].append(measure())
    return [(name, median(of)) for name, of in runs.items()]


def wait_for(url: str) -> None:
    for _ in range(100):
        try:
            urllib.request.urlopen(url, timeout=1).read()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leafseal", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1, help="of each proxy; what is left of the machine serves load and upstream")
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the tables")
    chosen = parser.parse_args()
    for program in ("nginx", "wrk"):
        if not shutil.which(program):
            raise SystemExit(f"install {program}")
    with tempfile.TemporaryDirectory() as folder:
        measure(chosen, Path(folder))


def measure(chosen: argparse.Namespace, folder: Path) -> None:
    store, certs = folder / "store", folder / "store" / "certs"
    run = lambda *words: subprocess.run([chosen.leafseal, "--dir", store, *words], check=True, capture_output=True)
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: object, **rest: object) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([str(word) for word in command], **rest))
        return started[-1]

    def nginx(name: str, threads: int, rest: str) -> subprocess.Popen[bytes]:
        path = folder / f"{name}.conf"
        path.write_text(NGINX_CONF.format(name=name, folder=folder, threads=threads, rest=rest))
        return start("nginx", "-e", folder / f"{name}.log", "-c", path, "-g", "daemon off;")

    try:
        dev = start(chosen.leafseal, "--dir", store, "dev", "--app", "bench", *DEV, stdout=subprocess.PIPE)
        operator = json.loads(dev.stdout.readline())["operator"]
        run("certs", "issue", "relay", "--app", "bench", "--allow", "encrypt,decrypt")
        (store / "relay.toml").write_text(
            RELAY_CONF.format(threads=chosen.threads, operator=OPERATOR, engine=ENGINE, port=RELAY, upstream=UPSTREAM)
        )
        nginx("upstream", 1, UPSTREAM_CONF.format(port=UPSTREAM, body=BODY))
        proxy = nginx("proxy", chosen.threads, PROXY_CONF.format(port=NGINX, upstream=UPSTREAM, certs=certs))
        relay = start(chosen.leafseal, "--dir", store, "relay", "--json", stdout=subprocess.PIPE)
        relay.stdout.readline()
        wait_for(f"http://127.0.0.1:{OPERATOR}/readyz")
        wait_for(f"http://127.0.0.1:{UPSTREAM}/")
        time.sleep(0.5)
        pids = {"nginx": children(proxy.pid), "relay": [relay.pid], "engine": [dev.pid]}
        Comparison(chosen, folder, pids, operator).run()
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGINT)
        for process in started:
            process.wait(timeout=30)


@dataclass
class Comparison:
    """Everything is running; `pids` by name."""

    chosen: argparse.Namespace
    folder: Path
    pids: dict[str, list[int]]
    engine: str

    def run(self) -> None:
        tables, means_by_load = [], {}
        for table in self.proxies():
            tables.append(self.show(table))
        for connections in (1, self.chosen.connections):
            tables.append(self.show(self.fields(connections)))
            means_by_load[connections] = explain(self.engine, lambda: self.post("sealed/x", connections))
            if not self.chosen.json:
                self.show_explained(means_by_load[connections], connections)
        if self.chosen.json:
            explained = {str(connections): asdict(means) for connections, means in means_by_load.items()}
            print(json.dumps({"tables": [table.json() for table in tables], "explained_us": explained}))

    def show(self, table: Table) -> Table:
        if not self.chosen.json:
            print(table.text(), flush=True)
        return table

    def show_explained(self, means: Explained, connections: int) -> None:
        print(
            f"Where the time of 5 of 50 goes, {connections} connection(s), means of one request: relay {means.relay:.0f} µs in all, "
            f"of which the engine {means.engine:.0f} µs from arrival to answer ({means.queue:.0f} waiting for a worker, {means.work:.0f} working); "
            f"the rest is relay, upstream and the way between.\n",
            flush=True,
        )

    def proxies(self) -> Iterator[Table]:
        seconds, connections, rounds = self.chosen.seconds, self.chosen.connections, self.chosen.rounds
        urls = {"nginx": f"https://127.0.0.1:{NGINX}/", "relay": f"https://127.0.0.1:{RELAY}/"}
        for name, url in urls.items():
            wrk(url, 2, connections, self.pids[name])
        title = f"GET, 1 KiB, HTTP/1.1 over TLS, {connections} connections, {self.chosen.threads} thread(s) each"
        kinds = {name: lambda name=name: wrk(urls[name], seconds, connections, self.pids[name]) for name in urls}
        yield Table(title, "nginx", alternate(rounds, kinds))
        if shutil.which("h2load"):
            few, log = max(connections // 8, 1), self.folder / "h2load.log"
            kinds = {name: lambda name=name: h2load(urls[name], seconds, few, self.pids[name], log) for name in urls}
            yield Table(f"The same over HTTP/2, {few} connections, 8 streams on each", "nginx", alternate(rounds, kinds))

    def post(self, path: str, connections: int) -> Run:
        script = self.folder / "post.lua"
        script.write_text(POST_LUA.format(body=self.document()))
        both = self.pids["relay"] + self.pids["engine"]
        return wrk(f"https://127.0.0.1:{RELAY}/{path}", self.chosen.seconds, connections, both, script)

    def document(self) -> str:
        return json.dumps({f"f{number}": f"value {number:026d}" for number in range(50)})

    def fields(self, connections: int) -> Table:
        title = f"POST of 50 fields, {len(self.document())} bytes, {connections} connection(s); CPU of relay and engine together"
        kinds = {
            "nothing selected": lambda: self.post("plain", connections),
            "5 of 50 encrypted": lambda: self.post("sealed/x", connections),
        }
        return Table(title, "nothing selected", alternate(self.chosen.rounds, kinds))


if __name__ == "__main__":
    main()
