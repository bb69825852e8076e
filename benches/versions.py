#!/usr/bin/env python3
"""Compares two builds of the program in one run: CPU time per value of the engine, and the relay beside nginx.

    benches/versions.py --before old/leafseal --after target/release/leafseal
    benches/versions.py --before old/leafseal --after target/release/leafseal --rounds 12 --json > versions.json

A build from before the program was renamed has another name, and names its metrics by it; both work (`PROGRAMS` in `relay.py`).

The builds take turns, so that a noisy machine slows both alike; every figure is the median of all rounds, and every ratio the median of the
rounds' own ratios. The relay part needs what `benches/relay.py` needs; `--relay-rounds 0` leaves it out.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def engine(binary: Path, fields: str) -> dict[str, float]:
    """CPU time of the engine per value in ns, by row."""
    options = ["--fields", fields, "--curve", "r1", "--keying", "request", "--duration", "500ms", "--rounds", "1", "--json"]
    output = subprocess.run([binary, "bench", *options], check=True, capture_output=True).stdout
    rows = json.loads(output)["rows"]
    return {f"{row['operation']}, {row['fields']:,} values": row["server_cpu"]["per_field_ns"] for row in rows}


def relay(binary: Path, seconds: int) -> dict[str, float]:
    """The relay's figures relative to nginx, and those of encryption relative to no rules: requests a second, and requests per CPU time."""
    options = ["--leafseal", binary, "--rounds", "1", "--seconds", str(seconds), "--json"]
    output = subprocess.run([sys.executable, HERE / "relay.py", *options], check=True, capture_output=True).stdout
    figures = {}
    for table in json.loads(output)["tables"]:
        row, title = table["rows"][-1], table["title"].split(";")[0]
        figures |= {f"{title}, per second": row["ratio"], f"{title}, per CPU time": row["cpu_ratio"]}
    return figures


def alternate(rounds: int, builds: dict[str, Path], measure) -> dict[str, dict[str, list[float]]]:
    """The figures of all rounds, by row and build."""
    figures: dict[str, dict[str, list[float]]] = {}
    for number in range(rounds):
        # Each build goes first as often as the other.
        for name in sorted(builds, reverse=number % 2 == 1):
            for row, figure in measure(builds[name]).items():
                figures.setdefault(row, {build: [] for build in builds})[name].append(figure)
        if sys.stderr.isatty():
            print(f"\rround {number + 1} of {rounds}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return figures


def compared(figures: dict[str, dict[str, list[float]]]) -> list[dict[str, object]]:
    rows = []
    for row, of in figures.items():
        ratios = [after / before for before, after in zip(of["before"], of["after"], strict=True)]
        quartiles = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else [ratios[0]] * 3
        medians = {build: statistics.median(of[build]) for build in ("before", "after")}
        rows.append({"row": row, **medians, "ratio": quartiles[1], "ratio_quartiles": [quartiles[0], quartiles[2]]})
    return rows


def show(title: str, rows: list[dict[str, object]]) -> None:
    print(f"{title}\n\n| | before | after | ratio | its quartiles |\n|---|---|---|---|---|")
    for row in rows:
        low, high = row["ratio_quartiles"]
        print(f"| {row['row']} | {row['before']:,.4g} | {row['after']:,.4g} | {row['ratio']:.3f} | {low:.3f} to {high:.3f} |")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, required=True)
    parser.add_argument("--fields", default="1,30,2000,60000", help="values per request")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--relay-rounds", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement of the relay")
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the tables")
    chosen = parser.parse_args()
    builds = {"before": chosen.before.resolve(), "after": chosen.after.resolve()}
    parts = {
        "CPU time of the engine per value, ns (less is better)": (chosen.rounds, lambda binary: engine(binary, chosen.fields)),
        "Relay, requests in proportion (more is better)": (chosen.relay_rounds, lambda binary: relay(binary, chosen.seconds)),
    }
    tables = {title: compared(alternate(rounds, builds, measure)) for title, (rounds, measure) in parts.items() if rounds}
    if chosen.json:
        print(json.dumps({"tables": [{"title": title, "rows": rows} for title, rows in tables.items()]}))
    else:
        for title, rows in tables.items():
            show(title, rows)


if __name__ == "__main__":
    main()
