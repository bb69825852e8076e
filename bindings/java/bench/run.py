#!/usr/bin/env python3
"""The JCA provider beside SunJCE, Corretto, Conscrypt and BouncyCastle, warm and cold, and beside the crypto crate in Rust, in one run.

    bindings/java/bench/run.py --json results.json --plot throughput.svg
    bindings/java/bench/run.py --result benches/results/java-crypto.json --machine D    for docs/measurements.md
    bindings/java/bench/run.py --quick                          one size, for a look
    bindings/java/bench/run.py --providers Leafseal,SunJCE --jdks /usr/lib/jvm/java-17-openjdk-amd64

Builds everything first; `--seconds` sets the length of a JMH iteration. `--jdks` names the homes of JDKs, by default the one of `java` and
JAVA_HOME_25. All providers run on the last one; on the others, SunJCE and Leafseal. Needs a quiet machine: figures are wall time. A run
that was stopped goes on with `--resume --json` and the same file.
"""

import argparse
import dataclasses
import datetime
import functools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from plot import plot

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROVIDERS = ["Leafseal", "SunJCE", "Corretto", "Conscrypt", "BouncyCastle"]
SIZES = [32, 256, 1024, 16_384, 65_536, 1 << 20, 10 << 20, 100 << 20]
CTR_SIZES = [1024, 16_384, 1 << 20, 100 << 20]
HASH_SIZES = [32, 512, 16_384, 1 << 20]
HASHES = ["SHA-256", "SHA-512", "HmacSHA256"]
COLD_SIZES = [10 << 20, 100 << 20]
CHUNK_SIZE = 16_384
NATIVE_ACCESS = "--enable-native-access=ALL-UNNAMED"


def build(target):
    subprocess.run([ROOT / "scripts/java-native.sh", "release"], check=True)
    command = ["mvn", "-q", "-B", "-f", ROOT / "bindings/java/pom.xml", "-Pbench", "-pl", "jca,bench", "package", "-DskipTests"]
    subprocess.run(command, check=True)
    shutil.rmtree(target, ignore_errors=True)


def class_path():
    return f"{HERE / 'target/classes'}:{HERE / 'target/libraries'}/*"


def reference():
    command = ["cargo", "bench", "--quiet", "--package", "leafseal-java", "--bench", "reference"]
    output = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout
    rows = []
    for line in output.splitlines():
        mode, size, calls, direction, nanoseconds = line.split()
        rows.append({"jdk": "Rust", "provider": "crypto crate", "mode": mode, "size": int(size), "memory": "native",
                     "calls": calls, "direction": direction, "ns": float(nanoseconds)})
    return rows


def jmh(jdk, benchmark, seconds, target, parameters):
    """JMH in processes of its own; its results."""
    result = target / "jmh.json"
    command = [f"{jdk}/bin/java", NATIVE_ACCESS, "-cp", class_path(), "org.openjdk.jmh.Main", benchmark, "-v", "SILENT", "-rf", "json",
               "-rff", result, "-jvmArgsPrepend", NATIVE_ACCESS, "-w", f"{seconds * 1000:.0f}ms", "-r", f"{seconds * 1000:.0f}ms"]
    for name, values in parameters.items():
        command += ["-p", f"{name}={','.join(map(str, values))}"]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return json.loads(result.read_text())


def warm(jdk, providers, sizes, seconds, target):
    """Combinations without a meaning are left out."""
    rows = []
    pieces = [size for size in sizes if size > CHUNK_SIZE]
    gcm, ctr = ["AES/GCM/NoPadding"], ["AES/CTR/NoPadding"]
    # Some peers take a quarter of a minute for a long message in pieces.
    short = [size for size in pieces if size <= 1 << 20]
    fast = [provider for provider in providers if provider == "Leafseal"]
    others = [provider for provider in providers if provider not in fast]
    groups = [(gcm, "entire", sizes, providers), (gcm, "chunked", pieces, fast), (gcm, "chunked", short, others),
              (ctr, "entire", [size for size in sizes if size in CTR_SIZES], providers)]
    for transformations, calls, some, providers in groups:
        if not some or not providers:
            continue
        directions = ["encrypt"] if "CTR" in transformations[0] else ["encrypt", "decrypt"]
        for it in jmh(jdk, "CipherBenchmark", seconds, target, {"provider": providers, "transformation": transformations, "size": some,
                                                                "calls": [calls], "direction": directions}):
            parameters = it["params"]
            rows.append({"jdk": version(jdk), "provider": parameters["provider"], "mode": parameters["transformation"][4:7],
                         "size": int(parameters["size"]), "memory": parameters["memory"], "calls": parameters["calls"],
                         "direction": parameters["direction"], "ns": it["primaryMetric"]["score"]})
    return rows


