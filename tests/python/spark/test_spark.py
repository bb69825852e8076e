"""Columns of Parquet files through a local Spark: every type, JSON, failing tasks, and what plans and logs contain."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import leafseal
import pandas
import pyarrow as pa
import pytest
from conftest import APP
from decryptor import Decryptor
from leafseal.spark import LocalEngine, PublicKeys, RemoteEngine, decrypt_columns, encrypt_columns
from program import Program, Server
from pyspark import cloudpickle
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Row, SparkSession, functions

README = Path(__file__).resolve().parents[3] / "bindings" / "python" / "README.md"
SECRET = "4111-secret"
ROWS = 2_000
SCHEMA = "id long, name string, age int, small byte, short short, long long, score double, ratio float, active boolean, raw binary, payload string"
TYPES = {
    "name": "string",
    "age": "int",
    "small": "byte",
    "short": "short",
    "long": "long",
    "score": "double",
    "ratio": "float",
    "active": "boolean",
    "raw": "binary",
}


def rows() -> Iterator[tuple[object, ...]]:
    for index in range(ROWS):
        null = index % 7 == 0
        payload = json.dumps({"card": {"number": f"{SECRET}-{index}"}, "amount": index}, ensure_ascii=False)
        values = (f"{SECRET} ü {index}", index, index % 128, -index, 2**62 + index, index / 3, 0.5, index % 2 == 0, b"raw", payload)
        yield (index, *((None,) * len(values) if null else values))


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = str(tmp_path_factory.mktemp("data") / "plain.parquet")
    spark.createDataFrame(list(rows()), SCHEMA).repartition(4).write.parquet(path)
    return spark.read.parquet(path)


@pytest.fixture(params=["local", "remote"])
def place(request: pytest.FixtureRequest, program: Program) -> LocalEngine | RemoteEngine:
    if request.param == "local":
        return LocalEngine(str(program.folder))
    server: Server = request.getfixturevalue("server")
    return RemoteEngine(server.address, **{name: str(path) for name, path in server.credentials().items()})


def by_id(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: row.id)


def test_parquet_files(plain: DataFrame, place: LocalEngine, spark: SparkSession, tmp_path: Path, decryptor: Decryptor) -> None:
    columns = {**dict.fromkeys(TYPES), "payload": ["$.card.number"]}
    sealed = encrypt_columns(plain, columns, engine=place, app=APP, role="pii")
    path = str(tmp_path / "sealed.parquet")
    sealed.write.parquet(path)
    stored = spark.read.parquet(path)
    assert {name: kind for name, kind in stored.dtypes if name != "id"} == dict.fromkeys([*TYPES, "payload"], "string")
    found = by_id(stored)
    assert [row.id for row in found] == list(range(ROWS))
    for row in found[:50]:
        for name in TYPES:
            assert (row[name] is None) == (row.id % 7 == 0)
        if row.name is not None:
            assert decryptor.open(row.name).value == f"{SECRET} ü {row.id}" and decryptor.open(row.age).value == row.id
            assert decryptor.open(row.name).role == "pii"
            assert json.loads(row.payload)["amount"] == row.id and SECRET not in row.payload
    opened = decrypt_columns(stored, TYPES, engine=place, app=APP, role="pii", json=["payload"])
    assert opened.schema == plain.schema and by_id(opened) == by_id(plain)


def moved(frame: DataFrame) -> DataFrame:
    """The frame with each row under the id of another one, as by someone who can write the table but not encrypt."""
    return frame.withColumn("id", frame.id + 1)


def test_values_open_in_their_own_row_alone(plain: DataFrame, place: LocalEngine, spark: SparkSession, tmp_path: Path) -> None:
    columns = {"name": None, "age": None, "payload": ["$.card.number"]}
    sealed = encrypt_columns(plain, columns, engine=place, app=APP, scheme="symmetric", context_column="id")
    path = str(tmp_path / "sealed.parquet")
    sealed.write.parquet(path)
    stored = spark.read.parquet(path)
    bound = {"engine": place, "app": APP, "context_column": "id"}
    types = {"name": "string", "age": "int"}
    opened = decrypt_columns(stored, types, json=["payload"], **bound)
    assert opened.schema == plain.schema and by_id(opened) == by_id(plain)
    with pytest.raises(PythonException, match="decrypt failed"):
        decrypt_columns(moved(stored), ["name"], **bound).collect()
    with pytest.raises(PythonException, match="decrypt failed"):
        decrypt_columns(moved(stored), [], json=["payload"], **bound).collect()
    with pytest.raises(PythonException, match="decrypt failed"):
        decrypt_columns(stored, ["name"], engine=place, app=APP).collect()
    # One row has the value of another one.
    copied = stored.withColumn("name", functions.when(stored.id == 3, stored.filter("id = 4").first().name).otherwise(stored.name))
    found = by_id(decrypt_columns(copied, types, on_failure="null", **bound))
    assert found[3].name is None and found[4].name == f"{SECRET} ü 4" and found[3].age == 3
    # A string of the same digits is the same context.
    texts = stored.withColumn("id", stored.id.cast("string"))
    assert len(decrypt_columns(texts, types, **bound).collect()) == ROWS


def test_context_columns_that_are_refused(plain: DataFrame, program: Program, tmp_path: Path) -> None:
    of_engine = {"engine": LocalEngine(str(program.folder)), "app": APP}
    of_context = {"scheme": "symmetric", "context_column": "id"}
    for columns, options, words in [
        (["name"], {**of_context, "context_column": "missing"}, "one column 'missing'"),
        (["name"], {**of_context, "context_column": "score"}, "strings or integers, not double"),
        (["name", "id"], of_context, "must not be encrypted"),
        (["name"], {**of_context, "context": "all"}, "no `context`"),
    ]:
        with pytest.raises(leafseal.InvalidParams, match=words):
            encrypt_columns(plain, columns, **of_engine, **options)
    for options, words in [({"context_column": "name"}, "must not be encrypted"), ({"context_column": "score"}, "strings or integers")]:
        with pytest.raises(leafseal.InvalidParams, match=words):
            decrypt_columns(plain, ["name"], **of_engine, **options)
    with pytest.raises(leafseal.InvalidParams, match="public keys bind to no context"):
        encrypt_columns(plain, ["name"], engine=PublicKeys(str(tmp_path / "keys.json")), app=APP, context_column="id")
    # A null beside a null value, too.
    with pytest.raises(PythonException, match="is null"):
        encrypt_columns(plain, ["name"], **of_engine, scheme="symmetric", context_column="age").collect()


def test_public_keys_encrypt_without_a_secret(plain: DataFrame, program: Program, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(program.run("keys", "public", APP, "--json"))
    public = PublicKeys(str(file))
    sealed = encrypt_columns(plain, {"name": None, "payload": ["$.card"]}, engine=public, app=APP, role="pii")
    keys = json.loads(file.read_text())
    work = cloudpickle.dumps(encrypt_columns.__globals__["_Work"](public, {"name": None}, {}, {}, False, None, True))
    assert keys["r1"].encode() not in work, "paths alone travel"
    opened = decrypt_columns(sealed, ["name"], engine=LocalEngine(str(program.folder)), app=APP, role="pii", json=["payload"])
    assert [row.name for row in by_id(opened)] == [row.name for row in by_id(plain)]
    assert [row.payload for row in by_id(opened)] == [row.payload for row in by_id(plain)]
    with pytest.raises(leafseal.Forbidden, match="do not decrypt"):
        decrypt_columns(sealed, ["name"], engine=public, app=APP)


def test_session_keys_serve_several_batches(plain: DataFrame, program: Program, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        sealed = encrypt_columns(plain, ["name"], engine=LocalEngine(str(program.folder)), app=APP).collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    texts = [row.name for row in sealed if row.name]
    # One key for each of the workers, or two if the session ended meanwhile: not one for each of 20 batches.
    assert len({text.split(":")[3] for text in texts}) <= 6
    assert len({text.split(":")[2] for text in texts}) == len(texts), "no nonce repeats"


def test_tasks_that_fail_are_repeated(plain: DataFrame, program: Program, tmp_path: Path, spark: SparkSession) -> None:
    marker = str(tmp_path / "failed")

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            yield batch
            if number == 0 and not os.path.exists(marker):
                open(marker, "x").close()
                os._exit(1)  # The worker dies after it has yielded rows.

    engine = LocalEngine(str(program.folder))
    sealed = encrypt_columns(plain, ["name"], engine=engine, app=APP)
    path = str(tmp_path / "sealed.parquet")
    sealed.mapInArrow(fail_once, sealed.schema).write.parquet(path)
    assert os.path.exists(marker)
    opened = decrypt_columns(spark.read.parquet(path), ["name"], engine=engine, app=APP)
    assert by_id(opened.select("id", "name")) == by_id(plain.select("id", "name"))


def test_a_shuffle_whose_files_are_lost_drops_and_repeats_no_row(plain: DataFrame, program: Program, tmp_path: Path, spark: SparkSession) -> None:
    """Spark then encrypts again, and the new envelopes go to other partitions than the old ones, of which some have been read."""
    done, lost, files = tmp_path / "done", tmp_path / "lost", spark.conf.get("spark.local.dir")
    done.mkdir()

    def lose_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        (done / os.urandom(8).hex()).touch()
        if len(list(done.iterdir())) > 4 and not lost.exists():
            lost.touch()
            for file in Path(files).rglob("shuffle_*"):
                file.unlink(missing_ok=True)

    engine = LocalEngine(str(program.folder))
    sealed = encrypt_columns(plain, ["name"], engine=engine, app=APP).repartition(16)
    path = str(tmp_path / "sealed.parquet")
    try:
        sealed.mapInArrow(lose_files, sealed.schema).write.parquet(path)
    except Exception as error:
        # What has been written of a job cannot be taken back, so Spark ends the whole job, of which nothing is left.
        assert "indeterminate" in str(error) or "checksum" in str(error), error
        assert not Path(path, "_SUCCESS").exists() and not list(Path(path).glob("*.parquet"))
        sealed.write.mode("overwrite").parquet(path)
    assert lost.exists()
    opened = decrypt_columns(spark.read.parquet(path), ["name"], engine=engine, app=APP)
    assert by_id(opened.select("id", "name")) == by_id(plain.select("id", "name"))


def test_settings_with_which_rows_are_lost_are_refused(spark: SparkSession, plain: DataFrame, program: Program) -> None:
    name = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"
    spark.conf.set(name, "false")
    try:
        with pytest.raises(leafseal.InvalidSettings, match=f"{name} must be true"):
            encrypt_columns(plain, ["name"], engine=LocalEngine(str(program.folder)), app=APP)
    finally:
        spark.conf.unset(name)


def test_plans_closures_and_logs_contain_no_secret(
    plain: DataFrame, place: LocalEngine, program: Program, server: Server, events: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sealed = encrypt_columns(plain, ["name"], engine=place, app=APP)
    sealed.explain(True)
    sealed.select("name").collect()
    work = leafseal.spark._Work(place, {"name": None}, {}, {"app": APP}, False, None, True)
    closure = cloudpickle.dumps(work)
    logs = b"".join(path.read_bytes() for path in events.rglob("*") if path.is_file())
    assert logs
    written = capfd.readouterr()
    key = server.credentials()["key"].read_text().splitlines()[1]
    root = (program.folder / "root.key").read_text().strip().rpartition(":")[2]
    pages = pages_of_the_ui(plain.sparkSession)
    assert "mapInArrow" in pages.lower() or "MapInArrow" in pages, "the plan is shown"
    for secret in (SECRET, key, root):
        assert len(secret) > 8
        assert secret not in written.out + written.err
        assert secret.encode() not in closure and secret.encode() not in logs
        assert secret not in pages


def pages_of_the_ui(spark: SparkSession) -> str:
    """Every page of Spark's UI that a link leads to, and everything that its REST interface lists."""
    start = spark.sparkContext.uiWebUrl
    assert start is not None
    application = f"{start}/api/v1/applications/{spark.sparkContext.applicationId}"
    rest = ["jobs", "stages?details=true", "executors", "environment", "storage/rdd", "sql?details=true&planDescription=true&length=1000"]
    waiting, seen = [f"{start}/jobs/", *(f"{application}/{name}" for name in rest)], set()
    pages = []
    while waiting:
        address = waiting.pop()
        if address in seen:
            continue
        seen.add(address)
        with urllib.request.urlopen(address, timeout=30) as answer:
            page = answer.read().decode(errors="replace")
        pages.append(page)
        # Neither files nor actions, such as the end of a job.
        links = re.findall(r'href="(/(?:jobs|stages|storage|environment|executors|SQL)/[^"#]*)"', page)
        waiting += [start + link.replace("&amp;", "&") for link in links if "/kill" not in link and len(seen) < 500]
    assert len(seen) > 20, seen
    return "\n".join(pages)


