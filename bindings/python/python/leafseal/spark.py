"""Column functions for Spark: encrypt and decrypt columns of a DataFrame in batches of Arrow, on the executors.

A function travels to the executors with the names of columns and files alone: where the engine is, never a key. Each Python worker opens one engine, keeps it
for all tasks, and reads keys or certificates from files of its own machine, or the root key from its environment.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    _parse_datatype_string,
)

from leafseal._engine import Engine, is_pem
from leafseal._error import make
from leafseal._native import Options
from leafseal._options import DecryptionOptions, EncryptionOptions

__all__ = ["LocalEngine", "PublicKeys", "RemoteEngine", "decrypt_columns", "encrypt_columns"]

_ARROW: dict[type[DataType], pa.DataType] = {
    StringType: pa.string(),
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
}

# The types that a column of contexts may have: integers count as their decimal text.
_CONTEXTS = (StringType, ByteType, ShortType, IntegerType, LongType)


@dataclass(frozen=True)
class LocalEngine:
    """An engine in each Python worker, over a folder that every executor has: the keystore, whose private keys are encrypted, and the root key, in
    the folder or in `LEAFSEAL_ROOT_KEY` of the executor's environment, which must not come from `spark.executorEnv`: Spark shows that in its UI.

    `leafseal store extract` makes a folder with the keys of a job's apps alone.
    """

    dir: str

    def open(self) -> Engine:
        return Engine.open(self.dir)

    def files(self) -> tuple[str, ...]:
        """The files that an engine reads only once. It follows its keystore by itself."""
        return ()


@dataclass(frozen=True)
class RemoteEngine:
    """A remote engine, with files that every executor has. Executors then hold no keys of apps. Files that were replaced apply to later tasks."""

    address: str | tuple[str, ...]
    ca: str
    certificate: str
    key: str = field(repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not all(isinstance(path, (str, os.PathLike)) and not is_pem(path) for path in self.files()):
            raise make("invalid_params", "`ca`, `certificate` and `key` must be paths: a key must not travel with a plan", "never")

    def open(self) -> Engine:
        return Engine.connect(self.address, ca=self.ca, certificate=self.certificate, key=self.key, **self.settings)

    def files(self) -> tuple[str, ...]:
        return self.ca, self.certificate, self.key


@dataclass(frozen=True)
class PublicKeys:
    """An engine in each Python worker that encrypts and does nothing else, over a file that every executor has: the output of `leafseal keys public APP
    --json`. Executors then hold no secret. Protect the file against changes: a replaced key can decrypt all values that are encrypted
    with it. Later tasks use a replaced file."""

    path: str

    def open(self) -> Engine:
        return Engine.from_public_keys(self.path)

    def files(self) -> tuple[str, ...]:
        return (self.path,)


Place = LocalEngine | RemoteEngine | PublicKeys

# The setting of Spark that sets the variable for executors.
_EXPOSED_ROOT_KEY = "spark.executorEnv.LEAFSEAL_ROOT_KEY"

# Settings without which Spark silently drops and repeats rows when it encrypts again what a lost executor had encrypted: a shuffle distributes rows
# by their bytes, and other tasks may have read the earlier ones (SPARK-53575, on by default since Spark 4.2). With a push-based shuffle
# Spark ignores them (SPARK-54959).
_SAFE_RETRIES = {"spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true", "spark.shuffle.push.enabled": "false"}

# The engines by place, each with the files that it was opened with. Spark forks its Python workers, which inherit engines that do not work there.
_engines: dict[Place, tuple[list[tuple[int, ...]], Engine]] = {}


def _engine(place: Place) -> Engine:
    """The engine of this process, opened again if its files were replaced: a worker may live for as long as its executor."""
    files = [_identity(path) for path in place.files()]
    held = _engines.get(place)
    if held is not None and held[1].forked:
        held = None
    if held is not None and held[0] == files:
        return held[1]
    engine = place.open()
    _engines[place] = files, engine
    if held is not None:
        held[1].close()
    return engine


def _identity(path: str) -> tuple[int, ...]:
    """The identity of a file: it differs if another file takes its place."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def encrypt_columns(
    frame: DataFrame,
    columns: Sequence[str] | Mapping[str, str | Sequence[str] | None],
    *,
    engine: Place,
    app: str,
    context_column: str | None = None,
    strict: bool = False,
    **options: Unpack[EncryptionOptions],
) -> DataFrame:
    """Returns the frame with `columns` encrypted. They become strings; nulls stay null. Each computation makes other envelopes: store the
    frame, or checkpoint it, before you use it twice. Fails unless Spark repeats whole stages when a retried task makes other rows.

    A mapping gives JSON columns their selectors: `{"name": None, "payload": ["$.card.number"]}`. With keying `session`, the default, the batches of an executor share
    ephemeral keys for up to 15 seconds, like requests to an engine.

    With `context_column`, a column of strings or integers without nulls, each value is bound to what that column has in its row, and opens beside the same
    alone. That needs `scheme="symmetric"`, unless it is the engine's setting.
    """
    if context_column is not None and isinstance(engine, PublicKeys):
        raise make("invalid_params", "public keys bind to no context: use a LocalEngine or a RemoteEngine with `context_column`", "never")
    _refuse_exposed_root_key(frame)
    _refuse_unsafe_retries(frame)
    select = _selectors(columns)
    values = {name: None for name, selectors in select.items() if selectors is None}
    documents = {name: selectors for name, selectors in select.items() if selectors is not None}
    fields = [
        StructField(column.name, StringType(), column.nullable) if column.name in select else column
        for column in _checked(frame, dict.fromkeys(values, tuple(_ARROW)) | dict.fromkeys(documents, (StringType,)))
    ]
    _check_context(frame, context_column, select, options)
    of_calls = {"app": app, "keying": "session"} | options
    Options(**of_calls)  # A wrong option fails here, not on the executors.
    return frame.mapInArrow(_Work(engine, values, documents, of_calls, strict, context_column, encrypts=True), StructType(fields))


