#!/usr/bin/env python3
"""Compares the package with the Rust client and with the engine's own cost; prints a table, asserts nothing.

    LEAFSEAL=target/release/leafseal NATIVE=target/release/examples/fields PYTHON bindings/python/bench/run.py [--seconds 1.5] [--rounds 3]

PYTHON is an interpreter with a release build of the wheel and pyarrow. NATIVE is `cargo build --release --package leafseal-client --example fields`.
Both clients use the same engine, alternately: lists of 2,000 strings of 32 bytes, four calls in flight. Beside other work on the machine, compare
processor time and not rates: the clients have different numbers of threads, and so get different shares of a busy machine.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import leafseal
import pyarrow as pa

FIELDS = 2_000
IN_FLIGHT = 4
BATCH = 10_000
APP = "app_bench"


def values(count: int) -> list[str]:
    return [f"value number {index} ".ljust(32, "x") for index in range(count)]


def rate(call: Callable[[], object], count: int, seconds: float, threads: int = 1) -> float:
    """Values per second."""
    began, totals = time.perf_counter(), [0] * threads

    def work(number: int) -> None:
        while time.perf_counter() - began < seconds:
            call()
            totals[number] += count

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(totals) / (time.perf_counter() - began)


def processor_seconds(process: int) -> float:
    """The processor time of a process until now; Linux only."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def remote(folder: Path, program: str, native: str, seconds: float, rounds: int) -> dict[str, list[tuple[float, float, float]]]:
    """Values per second, and nanoseconds of processor time for a value: of the client, and of the engine."""
    flags = ["--set", "operator.address=127.0.0.1:0", "dev", "--app", APP, "--port", "0", "--api-port", "0", "--no-relay", "--json"]
    server = subprocess.Popen([program, "--dir", str(folder), *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    ready = json.loads(server.stdout.readline())
    ca = Path(ready["ca"])
    files = {"ca": str(ca), "certificate": str(ca.with_name("dev.pem")), "key": str(ca.with_name("dev.key"))}
    found: dict[str, list[tuple[float, float, float]]] = {}

    def of_native() -> None:
        arguments = [ready["address"], *files.values(), APP, str(FIELDS), str(IN_FLIGHT), str(int(seconds * 1000))]
        before = processor_seconds(server.pid)
        printed = json.loads(subprocess.check_output([native, *arguments]))
        # The program does one after the other, each for as long: the engine's time is that of both.
        engine = (processor_seconds(server.pid) - before) / ((printed["encrypt"] + printed["decrypt"]) * seconds)
        for name in ("encrypt", "decrypt"):
            found.setdefault(f"Rust client, {name}", []).append((printed[name], printed[f"{name}_cpu_ns"], engine * 1e9))

    def of_python(name: str, call: Callable[[], object]) -> None:
        began, client, engine = time.perf_counter(), time.process_time(), processor_seconds(server.pid)
        speed = rate(call, FIELDS, seconds, IN_FLIGHT)
        count = speed * (time.perf_counter() - began)
        client, engine = time.process_time() - client, processor_seconds(server.pid) - engine
        found.setdefault(f"Python, {name}", []).append((speed, client / count * 1e9, engine / count * 1e9))

    try:
        with leafseal.Engine.connect(ready["address"], **files, app=APP) as engine:
            plain = values(FIELDS)
            sealed = engine.encrypt_many(plain)
            for _ in range(rounds):
                of_native()
                of_python("encrypt", lambda: engine.encrypt_many(plain))
                of_python("decrypt", lambda: engine.decrypt_many(sealed))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    return found


def local(folder: Path, seconds: float, rounds: int) -> dict[str, list[float]]:
    """Nanoseconds a value. A JSON text in bytes crosses as it is, so an array of strings shows the engine's own cost, with scanning."""
    rates: dict[str, list[float]] = {}
    with leafseal.Engine.open(folder, app=APP) as engine:
        plain = values(BATCH)
        column, text = pa.array(plain), json.dumps(plain).encode()
        sealed, sealed_column, sealed_text = engine.encrypt_many(plain), engine.encrypt_many(column), engine.encrypt(text)
        calls = {
            "document, encrypt": lambda: engine.encrypt(text),
            "Arrow, encrypt": lambda: engine.encrypt_many(column),
            "list, encrypt": lambda: engine.encrypt_many(plain),
            "document, decrypt": lambda: engine.decrypt(sealed_text),
            "Arrow, decrypt": lambda: engine.decrypt_many(sealed_column),
            "list, decrypt": lambda: engine.decrypt_many(sealed),
        }
        for _ in range(rounds):
            for name, call in calls.items():
                rates.setdefault(name, []).append(1e9 / rate(call, BATCH, seconds))
    return rates


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(f"load average: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "store"
        for name, found in remote(folder, os.environ["LEAFSEAL"], os.environ["NATIVE"], arguments.seconds, arguments.rounds).items():
            speed, client, engine = (statistics.median(column) for column in zip(*found, strict=True))
            print(f"{name:28} {speed:12,.0f} values/s  {[round(one[0]) for one in found]}")
            print(f"{'':28} processor time: client {client:.0f}, engine {engine:.0f} ns a value; {2e9 / (client + engine):,.0f} values/s on two idle cores")
        for name, found in local(folder, arguments.seconds, arguments.rounds).items():
            print(f"in process: {name:18} {statistics.median(found):10,.0f} ns a value  {[round(one) for one in found]}")
    print(f"load average: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
