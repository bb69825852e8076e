#!/usr/bin/env python3
"""The cost of a field and a byte over both transports of the program: in process, and through the engine over mTLS.

Encrypts and decrypts documents of 2,000, 60,000 and 670,000 fields of 32 bytes and one of 100 MB with the real binary, every scalar
selected. Costs are CPU time from the operating system (the child's resource usage; the engine's threads from
/proc/PID/task/*/schedstat), less what the same command costs on the document `null`, in nanoseconds a field and a byte of plain
document, with the ratio to 2,000 fields. Output goes to /dev/null, so that no file system is measured; one run more writes a file,
which is checked. Medians of rounds. Peak resident memory beside them (never less than this script's own, some 15 MiB).

    benches/transports.py [--leafseal target/release/leafseal] [--rounds 5]
"""

import argparse
import filecmp
import json
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

# The third makes about 100 MB once it is encrypted.
COUNTS = [2_000, 60_000, 670_000]
BIG_SIZE = 100_000_000
# How often a small document is repeated within a round, so that its cost stands out from that of starting the program.
REPEATS = {2_000: 40, 60_000: 4, 670_000: 1}


def write_document(count, path):
    """A piece at a time: a large process would show in the children's peak memory."""
    with open(path, "w") as file:
        file.write("{")
        for i in range(count):
            file.write(f'{"," if i else ""}"f{i}":"{i * 7919:032d}"')
        file.write("}")


def fields_for(size):
    return size // len('"f1000000":"00000000000000000000000000000000",')


class Engine:
    def __init__(self, binary, folder):
        command = [binary, "--dir", folder, "dev", "--json", "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.ready = json.loads(self.process.stdout.readline())

    def cpu_ns(self):
        """Once it rests: it frees a large request's memory after the answer has gone."""
        now = self.cpu_now_ns()
        while True:
            before, now = now, self.settled(0.02)
            if now - before < 200_000:
                return now

    def settled(self, seconds):
        time.sleep(seconds)
        return self.cpu_now_ns()

    def cpu_now_ns(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def peak_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


class Run:
    """One finished command: CPU of the child, wall time, the child's peak memory."""

    def __init__(self, command, source, target):
        start = time.perf_counter_ns()
        with open(source, "rb") as stdin, open(target, "wb") as stdout:
            process = subprocess.Popen(command, stdin=stdin, stdout=stdout)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.wall = time.perf_counter_ns() - start
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit {process.returncode}")
        self.own = int((usage.ru_utime + usage.ru_stime) * 1e9)
        self.peak_mib = usage.ru_maxrss / 1024


def cost(command, source, target, engine, repeats):
    """Means of several runs: own CPU, the engine's CPU, wall time; and the largest peak."""
    before = engine.cpu_ns() if engine else 0
    runs = [Run(command, source, target) for _ in range(repeats)]
    engines = (engine.cpu_ns() if engine else 0) - before
    mean = lambda pick: sum(pick(run) for run in runs) / repeats
    return mean(lambda r: r.own), engines / repeats, mean(lambda r: r.wall), max(r.peak_mib for r in runs)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--leafseal", default="target/release/leafseal")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments = arguments.parse_args()
    binary = os.path.abspath(arguments.leafseal)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        measure(binary, folder, arguments.rounds)


def measure(binary, folder, rounds):
    engine = Engine(binary, os.path.join(folder, "store"))
    app, address = engine.ready["app"], engine.ready["address"]
    cases = [(count, REPEATS[count]) for count in COUNTS] + [(fields_for(BIG_SIZE), 1)]
    path = lambda name: os.path.join(folder, name)
    pathlib.Path(path("null")).write_bytes(b"null")
    for count, _ in cases:
        write_document(count, path(f"plain-{count}"))

    base = [binary, "--dir", os.path.join(folder, "store")]
    transports = {"in process": [], "over mTLS": ["--connect", address]}
    print(f"{'':<24}{'fields':>10}{'own ns/field':>16}{'engine ns/field':>18}{'sum':>8}{'ratio':>8}{'ns/byte':>10}"
          f"{'wall ms':>10}{'peak MiB':>10}{'engine MiB':>12}")
    for transport, flags in transports.items():
        for verb in ["encrypt", "decrypt"]:
            command = base + [verb, "--app", app, *flags, "-"]
            first = None
            for count, repeats in cases:
                source = path(f"plain-{count}" if verb == "encrypt" else f"sealed-{count}")
                target = path(f"sealed-{count}" if verb == "encrypt" else f"opened-{count}")
                served = engine if flags else None
                plain_size = os.path.getsize(path(f"plain-{count}"))
                samples = []
                Run(command, source, target)
                for _ in range(rounds):
                    empty = cost(command, path("null"), os.devnull, served, max(repeats, 5))
                    full = cost(command, source, os.devnull, served, repeats)
                    samples.append([full[0] - empty[0], full[1] - empty[1], full[2], full[3]])
                own, engines, wall, peak = (statistics.median(column) for column in zip(*samples))
                total = (own + engines) / count
                first = first or total
                engine_peak = f"{engine.peak_mib():.0f}" if flags else ""
                print(f"{verb + ', ' + transport:<24}{count:>10,}{own / count:>16.0f}{engines / count:>18.0f}{total:>8.0f}"
                      f"{total / first:>8.2f}{(own + engines) / plain_size:>10.2f}{wall / 1e6:>10.1f}{peak:>10.0f}"
                      f"{engine_peak:>12}", flush=True)
                if verb == "decrypt" and not filecmp.cmp(target, path(f"plain-{count}"), shallow=False):
                    sys.exit(f"{count} fields did not come back as they were")
    engine.stop()


if __name__ == "__main__":
    main()
