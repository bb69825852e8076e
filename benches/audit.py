#!/usr/bin/env python3
"""What the audit log costs: requests without it, with `audit.wait` "none", and with "decrypt"; and reading one hour of a log of 30 days.

    benches/audit.py --program target/release/leafseal --fill target/release/examples/fill_log
    benches/audit.py --program target/release/leafseal --rounds 20 --json > audit.json
    benches/audit.py --program target/release/leafseal --fill target/release/examples/fill_log --rounds 0 --records 10000,100000,10000000

Serving: three engines take turns, so that a noisy machine slows all alike; every figure is the median of all rounds, and every ratio and
difference the median of the rounds' own, with its quartiles. Over mTLS; the logs are on the disk of TMPDIR. Keying session: values under a
key that is known, the least work that a request can be; field: a key of its own for each value, as the published SDKs encrypt. What an
answer waits for at least is measured in each round as well: 12 kB that lengthen a file of that disk, and are flushed.

Reading: `leafseal audit show --from --to` of one hour, and of 100,000 records, each of which it checks, in a process of its own with a warm file
cache. Bytes and calls of read are those of the process, which reads its own files once, too. `fill_log` writes the logs below TMPDIR, of 10,000,000
records about 5 GB.

Builds: cargo build --release --package leafseal-cli; cargo build --release --package leafseal-audit --example fill_log
"""

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

ON = ["--set", "audit.folder=audit", "--set"]
SETTINGS = {"off": [], "none": [*ON, "audit.wait=none"], "decrypt": [*ON, "audit.wait=decrypt"]}
# Requests in flight, as connections and requests of each.
LOADS = {"64 in flight": ("2", "32"), "alone": ("1", "1")}
FIGURES = {
    "requests/s": lambda row: row["requests_per_s"],
    "server CPU, µs": lambda row: row["server_cpu"]["per_request_us"],
    "p50, µs": lambda row: row["latency_us"]["p50"],
}
# The middle of the 30 days, of which a log has records.
MIDDLE = datetime(2026, 1, 16, tzinfo=UTC)
DAYS = 30
# Records that are shown of a log which has more, besides those of an hour.
MANY = 100_000


def flush() -> float:
    """The median microseconds of a flush of 12 kB that lengthen a file."""
    with tempfile.TemporaryFile(buffering=0) as file:
        took = []
        for _ in range(100):
            began = time.perf_counter()
            file.write(b"x" * 12_000)
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1e6)
    return statistics.median(took)


def measure(program: Path, setting: str, load: str, keying: str, fields: str, duration: str) -> dict[str, float]:
    """The figures of one round, by row."""
    connections, in_flight = LOADS[load]
    options = ["--fields", fields, "--curve", "r1", "--keying", keying, "--duration", duration, "--rounds", "1", "--json"]
    options += ["--connections", connections, "--in-flight", in_flight, *SETTINGS[setting]]
    output = subprocess.run([program, "bench", *options], check=True, capture_output=True).stdout
    rows = json.loads(output)["rows"]
    name = "{operation}, {fields:,} values, {keying}"
    return {f"{name.format(**row)}, {load}: {figure}": get(row) for row in rows for figure, get in FIGURES.items()}


def serving(program: Path, rounds: int, keyings: str, fields: str, duration: str) -> tuple[list[dict[str, object]], list[float]]:
    """The rows, and the flushes of the rounds."""
    figures: dict[str, dict[str, list[float]]] = {}
    flushes = []
    for number in range(rounds):
        flushes.append(flush())
        for keying, load in itertools.product(keyings.split(","), LOADS):
            # Each setting is the first, second and third as often as the others.
            names = list(SETTINGS)
            for setting in names[number % 3 :] + names[: number % 3]:
                for row, figure in measure(program, setting, load, keying, fields, duration).items():
                    figures.setdefault(row, {name: [] for name in SETTINGS})[setting].append(figure)
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return [compared(row, of) for row, of in figures.items()], flushes


def quartiles(values: list[float]) -> list[float]:
    return statistics.quantiles(values, n=4) if len(values) > 1 else values * 3