def test_a_root_key_in_the_settings_of_spark_is_refused(spark: SparkSession, plain: DataFrame, program: Program) -> None:
    engine = LocalEngine(str(program.folder))
    spark.conf.set("spark.executorEnv.LEAFSEAL_ROOT_KEY", "leafseal-root-key-1:AAAA")
    try:
        for call in (encrypt_columns, decrypt_columns):
            with pytest.raises(leafseal.InvalidParams, match="secretKeyRef") as caught:
                call(plain, ["name"], engine=engine, app=APP)
            assert "AAAA" not in str(caught.value)
    finally:
        spark.conf.unset("spark.executorEnv.LEAFSEAL_ROOT_KEY")


def test_files_that_are_replaced_apply_to_later_tasks(plain: DataFrame, tmp_path: Path) -> None:
    program = Program(tmp_path / "store")
    program.run("keys", "create", APP)
    whole, public, extract = LocalEngine(str(program.folder)), tmp_path / "keys.json", tmp_path / "extract"

    def publish() -> None:
        (tmp_path / "next.json").write_bytes(program.run("keys", "public", APP, "--json"))
        (tmp_path / "next.json").replace(public)
        program.run("store", "extract", APP, "--to", str(tmp_path / "next"), "--root-key-file", str(extract / "root.key"))
        (tmp_path / "next" / "keystore.db").replace(extract / "keystore.db")

    publish()
    first = encrypt_columns(plain, ["name"], engine=PublicKeys(str(public)), app=APP)
    assert decrypt_columns(first, ["name"], engine=LocalEngine(str(extract)), app=APP).count() == ROWS
    program.run("keys", "rotate", APP)
    publish()
    program.run("keys", "disable", APP, "--version", "1")
    # The same workers, with the new public key and the new extract: the whole store has no older one in use.
    sealed = encrypt_columns(plain, ["name"], engine=PublicKeys(str(public)), app=APP)
    for engine in (whole, LocalEngine(str(extract))):
        opened = decrypt_columns(sealed, ["name"], engine=engine, app=APP)
        assert [row.name for row in eventually(lambda opened=opened: by_id(opened))] == [row.name for row in by_id(plain)]


