#!/usr/bin/env python3
"""Latency of a quiet app while another app's client abandons requests as fast as it can.

A probe sends small requests of one app at a steady rate, while the client of another sends requests of 30 values as fast as the engine
reads them, or at a given rate, over one connection or a thousand: all of them waited for, with a deadline of 1 ms, with one of 50 ms, or cancelled right
after they were sent. Each round has every kind once, in turn. Reported: medians over the rounds of the probe's p50 and p99, the ratio of
that p99 to the one beside requests that are waited for in the same round, and how the hostile app's requests ended. Nothing is asserted.

    benches/given_up.py --leafseal target/release/leafseal [--seconds 10] [--rounds 3] [--rate 5000] [--json]

All run on one machine, with cores of its own for the hostile client (`probing.py`).
"""

import argparse
import json
import multiprocessing
import os
import re
import selectors
import signal
import socket
import ssl
import statistics
import struct
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from probing import CORES_OF_ATTACKED, CORES_OF_ATTACKERS, at, connect, probe, tls

CONNECTIONS = [1, 1000]
PROCESSES = 2
# Requests that are sent in one piece.
FRAMES = 14
KINDS = {"waited for": None, "deadline of 1 ms": 1, "deadline of 50 ms": 50, "cancelled": None}
OUTCOMES = ["ok", "overloaded", "deadline_exceeded", "cancelled"]


def text(value: str) -> bytes:
    data = value.encode()
    return (bytes([0xA0 | len(data)]) if len(data) < 32 else struct.pack(">BB", 0xD9, len(data))) + data


def encrypt(number: int, app: str, keying: str, values: int, deadline_ms: int | None = None) -> bytes:
    head = b"\x94\x00" + struct.pack(">BI", 0xCE, number) + text("encrypt") + b"\x91"
    fields = [text("app") + text(app), text("keying") + text(keying)]
    if deadline_ms is not None:
        fields.append(text("deadline_ms") + struct.pack(">BI", 0xCE, deadline_ms))
    fields.append(text("values") + bytes([0xDC]) + struct.pack(">H", values) + text("x" * 32) * values)
    return head + bytes([0x80 | len(fields)]) + b"".join(fields)


def cancel(number: int) -> bytes:
    return b"\x93\x02" + text("cancel") + b"\x91" + struct.pack(">BI", 0xCE, number)


class Requests:
    """Consecutive requests, each with its own id."""

    def __init__(self, kind: str) -> None:
        frame = encrypt(0, "hostile", "field", 30, KINDS[kind]) + (cancel(0) if kind == "cancelled" else b"")
        self.data = bytearray(frame * FRAMES)
        # An id is the only integer of four bytes that is 0.
        at = [place + 1 for place in range(len(frame)) if frame[place : place + 5] == b"\xce\0\0\0\0"]
        self.ids = [[number * len(frame) + place for place in at] for number in range(FRAMES)]
        self.next, self.place = 0, len(self.data)

    def send(self, stream: ssl.SSLSocket) -> None:
        if self.place == len(self.data):
            for places in self.ids:
                self.next = (self.next + 1) % (1 << 31)
                for place in places:
                    struct.pack_into(">I", self.data, place, self.next)
            self.place = 0
        self.place += stream.send(memoryview(self.data)[self.place :])


def attack(port: int, identity: tuple, kind: str, connections: int, rate: float, ready, go) -> None:
    """Sends `rate` requests per second, or with a rate of 0 as fast as the engine reads, and discards the answers."""
    os.sched_setaffinity(0, CORES_OF_ATTACKERS)
    requests, context = {}, tls(*identity)
    selector = selectors.DefaultSelector()
    for _ in range(connections):
        stream = connect(port, context)
        stream.setblocking(False)
        requests[stream] = Requests(kind)
        selector.register(stream, selectors.EVENT_READ | selectors.EVENT_WRITE)
    ready.release()
    go.wait()
    due, pause = time.monotonic(), FRAMES / rate if rate else 0
    while True:
        if pause and due > time.monotonic():
            time.sleep(due - time.monotonic())
        for key, events in selector.select():
            stream = key.fileobj
            try:
                if events & selectors.EVENT_READ:
                    while stream.recv(1 << 16):
                        pass
            except ssl.SSLWantReadError:
                pass
            try:
                if events & selectors.EVENT_WRITE and (not pause or due <= time.monotonic()):
                    due += pause
                    requests[stream].send(stream)
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                pass


def ask(stream: socket.socket) -> None:
    stream.sendall(encrypt(1, "quiet", "session", 1))
    answer = stream.recv(1 << 16)
    if b"ev:" not in answer:
        raise SystemExit(f"the quiet app got {answer!r}")


