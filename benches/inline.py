#!/usr/bin/env python3
"""Compares small requests that a network thread runs itself with the same requests on workers, in one run: `server.inline_work_max` 0 and its default.

    benches/inline.py --program target/release/leafseal
    benches/inline.py --program target/release/leafseal --rounds 12 --json > inline.json
    benches/inline.py --program target/release/leafseal --awake --scheme symmetric

Both settings take turns, so that a noisy machine slows both alike; every figure is the median of all rounds, and every ratio the median of the rounds'
own ratios. One value under a known key: keying per session, whose key both sides keep; symmetric keys are always known.

A virtual CPU that is idle is given back to the host, and is woken in tens of microseconds: most of the latency of a lone request, whatever answers it. With
`--awake` a process of the idle class runs on each CPU, which yields to any other and keeps it from that.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SETTINGS = {"workers": ["--set", "server.inline_work_max=0s"], "inline": []}
# Requests in flight, as connections and requests of each.
LOADS = {"8 in flight": ("2", "4"), "alone": ("1", "1")}
FIGURES = {
    "server CPU, µs": lambda row: row["server_cpu"]["per_request_us"],
    "p50, µs": lambda row: row["latency_us"]["p50"],
    "p99, µs": lambda row: row["latency_us"]["p99"],
    "requests/s": lambda row: row["requests_per_s"],
}


def measure(program: Path, setting: str, load: str, fields: str, scheme: str) -> dict[str, float]:
    """The figures of one round, by row."""
    connections, in_flight = LOADS[load]
    options = ["--fields", fields, "--curve", "r1", "--keying", "session", "--duration", "700ms", "--rounds", "1", "--json"]
    options += ["--scheme", scheme, "--connections", connections, "--in-flight", in_flight, *SETTINGS[setting]]
    output = subprocess.run([program, "bench", *options], check=True, capture_output=True).stdout
    rows = json.loads(output)["rows"]
    name = "{operation}, {fields:,} values, {load}: {figure}"
    return {
        name.format(**row, load=load, figure=figure): get(row) for row in rows for figure, get in FIGURES.items()
    }


def alternate(program: Path, rounds: int, fields: str, scheme: str) -> dict[str, dict[str, list[float]]]:
    """The figures of all rounds, by row and setting."""
    figures: dict[str, dict[str, list[float]]] = {}
    for number in range(rounds):
        for load in LOADS:
            # Each setting goes first as often as the other.
            for setting in sorted(SETTINGS, reverse=number % 2 == 1):
                for row, figure in measure(program, setting, load, fields, scheme).items():
                    figures.setdefault(row, {name: [] for name in SETTINGS})[setting].append(figure)
        if sys.stderr.isatty():
            print(f"\rround {number + 1} of {rounds}", end="", file=sys.stderr, flush=True)
    return figures


def compared(figures: dict[str, dict[str, list[float]]]) -> list[dict[str, object]]:
    rows = []
    for row, of in figures.items():
        ratios = [inline / workers for workers, inline in zip(of["workers"], of["inline"], strict=True)]
        quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
        medians = {setting: statistics.median(of[setting]) for setting in SETTINGS}
        rows.append({"row": row, **medians, "ratio": quartiles[1], "ratio_quartiles": [quartiles[0], quartiles[2]]})
    return rows


@contextlib.contextmanager
def awake(is_wanted: bool) -> Iterator[None]:
    """Keeps every CPU from being idle, for as long as this lasts."""
    yielding = "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", yielding]) for _ in os.sched_getaffinity(0)] if is_wanted else []
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--fields", default="1", help="values per request")
    parser.add_argument("--scheme", choices=["public-key", "symmetric"], default="public-key")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--awake", action="store_true", help="keep virtual CPUs from being given back to the host")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with awake(options.awake):
        rows = compared(alternate(options.program.resolve(), options.rounds, options.fields, options.scheme))
    if options.json:
        print(json.dumps({"scheme": options.scheme, "rounds": options.rounds, "awake": options.awake, "rows": rows}, indent=1))
        return
    print("| | workers | inline | ratio | its quartiles |\n|---|---|---|---|---|")
    for row in rows:
        low, high = row["ratio_quartiles"]
        print(f"| {row['row']} | {row['workers']:,.4g} | {row['inline']:,.4g} | {row['ratio']:.3f} | {low:.3f} to {high:.3f} |")


if __name__ == "__main__":
    main()
