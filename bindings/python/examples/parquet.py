#!/usr/bin/env python3
"""Encrypts columns of a Parquet file with a local Spark, and decrypts them again: `python parquet.py FOLDER APP [PLACE]`.

FOLDER is a folder that `leafseal keys create APP` made, for example `.leafseal`. The files are written below PLACE, by default the current folder.
"""

import os
import sys
from pathlib import Path

from leafseal.spark import LocalEngine, decrypt_columns, encrypt_columns
from pyspark.sql import SparkSession


def main() -> None:
    folder, app = sys.argv[1:3]
    place = Path(sys.argv[3] if len(sys.argv) > 3 else ".").resolve()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    engine = LocalEngine(str(Path(folder).resolve()))
    people = spark.createDataFrame(
        [(1, "Ada", 36, '{"card": "4111111111111111", "amount": 12}'), (2, "Grace", None, None)],
        "id long, name string, age int, payment string",
    )
    people.write.mode("overwrite").parquet(str(place / "people.parquet"))

    plain = spark.read.parquet(str(place / "people.parquet"))
    sealed = encrypt_columns(plain, {"name": None, "age": None, "payment": ["$.card"]}, engine=engine, app=app)
    sealed.write.mode("overwrite").parquet(str(place / "sealed.parquet"))

    stored = spark.read.parquet(str(place / "sealed.parquet"))
    stored.show(truncate=40)
    decrypt_columns(stored, {"name": "string", "age": "int"}, json=["payment"], engine=engine, app=app).show(truncate=False)

    # With a symmetric key, each value bound to the id of its row: what only engines seal.
    bound = encrypt_columns(plain, {"name": None, "age": None}, engine=engine, app=app, scheme="symmetric", context_column="id")
    bound.write.mode("overwrite").parquet(str(place / "bound.parquet"))
    rows = spark.read.parquet(str(place / "bound.parquet"))
    decrypt_columns(rows, {"name": "string", "age": "int"}, engine=engine, app=app, context_column="id").show(truncate=False)
    spark.stop()


if __name__ == "__main__":
    main()
