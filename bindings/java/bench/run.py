#!/usr/bin/env python3
"""The JCA provider beside SunJCE, Corretto, Conscrypt and BouncyCastle, warm and cold, and beside the crypto crate in Rust, in one run.

    bindings/java/bench/run.py --json results.json --plot throughput.svg
    bindings/java/bench/run.py --quick                          one size, for a look
    bindings/java/bench/run.py --providers Fieldseal,SunJCE --jdks /usr/lib/jvm/java-17-openjdk-amd64

Builds everything first. `--jdks` names the homes of JDKs, by default the one of `java` and JAVA_HOME_25. All providers run on the last one;
on the others, SunJCE and Fieldseal. Needs a quiet machine: figures are wall time.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from plot import plot

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROVIDERS = ["Fieldseal", "SunJCE", "Corretto", "Conscrypt", "BouncyCastle"]
SIZES = [32, 256, 1024, 16_384, 65_536, 1 << 20, 10 << 20, 100 << 20]
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
    command = ["cargo", "bench", "--quiet", "--package", "fieldseal-java", "--bench", "reference"]
    output = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout
    rows = []
    for line in output.splitlines():
        mode, size, calls, direction, time = line.split()
        rows.append({"jdk": "Rust", "provider": "crypto crate", "mode": mode, "size": int(size), "memory": "native",
                     "calls": calls, "direction": direction, "ns": float(time)})
    return rows


def warm(jdk, providers, sizes, target):
    """JMH in processes of its own; combinations without a meaning are left out."""
    rows = []
    groups = [(["AES/GCM/NoPadding"], "entire", sizes), (["AES/GCM/NoPadding"], "chunked", [s for s in sizes if s > CHUNK_SIZE]),
              (["AES/CTR/NoPadding"], "entire", [s for s in sizes if s >= 1024])]
    for transformations, calls, some in groups:
        if not some:
            continue
        result = target / "jmh.json"
        directions = "encrypt" if "CTR" in transformations[0] else "encrypt,decrypt"
        command = [f"{jdk}/bin/java", NATIVE_ACCESS, "-cp", class_path(), "org.openjdk.jmh.Main", "CipherBenchmark", "-v", "SILENT",
                   "-rf", "json", "-rff", result, "-jvmArgsPrepend", NATIVE_ACCESS,
                   "-p", f"provider={','.join(providers)}", "-p", f"transformation={','.join(transformations)}",
                   "-p", f"size={','.join(map(str, some))}", "-p", f"calls={calls}", "-p", f"direction={directions}"]
        subprocess.run(command, check=True)
        for it in json.loads(result.read_text()):
            parameters = it["params"]
            rows.append({"jdk": version(jdk), "provider": parameters["provider"], "mode": parameters["transformation"][4:7],
                         "size": int(parameters["size"]), "memory": parameters["memory"], "calls": parameters["calls"],
                         "direction": parameters["direction"], "ns": it["primaryMetric"]["score"]})
    return rows


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
            command = [f"{jdk}/bin/java", NATIVE_ACCESS, "-Xms4g", "-Xmx4g", "-cp", class_path(), "io.fieldseal.bench.Cold", provider,
                       "AES/GCM/NoPadding", str(size), memory, calls, direction]
            lines = [subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1].split()
                     for _ in range(runs if size == 0 else max(1, runs // 3))]
            columns = [statistics.median(map(float, column)) for column in zip(*lines)]
            rows.append({"jdk": version(jdk), "provider": provider, "size": size, "memory": memory, "calls": calls,
                         "direction": direction, "loadMs": columns[0], "firstMs": columns[1], "callsNs": columns[2:]})
    return rows


def speed(row, time=None):
    return row["size"] / (time or row["ns"]) * 1e9 / (1 << 20)


def figures(rows, cold_rows):
    """The figures of the requirements, each with its bar."""
    found = []
    ours = [row for row in rows if row["provider"] == "Fieldseal" and row["mode"] == "GCM" and row["size"] >= 65_536]
    for row in ours:
        of = [it for it in rows if it["jdk"] == "Rust" and it["mode"] == "GCM" and it["size"] == row["size"] and it["calls"] == "entire"
              and it["direction"] == row["direction"]]
        row["share"] = of[0]["ns"] / row["ns"] if of else None
    shared = [row for row in ours if row["share"]]
    if shared:
        least = min(shared, key=lambda row: row["share"])
        found.append({"figure": "AES-GCM from 64 KiB, warm, least share of the crypto crate's throughput",
                      "result": f"{100 * least['share']:.0f} % ({name(least)})", "bar": "65 %", "met": least["share"] >= 0.65})
    first = [row for row in cold_rows if row["provider"] == "Fieldseal" and row["size"] > 0]
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


def name(row):
    return f"JDK {row['jdk']}, {row['size']} bytes, {row['memory']}, {row['calls']}, {row['direction']}"


def small(rows):
    """The worst ratio to the fastest peer up to 1 KiB."""
    worst = None
    for row in rows:
        if row["provider"] != "Fieldseal" or row["mode"] != "GCM" or row["size"] > 1024:
            continue
        keys = ("jdk", "mode", "size", "memory", "calls", "direction")
        peers = [it for it in rows if it["provider"] not in ("Fieldseal", "crypto crate") and all(it[key] == row[key] for key in keys)]
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
            if provider == "Fieldseal" and (jdk, "SunJCE") in totals}
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
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    return parser.parse_args()


def main():
    options = arguments()
    target = HERE / "target/run"
    build(target)
    target.mkdir(parents=True)
    sizes = [1024, 1 << 20] if options.quick else SIZES
    jdks = options.jdks.split(",")
    rows, cold_rows = reference(), []
    for jdk in jdks:
        wanted = options.providers.split(",")
        providers = wanted if jdk == jdks[-1] else [it for it in wanted if it in ("Fieldseal", "SunJCE")]
        rows += warm(jdk, providers, sizes, target)
        cold_rows += cold(jdk, providers, 3 if options.quick else options.runs)
    found = figures(rows, cold_rows)
    for figure in found:
        print(f"{figure['figure']}: {figure['result']} (bar: {figure['bar']}, {'met' if figure['met'] else 'NOT MET'})")
    if options.json:
        options.json.write_text(json.dumps({"figures": found, "warm": rows, "cold": cold_rows}, indent=1) + "\n")
    if options.plot:
        options.plot.write_text(plot(rows, cold_rows))


if __name__ == "__main__":
    sys.exit(main())
