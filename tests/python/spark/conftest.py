"""A local Spark with two cores, with its UI and event logs, and an app in a folder."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
sys.path += [str(TESTS / "python"), str(TESTS / "interop")]

import app_keys
from decryptor import Decryptor
from program import Program, Server, running
from pyspark.sql import SparkSession

APP = "py"
# The workers run in this virtual environment, too.
os.environ["PYSPARK_PYTHON"] = sys.executable


@pytest.fixture(scope="session")
def decryptor() -> Decryptor:
    return Decryptor(app_keys.of_the_vectors())


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    program = Program(tmp_path_factory.mktemp("folder") / "store")
    program.import_keys(APP, app_keys.of_the_vectors())
    return program


@pytest.fixture(scope="session")
def server(program: Program) -> Iterator[Server]:
    with running(program, APP) as server:
        yield server


@pytest.fixture(scope="session")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(events: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = {
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.local.dir": str(tmp_path_factory.mktemp("local")),
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.shuffle.partitions": "2",
    }
    # The second number is how often a task may fail.
    builder = SparkSession.builder.master("local[2,3]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