def compared(row: str, of: dict[str, list[float]]) -> dict[str, object]:
    result: dict[str, object] = {"row": row, **{setting: statistics.median(of[setting]) for setting in SETTINGS}}
    for setting in ("none", "decrypt"):
        pairs = list(zip(of[setting], of["off"], strict=True))
        result[f"{setting} / off"] = quartiles([with_log / without for with_log, without in pairs])
        result[f"{setting} - off"] = quartiles([with_log - without for with_log, without in pairs])
    return result


def shown(program: Path, folder: Path, key: str, span: timedelta) -> dict[str, float]:
    """Some time of a log: its records, the seconds to show them, and what the process read."""
    command = [program, "audit", "show", folder, "--key", key, "--from", MIDDLE.isoformat(), "--to", (MIDDLE + span).isoformat()]
    began = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output)
        # It stays a zombie until it is waited for below: its account is still there.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        seconds = time.perf_counter() - began
        account = Path(f"/proc/{process.pid}/io").read_text()
        if process.wait() != 0:
            raise SystemExit(f"{command} failed")
        output.seek(0)
        records = sum(1 for _ in output)
    found = {name: int(re.search(rf"^{name}: (\d+)", account, re.MULTILINE)[1]) for name in ("rchar", "syscr")}
    return {"records shown": records, "seconds": seconds, "bytes read": found["rchar"], "calls of read": found["syscr"]}


def size_of(folder: Path) -> dict[str, int]:
    """Files and bytes below a folder, and the blocks that they take."""
    states = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return {
        "files": len(states),
        "bytes": sum(state.st_size for state in states),
        "disk": sum(state.st_blocks * 512 for state in states),
    }


def reading(program: Path, fill: Path, records: int) -> list[dict[str, object]]:
    place = Path(tempfile.mkdtemp(prefix="leafseal-audit-"))
    try:
        folder = place / "engine-0"
        began = time.perf_counter()
        key = subprocess.run([fill, folder, str(records)], check=True, capture_output=True, text=True).stdout.strip()
        wrote = time.perf_counter() - began
        spans = [timedelta(hours=1)] + [timedelta(days=DAYS * MANY / records)] * (records > 2 * MANY)
        size = size_of(folder)
        tree = {f"{name} per record": size[name] / records for name in ("bytes", "disk")}
        written = {"records written/s": records / wrote, "files": size["files"], **tree}
        rows = []
        for span in spans:
            runs = [shown(program, folder, key, span) for _ in range(3)]
            median = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
            rows.append({"records": records, **median, **written})
        return rows
    finally:
        shutil.rmtree(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--fill", type=Path, help="the program fill_log; without it nothing is read")
    parser.add_argument("--rounds", type=int, default=12, help="of serving; 0 for none")
    parser.add_argument("--fields", default="1,30", help="values per request")
    parser.add_argument("--keying", default="session,field", help="how often values have a new key")
    parser.add_argument("--duration", default="1500ms", help="of each row in a round")
    parser.add_argument("--records", default="10000,100000,10000000", help="of each log that is read")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    program = options.program.resolve()
    rows, flushes = serving(program, options.rounds, options.keying, options.fields, options.duration)
    sizes = options.records.split(",") if options.fill else []
    logs = [row for records in sizes for row in reading(program, options.fill.resolve(), int(records))]
    if options.json:
        print(json.dumps({"rounds": options.rounds, "flush_us": quartiles(flushes) if flushes else [], "serving": rows, "reading": logs}, indent=1))
        return
    if rows:
        low, middle, high = quartiles(flushes)
        print(f"A flush takes {middle:,.0f} µs ({low:,.0f} to {high:,.0f}).\n")
        print("| | off | none | decrypt | none / off | decrypt / off | decrypt - off |\n|---|---|---|---|---|---|---|")
    for row in rows:
        ratios = [f"{middle:.3f} ({low:.3f} to {high:.3f})" for low, middle, high in (row["none / off"], row["decrypt / off"])]
        values = [f"{row[setting]:,.4g}" for setting in SETTINGS]
        print(f"| {' | '.join([row['row'], *values, *ratios, format(row['decrypt - off'][1], ',.4g')])} |")
    if logs:
        print(f"\n| {' | '.join(logs[0])} |\n|{'---|' * len(logs[0])}")
    for log in logs:
        print(f"| {' | '.join(f'{value:,.4g}' if isinstance(value, float) else f'{value:,}' for value in log.values())} |")


if __name__ == "__main__":
    main()