def eventually(rows: Callable[[], list[Row]]) -> list[Row]:
    """Repeats a job that fails until the engines of the workers have noticed a change of their store, which takes a second."""
    end = time.monotonic() + 60
    while True:
        try:
            return rows()
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def test_an_extract_decrypts_its_app_alone(plain: DataFrame, program: Program, tmp_path: Path) -> None:
    program.run("store", "extract", APP, "--to", str(tmp_path / "extract"))
    whole, extract = LocalEngine(str(program.folder)), LocalEngine(str(tmp_path / "extract"))
    sealed = encrypt_columns(plain, ["name"], engine=whole, app=APP)
    opened = decrypt_columns(sealed, ["name"], engine=extract, app=APP)
    assert [row.name for row in by_id(opened)] == [row.name for row in by_id(plain)]
    assert decrypt_columns(encrypt_columns(plain, ["name"], engine=extract, app=APP), ["name"], engine=whole, app=APP).count() == ROWS
    with pytest.raises(Exception, match="unknown_app|no app"):
        decrypt_columns(sealed, ["name"], engine=extract, app="another").collect()


def test_refusals(spark: SparkSession, plain: DataFrame, program: Program) -> None:
    engine = LocalEngine(str(program.folder))
    dates = spark.sql("select date'2026-01-01' as day, array(1) as list")
    for call in (
        lambda: encrypt_columns(plain, ["nothing"], engine=engine, app=APP),
        lambda: encrypt_columns(plain, "name", engine=engine, app=APP),
        lambda: encrypt_columns(dates, ["day"], engine=engine, app=APP),
        lambda: encrypt_columns(plain, {"age": ["$.a"]}, engine=engine, app=APP),
        lambda: decrypt_columns(plain, ["age"], engine=engine, app=APP),
        lambda: decrypt_columns(plain, {"name": "date"}, engine=engine, app=APP),
        lambda: decrypt_columns(plain, ["name"], json=["name"], engine=engine, app=APP),
        lambda: RemoteEngine("host", b"-----BEGIN", "a", "b"),
        lambda: RemoteEngine("host", "a", "b", "-----BEGIN PRIVATE KEY-----\nMIIsecret"),
    ):
        with pytest.raises(leafseal.InvalidParams):
            call()
    with pytest.raises(Exception, match="unknown_app|no app") as caught:
        encrypt_columns(plain, ["name"], engine=engine, app="nobody").collect()
    assert SECRET not in str(caught.value)