def keys(jdk, providers, seconds, target):
    """Operations on P-256 and RSA-2048: nanoseconds of each."""
    wanted = ["JDK" if provider == "SunJCE" else provider for provider in providers]
    return [{"jdk": version(jdk), "provider": it["params"]["provider"], "operation": it["params"]["operation"],
             "ns": it["primaryMetric"]["score"]} for it in jmh(jdk, "KeyBenchmark", seconds, target, {"provider": wanted})]


def hashes(jdk, providers, seconds, target):
    """Hash functions and HMAC: nanoseconds of each message."""
    wanted = ["JDK" if provider == "SunJCE" else provider for provider in providers]
    parameters = {"provider": wanted, "algorithm": HASHES, "size": HASH_SIZES}
    return [{"jdk": version(jdk), "provider": it["params"]["provider"], "size": int(it["params"]["size"]),
             "operation": f"{it['params']['algorithm']}, {size_name(int(it['params']['size']))}", "ns": it["primaryMetric"]["score"]}
            for it in jmh(jdk, "HashBenchmark", seconds, target, parameters)]


def stores(target):
    """Keystores with a self-signed certificate on P-256 and one of RSA."""
    files = []
    for name, key in (("ec", ["-keyalg", "EC", "-groupname", "secp256r1"]), ("rsa", ["-keyalg", "RSA", "-keysize", "2048"])):
        files.append(target / f"{name}.p12")
        command = ["keytool", "-genkeypair", "-alias", "server", *key, "-dname", "CN=localhost", "-validity", "30", "-storetype", "PKCS12",
                   "-keystore", files[-1], "-storepass", "changeit"]
        subprocess.run(command, check=True, capture_output=True)
    return files


def drop_in(jdk, target):
    """Software that knows nothing of the provider, without and with it first in the list: nanoseconds of each operation."""
    # Tink would use Conscrypt if it were there.
    jars = [jar for jar in (HERE / "target/libraries").glob("*.jar") if "conscrypt" not in jar.name]
    path = ":".join(map(str, [HERE / "target/classes", *jars]))
    rows = []
    for provider in ("JDK", "Leafseal"):
        command = [f"{jdk}/bin/java", NATIVE_ACCESS, "-cp", path, "io.leafseal.bench.DropIn", provider, *stores_once(target)]
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines()
        for nanoseconds, operation in (line.split(" ", 1) for line in lines):
            rows.append({"jdk": version(jdk), "provider": provider, "operation": operation, "ns": float(nanoseconds)})
    return rows


@functools.cache
def stores_once(target):
    return stores(target)


def version(jdk):
    output = subprocess.run([f"{jdk}/bin/java", "-version"], check=True, capture_output=True, text=True).stderr
    return re.search(r'version "(\d+)', output).group(1)