def outcomes(operator: str) -> dict[str, float]:
    metrics = urllib.request.urlopen(f"http://{operator}/metrics", timeout=60).read().decode()
    count = lambda outcome: re.search(rf'requests_total{{method="encrypt",outcome="{outcome}"}} (\S+)', metrics)
    return {outcome: float(count(outcome)[1]) for outcome in OUTCOMES}


def measure(place: dict, kind: str, connections: int, chosen: argparse.Namespace) -> dict:
    ready, go = multiprocessing.Semaphore(0), multiprocessing.Event()
    processes = min(PROCESSES, connections)
    arguments = (place["port"], place["hostile"], kind, connections // processes, chosen.rate / processes, ready, go)
    attackers = [multiprocessing.Process(target=attack, args=arguments) for _ in range(processes)]
    for attacker in attackers:
        attacker.start()
    for _ in attackers:
        ready.acquire()
    go.set()
    time.sleep(2)
    before, began = outcomes(place["operator"]), time.time()
    times = probe(place["port"], tls(*place["quiet"]), ask, chosen.seconds)
    took, after = time.time() - began, outcomes(place["operator"])
    for attacker in attackers:
        attacker.terminate()
        attacker.join()
    time.sleep(2)
    rates = {outcome: (after[outcome] - before[outcome]) / took for outcome in OUTCOMES}
    rates["ok"] -= len(times) / took
    return {"p50_ms": at(times, 0.5), "p99_ms": at(times, 0.99), "rates": rates}


def rows(place: dict, chosen: argparse.Namespace, show: Callable) -> list[dict]:
    quiet = probe(place["port"], tls(*place["quiet"]), ask, chosen.seconds)
    found = [{"connections": 0, "kind": "nobody", "p50_ms": at(quiet, 0.5), "p99_ms": at(quiet, 0.99), "ratio": None, "rates": {}}]
    show(found[0])
    for connections in CONNECTIONS:
        measured: dict[str, list[dict]] = {kind: [] for kind in KINDS}
        for _ in range(chosen.rounds):
            for kind, results in measured.items():
                results.append(measure(place, kind, connections, chosen))
        for kind, results in measured.items():
            middle = lambda what: statistics.median(map(what, results))
            ratios = [result["p99_ms"] / base["p99_ms"] for result, base in zip(results, measured["waited for"])]
            row = {"connections": connections, "kind": kind, "ratio": statistics.median(ratios)}
            row |= {name: middle(lambda result, name=name: result[name]) for name in ("p50_ms", "p99_ms")}
            row["rates"] = {outcome: middle(lambda result, outcome=outcome: result["rates"][outcome]) for outcome in OUTCOMES}
            found.append(row)
            show(row)
    return found


def show_text(row: dict) -> None:
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
    rates = " | ".join(f"{row['rates'].get(outcome, 0):,.0f}" for outcome in OUTCOMES)
    print(f"| {row['connections']} | {row['kind']} | {row['p50_ms']:.2f} | {row['p99_ms']:.2f} | {ratio} | {rates} |", flush=True)


def run(chosen: argparse.Namespace, folder: Path) -> list[dict]:
    os.sched_setaffinity(0, CORES_OF_ATTACKED)
    store = folder / "store"
    command = [str(chosen.leafseal), "--dir", str(store)]
    words = ["dev", "--app", "hostile", "--port", "0", "--api-port", "0", "--no-relay", "--json"]
    engine = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, stderr=(folder / "log").open("ab"))
    try:
        ready = json.loads(engine.stdout.readline())
        issue = lambda *words: subprocess.run([*command, *words], check=True, capture_output=True)
        issue("keys", "create", "quiet")
        place = {"port": int(ready["address"].rsplit(":", 1)[1]), "operator": ready["operator"]}
        for name in ("quiet", "hostile"):
            issue("certs", "issue", f"{name}-client", "--app", name, "--allow", "encrypt")
            certs = store / "certs"
            place[name] = tuple(str(certs / file) for file in ("ca.pem", f"{name}-client.pem", f"{name}-client.key"))
        time.sleep(2)
        show = (lambda row: None) if chosen.json else show_text
        if not chosen.json:
            print("| connections | requests | p50 ms | p99 ms | ratio | " + " | ".join(f"{outcome}/s" for outcome in OUTCOMES) + " |")
            print("|---" * (5 + len(OUTCOMES)) + "|")
        return rows(place, chosen, show)
    finally:
        engine.send_signal(signal.SIGTERM)
        engine.wait(timeout=60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leafseal", type=Path, default=Path("target/release/leafseal"))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=0, help="requests of the hostile client a second; 0: as many as the engine reads")
    parser.add_argument("--json", action="store_true", help="one JSON array in place of the table")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(chosen, Path(folder))
    if chosen.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