def test_series_of_pandas_2(program: Program) -> None:
    assert not hasattr(pandas.Series, "__arrow_c_stream__"), "the main tests have a newer one"
    with leafseal.Engine.open(program.folder, app=APP) as engine:
        names = pandas.Series(["a", None, "ü"], index=[7, 8, 9], name="names")
        sealed = engine.encrypt_many(names)
        assert list(sealed.index) == [7, 8, 9] and sealed.name == "names" and sealed.isna().tolist() == [False, True, False]
        opened = engine.decrypt_many(sealed)
        assert opened.tolist() == ["a", None, "ü"] and opened.name == "names"
        ages = engine.decrypt_many(engine.encrypt_many(pandas.Series([1, 2**62])))
        assert ages.tolist() == [1, 2**62]
        with pytest.raises(leafseal.InvalidParams) as caught:
            engine.encrypt_many(pandas.Series([SECRET, 7], dtype=object))
        assert SECRET not in str(caught.value)


def test_failures_can_become_null(spark: SparkSession, program: Program) -> None:
    engine = LocalEngine(str(program.folder))
    frame = encrypt_columns(spark.createDataFrame([("a",), ("b",)], "name string"), ["name"], engine=engine, app=APP)
    texts = [row.name for row in frame.collect()]
    texts[1] = texts[1][:-10] + ("A" if texts[1][-10] != "A" else "B") + texts[1][-9:]
    broken = spark.createDataFrame([(text,) for text in texts], "name string")
    opened = decrypt_columns(broken, ["name"], engine=engine, app=APP, on_failure="null")
    assert [row.name for row in opened.collect()] == ["a", None]
    with pytest.raises(Exception, match="decrypt failed"):
        decrypt_columns(broken, ["name"], engine=engine, app=APP).collect()


def test_the_example(program: Program, tmp_path: Path) -> None:
    example = Path(__file__).resolve().parents[3] / "bindings" / "python" / "examples" / "parquet.py"
    command = [sys.executable, str(example), str(program.folder), APP, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ev:" in done.stdout and "Grace" in done.stdout
    assert all(b"Grace" not in path.read_bytes() for path in (tmp_path / "sealed.parquet").glob("*.parquet"))


def test_the_example_of_the_readme(spark: SparkSession, program: Program) -> None:
    """The block as it is printed, in this session of Spark and with this folder."""
    text = README.read_text()
    [block] = [code for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if "leafseal.spark" in code]
    exec(block.replace("/etc/leafseal", str(program.folder)).replace('app="app_dev"', f"app={APP!r}"), {})
