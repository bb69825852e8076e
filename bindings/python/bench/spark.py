#!/usr/bin/env python3
"""Compares encryption through Spark with the identity on the same rows, in one run on local[2]; prints rates and the memory of the workers.

    LEAFSEAL=target/release/leafseal PYTHON bindings/python/bench/spark.py [--rows 10000000] [--rounds 1]

PYTHON is an interpreter with a release build of the wheel and pyspark; JAVA_HOME names JDK 17 or newer. Each row has one string of 32 bytes.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from leafseal.spark import LocalEngine, encrypt_columns
from pyspark.sql import DataFrame, SparkSession

APP = "app_bench"


def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def peak(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The peak memory of the worker, in KiB."""
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"kib": [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]})


def seconds(frame: DataFrame) -> float:
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as place:
        folder = str(Path(place) / "store")
        subprocess.run([os.environ["LEAFSEAL"], "--dir", folder, "keys", "create", APP], check=True, capture_output=True)
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "2g")
        spark = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        rows = spark.range(arguments.rows).selectExpr("rpad(concat('value number ', id), 32, 'x') as text")
        warm = rows.limit(100_000)
        sealed = encrypt_columns(rows, ["text"], engine=LocalEngine(folder), app=APP)
        seconds(warm.mapInArrow(identity, rows.schema))
        seconds(encrypt_columns(warm, ["text"], engine=LocalEngine(folder), app=APP))
        for _ in range(arguments.rounds):
            of_identity, of_sealing = seconds(rows.mapInArrow(identity, rows.schema)), seconds(sealed)
            print(
                f"{arguments.rows:,} rows: identity {arguments.rows / of_identity:,.0f} rows/s, "
                f"encryption {arguments.rows / of_sealing:,.0f} rows/s, ratio {of_identity / of_sealing:.2f}; load {os.getloadavg()[0]:.1f}"
            )
        kib = max(row.kib for row in rows.mapInArrow(peak, "kib long").collect())
        print(f"peak memory of a Python worker: {kib / 1024:,.0f} MiB")
        spark.stop()


if __name__ == "__main__":
    main()
