#!/usr/bin/env python3
"""The inbound relay beside nginx: both end TLS and pass requests on to the same upstream, one after the other in the same run.

    benches/relay.py --fieldseal target/release/fieldseal

Needs nginx and wrk (and h2load for HTTP/2) from the distribution's packages. Both proxies get the same number of threads, write no
access log and keep their connections. Rounds alternate; ratios are of medians. CPU time is the proxy's own, from /proc.

The second table posts a document of 50 fields on a route without rules, and on one that encrypts 5 of them.
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
from dataclasses import dataclass
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
    ssl_protocols TLSv1.2 TLSv1.3;
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
    find = lambda what: milliseconds(re.search(rf"{what}%\s+(\S+)", text)[1])
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])
    return Run(rate, find("50"), find("99"), spent / count * 1e6)


def h2load(url: str, seconds: int, connections: int, pids: list[int]) -> Run:
    command = ["h2load", f"-c{connections}", "-m8", f"-D{seconds}", "-t1", url]
    before = cpu_seconds(pids)
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    spent = cpu_seconds(pids) - before
    done = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored", text)
    if int(done[2]) + int(done[3]) > 0 or f"status codes: {done[1]} 2xx" not in text:
        raise SystemExit(f"{url}: {text}")
    mean = milliseconds(re.search(r"time for request:\s+\S+\s+\S+\s+(\S+)", text)[1])
    longest = milliseconds(re.search(r"time for request:\s+\S+\s+(\S+)", text)[1])
    return Run(float(re.search(r"finished in \S+ ([\d.]+) req/s", text)[1]), mean, longest, spent / int(done[1]) * 1e6)


def median(runs: list[Run]) -> Run:
    pick = lambda name: statistics.median(getattr(run, name) for run in runs)
    return Run(*map(pick, ("rate", "p50", "p99", "cpu")))


def table(rows: list[tuple[str, Run]], against: str, latencies: tuple[str, str] = ("p50", "p99")) -> None:
    base = dict(rows)[against]
    print(f"| | requests/s | ratio | {latencies[0]} ms | {latencies[1]} ms | CPU µs a request |")
    print("|---|---|---|---|---|---|")
    for name, run in rows:
        ratio = run.rate / base.rate
        print(f"| {name} | {run.rate:,.0f} | {ratio:.2f} | {run.p50:.2f} | {run.p99:.2f} | {run.cpu:.1f} |")
    print(flush=True)


def alternate(rounds: int, kinds: dict[str, object]) -> list[tuple[str, Run]]:
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
    parser.add_argument("--fieldseal", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1, help="of each proxy; what is left of the machine serves load and upstream")
    chosen = parser.parse_args()
    for program in ("nginx", "wrk"):
        if not shutil.which(program):
            raise SystemExit(f"install {program}")
    with tempfile.TemporaryDirectory() as folder:
        measure(chosen, Path(folder))


def measure(chosen: argparse.Namespace, folder: Path) -> None:
    store, certs = folder / "store", folder / "store" / "certs"
    run = lambda *words: subprocess.run([chosen.fieldseal, "--dir", store, *words], check=True, capture_output=True)
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: object, **rest: object) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([str(word) for word in command], **rest))
        return started[-1]

    def nginx(name: str, threads: int, rest: str) -> subprocess.Popen[bytes]:
        path = folder / f"{name}.conf"
        path.write_text(NGINX_CONF.format(name=name, folder=folder, threads=threads, rest=rest))
        return start("nginx", "-e", folder / f"{name}.log", "-c", path, "-g", "daemon off;")

    try:
        dev = start(chosen.fieldseal, "--dir", store, "dev", "--app", "bench", *DEV, stdout=subprocess.PIPE)
        dev.stdout.readline()
        run("certs", "issue", "relay", "--app", "bench", "--allow", "encrypt,decrypt")
        (store / "relay.toml").write_text(
            RELAY_CONF.format(threads=chosen.threads, operator=OPERATOR, engine=ENGINE, port=RELAY, upstream=UPSTREAM)
        )
        nginx("upstream", 1, UPSTREAM_CONF.format(port=UPSTREAM, body=BODY))
        proxy = nginx("proxy", chosen.threads, PROXY_CONF.format(port=NGINX, upstream=UPSTREAM, certs=certs))
        relay = start(chosen.fieldseal, "--dir", store, "relay", "--json", stdout=subprocess.PIPE)
        relay.stdout.readline()
        wait_for(f"http://127.0.0.1:{OPERATOR}/readyz")
        wait_for(f"http://127.0.0.1:{UPSTREAM}/")
        time.sleep(0.5)
        compare(chosen, folder, children(proxy.pid), [relay.pid], [dev.pid])
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(timeout=30)


def compare(
    chosen: argparse.Namespace, folder: Path, nginx_pids: list[int], relay_pids: list[int], engine_pids: list[int]
) -> None:
    seconds, connections = chosen.seconds, chosen.connections
    urls = {"nginx": f"https://127.0.0.1:{NGINX}/", "relay": f"https://127.0.0.1:{RELAY}/"}
    pids = {"nginx": nginx_pids, "relay": relay_pids}
    for name in urls:
        wrk(urls[name], 2, connections, pids[name])
    print(f"GET, 1 KiB, HTTP/1.1 over TLS, {connections} connections, {chosen.threads} thread(s) each\n")
    table(alternate(chosen.rounds, {n: lambda n=n: wrk(urls[n], seconds, connections, pids[n]) for n in urls}), "nginx")
    if shutil.which("h2load"):
        print("The same over HTTP/2, 8 streams a connection\n")
        few = max(connections // 8, 1)
        rows = alternate(chosen.rounds, {n: lambda n=n: h2load(urls[n], seconds, few, pids[n]) for n in urls})
        table(rows, "nginx", ("mean", "max"))
    document = json.dumps({f"f{number}": f"value {number:026d}" for number in range(50)})
    script = folder / "post.lua"
    script.write_text(POST_LUA.format(body=document))
    print(f"POST of 50 fields, {len(document)} bytes; CPU of relay and engine together\n")
    base = urls["relay"]
    both = relay_pids + engine_pids
    for connections_now in (1, connections):
        print(f"{connections_now} connection(s)\n")
        kinds = {
            "nothing selected": lambda: wrk(base + "plain", seconds, connections_now, both, script),
            "5 of 50 encrypted": lambda: wrk(base + "sealed/x", seconds, connections_now, both, script),
        }
        table(alternate(chosen.rounds, kinds), "nothing selected")


if __name__ == "__main__":
    main()