def decrypt_columns(
    frame: DataFrame,
    columns: Sequence[str] | Mapping[str, str | DataType],
    *,
    engine: LocalEngine | RemoteEngine,
    app: str,
    json: Mapping[str, str | Sequence[str] | None] | Sequence[str] = (),
    context_column: str | None = None,
    strict: bool = False,
    **options: Unpack[DecryptionOptions],
) -> DataFrame:
    """Returns the frame with `columns` decrypted, of the types that a mapping gives: `{"name": "string", "age": "int"}`; strings without one.

    `json` names columns of JSON text, of which the envelopes inside are decrypted, or those that selectors select. `context_column` is as when
    they were encrypted: a value from another row does not open.
    """
    if isinstance(engine, PublicKeys):
        raise make("forbidden", "public keys encrypt and do not decrypt: use a LocalEngine or a RemoteEngine", "never")
    _refuse_exposed_root_key(frame)
    types = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns, "string")
    kinds = {name: _spark_type(name, kind) for name, kind in types.items()}
    select = _selectors(json)
    both = sorted(set(kinds) & set(select))
    if both:
        raise make("invalid_params", f"columns {both} must be either values or JSON", "never")
    fields = [
        StructField(column.name, kinds.get(column.name, column.dataType), column.nullable or options.get("on_failure") == "null")
        for column in _checked(frame, dict.fromkeys([*kinds, *select], (StringType,)))
    ]
    values = {name: _ARROW[type(kind)] for name, kind in kinds.items()}
    documents = {name: ["$"] if selectors is None else selectors for name, selectors in select.items()}
    _check_context(frame, context_column, [*kinds, *select], options)
    of_calls = {"app": app} | options
    Options(**of_calls)  # A wrong option fails here, not on the executors.
    return frame.mapInArrow(_Work(engine, values, documents, of_calls, strict, context_column, encrypts=False), StructType(fields))


def _refuse_exposed_root_key(frame: DataFrame) -> None:
    """Spark writes its settings into the event log and shows them in its UI; it redacts by names, of which this is none."""
    if frame.sparkSession.conf.get(_EXPOSED_ROOT_KEY, None) is not None:
        message = (
            f"{_EXPOSED_ROOT_KEY} puts the root key into Spark's UI and event log: give it to the executors as a file or as a secret of the cluster "
            "(on Kubernetes spark.kubernetes.executor.secretKeyRef.LEAFSEAL_ROOT_KEY), and replace this root key"
        )
        raise make("invalid_params", message, "never")