def cold(jdk, providers, runs):
    """Medians over fresh virtual machines: milliseconds of loading and first use, nanoseconds of calls 1 to 5."""
    rows = []
    shapes = [(0, "heap", "entire", "encrypt")]
    shapes += [(size, memory, calls, direction) for size in COLD_SIZES for memory in ("heap", "direct")
               for calls in ("entire", "chunked") for direction in ("encrypt", "decrypt")]
    for provider in providers:
        for size, memory, calls, direction in shapes:
            command = [f"{jdk}/bin/java", NATIVE_ACCESS, "-Xms4g", "-Xmx4g", "-cp", class_path(), "io.leafseal.bench.Cold", provider,
                       "AES/GCM/NoPadding", str(size), memory, calls, direction]
            lines = [subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1].split()
                     for _ in range(runs if size == 0 else max(1, runs // 3))]
            columns = [statistics.median(map(float, column)) for column in zip(*lines)]
            rows.append({"jdk": version(jdk), "provider": provider, "size": size, "memory": memory, "calls": calls,
                         "direction": direction, "loadMs": columns[0], "firstMs": columns[1], "callsNs": columns[2:]})
    return rows


def speed(row, nanoseconds=None):
    return row["size"] / (nanoseconds or row["ns"]) * 1e9 / (1 << 20)


def figures(rows, cold_rows):
    """The figures of the requirements, each with its bar."""
    found = []
    ours = [row for row in rows if row["provider"] == "Leafseal" and row["mode"] == "GCM" and row["size"] >= 65_536]
    for row in ours:
        of = [it for it in rows if it["jdk"] == "Rust" and it["mode"] == "GCM" and it["size"] == row["size"] and it["calls"] == "entire"
              and it["direction"] == row["direction"]]
        row["share"] = of[0]["ns"] / row["ns"] if of else None
    shared = [row for row in ours if row["share"]]
    if shared:
        least = min(shared, key=lambda row: row["share"])
        found.append({"figure": "AES-GCM from 64 KiB, warm, least share of the crypto crate's throughput",
                      "result": f"{100 * least['share']:.0f} % ({name(least)})", "bar": "65 %", "met": least["share"] >= 0.65})
    first = [row for row in cold_rows if row["provider"] == "Leafseal" and row["size"] > 0]
    if first:
        least = min(first, key=lambda row: speed(row, row["callsNs"][0]))
        value = speed(least, least["callsNs"][0])
        found.append({"figure": "first call of a fresh virtual machine, 10 and 100 MiB, slowest",
                      "result": f"{value:,.0f} MiB/s ({name(least)})", "bar": "2,500 MiB/s", "met": value >= 2500})
        speeds = [speed(row) for row in ours] + [speed(row, row["callsNs"][0]) for row in first]
        ratio = min(speeds) / max(speeds)
        found.append({"figure": "slowest of all these over the fastest", "result": f"{ratio:.2f}", "bar": "0.55", "met": ratio >= 0.55})
    found += small(rows) + start(cold_rows)
    return found


def key_figures(key_rows):
    """Our operation that gains least over the JDK's."""
    jdk_times = {(row["jdk"], row["operation"]): row["ns"] for row in key_rows if row["provider"] == "JDK"}
    ratios = [(jdk_times[row["jdk"], row["operation"]] / row["ns"], row) for row in key_rows
              if row["provider"] == "Leafseal" and (row["jdk"], row["operation"]) in jdk_times]
    if not ratios:
        return []
    least, row = min(ratios, key=lambda it: it[0])
    return [{"figure": "P-256 and RSA-2048, times as fast as the JDK, least", "result": f"{least:.1f} (JDK {row['jdk']}, {row['operation']})",
             "bar": "1", "met": least >= 1}]


def drop_in_cells(rows):
    """A row for each operation and JDK: microseconds without and with the provider, and their ratio."""
    times = {(row["operation"], row["jdk"], row["provider"]): row["ns"] for row in rows}
    cells = []
    for operation, jdk in dict.fromkeys((row["operation"], row["jdk"]) for row in rows):
        without, with_it = times[operation, jdk, "JDK"], times[operation, jdk, "Leafseal"]
        cells.append([operation, jdk, f"{without / 1000:,.0f}", f"{with_it / 1000:,.0f}", f"{without / with_it:.1f}"])
    return cells


def table(title, columns, rows):
    return {"title": title, "columns": columns, "rows": [[str(cell) for cell in row] for row in rows]}


def by_provider(title, rows):
    """A row for each operation and JDK, a column for each provider."""
    names = list(dict.fromkeys(row["provider"] for row in rows))
    times = {(row["operation"], row["jdk"], row["provider"]): row["ns"] / 1000 for row in rows}
    cells = [[operation, f"JDK {jdk}", *[f"{times[operation, jdk, name]:,.2f}" if (operation, jdk, name) in times else "" for name in names]]
             for operation, jdk in dict.fromkeys((row["operation"], row["jdk"]) for row in rows)]
    return table(title, ["operation", "on", *names], cells)


def tables(rows, cold_rows, key_rows, hash_rows, drop_in_rows):
    """For people: throughput of each provider in MiB/s, first calls, and microseconds of key operations."""
    providers = [name for name in ["crypto crate", *PROVIDERS] if any(row["provider"] == name for row in rows)]
    # All providers run on the newest JDK alone; the figures cover the others.
    newest = max((row["jdk"] for row in rows if row["jdk"] != "Rust"), key=int)
    shapes = sorted({(row["mode"], row["calls"], row["direction"], row["memory"], row["size"], row["jdk"]) for row in rows
                     if row["jdk"] == newest})
    cells = []
    for mode, calls, direction, memory, size, jdk in shapes:
        line = []
        for provider in providers:
            of = [row for row in rows if row["provider"] == provider and row["jdk"] in (jdk, "Rust") and row["memory"] in (memory, "native")
                  and (row["mode"], row["calls"], row["direction"], row["size"]) == (mode, calls, direction, size)]
            line.append("" if not of else f"{of[0]['ns']:,.0f} ns" if size <= 1024 else f"{speed(of[0]):,.0f}")
        cells.append([f"{mode}, {calls}, {direction}", f"{memory}, JDK {jdk}", size_name(size), *line])
    first = [[f"{row['calls']}, {row['direction']}", f"{row['memory']}, JDK {row['jdk']}", size_name(row["size"]), row["provider"],
              f"{speed(row, row['callsNs'][0]):,.0f}", f"{speed(row, row['callsNs'][-1]):,.0f}"] for row in cold_rows if row["size"] > 0 and row["jdk"] == newest]
    return [table("Warm, MiB/s; up to 1 KiB, time of a message", ["cipher", "memory", "size", *providers], cells),
            table("A fresh virtual machine, AES-GCM, MiB/s", ["shape", "memory", "size", "provider", "call 1", "call 5"], first),
            by_provider("P-256 and RSA-2048, µs an operation", key_rows),
            by_provider("Hash functions and HMAC, µs a message", hash_rows),
            table("Software that knows nothing of the provider, µs an operation", ["operation", "JDK", "without", "with", "times as fast"],
                  drop_in_cells(drop_in_rows))]


def size_name(size):
    return f"{size} B" if size < 1024 else f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def result(options, found, measured):
    """A result file of this repository."""
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=7", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    return {"area": "The packages for Java", "command": f"bindings/java/bench/run.py --seconds {options.seconds:g}", "machine": options.machine,
            "commit": commit, "date": datetime.date.today().isoformat(), "conditions": options.conditions,
            "figures": [{"figure": it["figure"], "result": it["result"], "ratio": "", "bar": it["bar"], "met": it["met"]} for it in found],
            "tables": tables(*measured)}


def name(row):
    return f"JDK {row['jdk']}, {row['size']} bytes, {row['memory']}, {row['calls']}, {row['direction']}"


def small(rows):
    """The worst ratio to the fastest peer up to 1 KiB."""
    worst = None
    for row in rows:
        if row["provider"] != "Leafseal" or row["mode"] != "GCM" or row["size"] > 1024:
            continue
        keys = ("jdk", "mode", "size", "memory", "calls", "direction")
        peers = [it for it in rows if it["provider"] not in ("Leafseal", "crypto crate") and all(it[key] == row[key] for key in keys)]
        if peers:
            best = min(peers, key=lambda it: it["ns"])
            if worst is None or row["ns"] / best["ns"] > worst[0]:
                worst = (row["ns"] / best["ns"], row, best)
    if worst is None:
        return []
    ratio, row, best = worst
    return [{"figure": "AES-GCM of 32 B to 1 KiB, time over that of the fastest peer, worst",
             "result": f"{ratio:.2f} ({name(row)}: {row['ns']:.0f} ns, {best['provider']} {best['ns']:.0f})", "bar": "1", "met": ratio <= 1}]


def start(cold_rows):
    totals = {(row["jdk"], row["provider"]): row["loadMs"] + row["firstMs"] for row in cold_rows if row["size"] == 0}
    more = {jdk: total - totals[(jdk, "SunJCE")] for (jdk, provider), total in totals.items()
            if provider == "Leafseal" and (jdk, "SunJCE") in totals}
    if not more:
        return []
    return [{"figure": "loading, first instance and first 1 KiB, more than SunJCE's",
             "result": ", ".join(f"{value:.0f} ms on JDK {jdk}" for jdk, value in more.items()), "bar": "60 ms",
             "met": max(more.values()) <= 60}]


def arguments():
    homes = [os.environ.get("JAVA_HOME") or str(Path(shutil.which("java")).resolve().parents[1])]
    if os.environ.get("JAVA_HOME_25"):
        homes.append(os.environ["JAVA_HOME_25"])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jdks", default=",".join(homes))
    parser.add_argument("--providers", default=",".join(PROVIDERS))
    parser.add_argument("--runs", type=int, default=9, help="fresh virtual machines for each start-up figure")
    parser.add_argument("--seconds", type=float, default=1, help="length of an iteration of JMH")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--result", type=Path, help="a file of benches/results to write")
    parser.add_argument("--machine", default="", help="the machine's letter in benches/results/index.json")
    parser.add_argument("--conditions", default="a quiet machine")
    parser.add_argument("--json", type=Path, help="a file to write what was measured to, after each part")
    parser.add_argument("--resume", action="store_true", help="take the parts that the file of --json has from there")
    parser.add_argument("--plot", type=Path)
    return parser.parse_args()


PARTS = {
    "reference": lambda run: reference() if run.is_last else [],
    "warm": lambda run: warm(run.jdk, run.providers, run.sizes, run.options.seconds, run.target),
    "keys": lambda run: keys(run.jdk, run.providers, run.options.seconds, run.target),
    "hashes": lambda run: hashes(run.jdk, run.providers, run.options.seconds, run.target),
    "dropIn": lambda run: drop_in(run.jdk, run.target),
    # BouncyCastle has no native code to load, and takes seconds for a call.
    "cold": lambda run: cold(run.jdk, [it for it in run.providers if it != "BouncyCastle"], run.runs),
}
"""Rows of each part on one JDK, in the order of the run."""


@dataclasses.dataclass(frozen=True)
class Run:
    """The parameters of the parts on one JDK."""

    options: argparse.Namespace
    target: Path
    jdk: str
    is_last: bool

    @property
    def providers(self):
        wanted = self.options.providers.split(",")
        return wanted if self.is_last else [it for it in wanted if it in ("Leafseal", "SunJCE")]

    @property
    def sizes(self):
        return [1024, 1 << 20] if self.options.quick else SIZES

    @property
    def runs(self):
        return 3 if self.options.quick else self.options.runs


def measure(options, target):
    """The rows of all parts; each part is written to the file of --json when it is done, and taken from there with --resume."""
    done = json.loads(options.json.read_text())["parts"] if options.resume and options.json.exists() else {}
    jdks = options.jdks.split(",")
    for jdk in jdks:
        run = Run(options, target, jdk, jdk == jdks[-1])
        for part, rows_of in PARTS.items():
            key = f"{part} {version(jdk)}"
            if key in done:
                continue
            began = time.monotonic()
            done[key] = rows_of(run)
            print(f"java-bench: {part} on JDK {version(jdk)}: {time.monotonic() - began:.0f} s", file=sys.stderr)
            if options.json:
                options.json.write_text(json.dumps({"parts": done}, indent=1) + "\n")
    return {part: [row for key, rows in done.items() if key.split()[0] == part for row in rows] for part in PARTS}


def main():
    options = arguments()
    target = HERE / "target/run"
    build(target)
    target.mkdir(parents=True)
    measured = measure(options, target)
    rows = measured["reference"] + measured["warm"]
    found = figures(rows, measured["cold"]) + key_figures(measured["keys"])
    for figure in found:
        print(f"{figure['figure']}: {figure['result']} (bar: {figure['bar']}, {'met' if figure['met'] else 'NOT MET'})")
    if options.result:
        everything = (rows, measured["cold"], measured["keys"], measured["hashes"], measured["dropIn"])
        options.result.write_text(json.dumps(result(options, found, everything), indent=2, ensure_ascii=False) + "\n")
    if options.plot:
        options.plot.write_text(plot(rows, measured["cold"]))


if __name__ == "__main__":
    sys.exit(main())