def _refuse_unsafe_retries(frame: DataFrame) -> None:
    for name, needed in _SAFE_RETRIES.items():
        if _setting(frame, name) != needed:
            message = f"{name} must be {needed}, in Spark 4.2 or newer: otherwise rows are lost and repeated when an executor is lost during a shuffle"
            raise make("invalid_settings", message, "never")


def _setting(frame: DataFrame, name: str) -> str:
    """A setting in effect, which may be Spark's default; "false" for one that this Spark does not have."""
    try:
        return str(frame.sparkSession.conf.get(name))
    except PySparkException:
        return "false"


def _selectors(columns: Any) -> dict[str, list[str] | None]:
    """The selectors of each column; None for a column of values."""
    if isinstance(columns, str):
        raise make("invalid_params", "the columns must be a list or a mapping", "never")
    if not isinstance(columns, Mapping):
        return dict.fromkeys(columns)
    return {name: [value] if isinstance(value, str) else None if value is None else list(value) for name, value in columns.items()}


def _checked(frame: DataFrame, allowed: Mapping[str, tuple[type[DataType], ...]]) -> list[StructField]:
    """The fields of the frame, if each column is there once and has one of the types that are allowed for it."""
    fields = list(frame.schema.fields)
    for name, types in allowed.items():
        found = [column for column in fields if column.name == name]
        if len(found) != 1:
            raise make("invalid_params", f"the frame must have one column {name!r}, and has {len(found)}", "never")
        if not isinstance(found[0].dataType, types):
            kind = found[0].dataType.simpleString()
            raise make("invalid_params", f"column {name!r} of type {kind} has no form in an envelope: cast it to a string", "never")
    return fields


def _check_context(frame: DataFrame, name: str | None, columns: Iterable[str], options: Mapping[str, Any]) -> None:
    if name is None:
        return
    if name in columns:
        raise make("invalid_params", f"the context column {name!r} must not be encrypted itself: decryption needs it", "never")
    if options.get("context") is not None:
        raise make("invalid_params", "a context column is one context for each row, so there must be no `context`", "never")
    found = [column.dataType for column in frame.schema.fields if column.name == name]
    if len(found) != 1:
        raise make("invalid_params", f"the frame must have one column {name!r}, and has {len(found)}", "never")
    if not isinstance(found[0], _CONTEXTS):
        kind = found[0].simpleString()
        raise make("invalid_params", f"the context column {name!r} must have strings or integers, not {kind}", "never")


def _spark_type(name: str, kind: str | DataType) -> DataType:
    parsed = _parse_datatype_string(kind) if isinstance(kind, str) else kind
    if type(parsed) not in _ARROW:
        message = f"column {name!r} cannot be decrypted to {parsed.simpleString()}: decrypt it to a string, and cast that"
        raise make("invalid_params", message, "never")
    return parsed


@dataclass(frozen=True)
class _Work:
    """The function that runs on the executors. A task that is retried reads its input again and yields every row once; Spark discards
    the rows of the failed attempt and the results of other stages for them."""

    place: Place
    values: Mapping[str, pa.DataType | None]
    """Columns of values, and the types that they are decrypted to."""
    documents: Mapping[str, Sequence[str]]
    """Columns of JSON texts, and their selectors."""
    options: Mapping[str, Any]
    strict: bool
    context_column: str | None
    """The column with what the values of a row are bound to."""
    encrypts: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        engine = _engine(self.place)
        for batch in batches:
            contexts = None if self.context_column is None else batch.column(self.context_column)
            columns = [
                self._values(engine, name, column, contexts)
                if name in self.values
                else self._documents(engine, name, column, contexts)
                if name in self.documents
                else column
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _values(self, engine: Engine, name: str, column: pa.Array, contexts: pa.Array | None) -> pa.Array:
        if self.encrypts:
            return engine.encrypt_many(column, contexts=contexts, **self.options)
        return engine.decrypt_many(column, type=self.values[name], contexts=contexts, **self.options)

    def _documents(self, engine: Engine, name: str, column: pa.Array, contexts: pa.Array | None) -> pa.Array:
        """Each row is a document of its own; all of a batch are one call."""
        options = engine._options(self.documents[name], strict=self.strict, **self.options)
        return pa.array(engine._core.call("documents", self.encrypts, column, options, False, contexts))
