from collections.abc import Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypedDict, TypeVar, Unpack, overload

from leafseal._options import DecryptDocumentOptions, DecryptOptions, EncryptDocumentOptions, EncryptOptions
from leafseal._types import Inspection, Report

Scalar = None | bool | int | float | str
Pem = bytes | str | PathLike[str]

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

class _PandasValues(Protocol):
    """An `Index` or an array of pandas."""

    @property
    def dtype(self) -> Any: ...
    def isna(self) -> Any: ...

D = TypeVar("D", str, bytes, dict[str, Any], list[Any])
Contexts = Sequence[str | int] | _ArrowArray | _ArrowStream | _PandasValues
A = TypeVar("A", bound=_ArrowArray | _ArrowStream | _PandasValues)

class _EncryptManyOptions(EncryptOptions, total=False):
    contexts: Contexts | None
    """The context of each value, in place of `context`: strings of 1 to 1024 bytes, or integers, which count as their decimal text. As many as
    there are values, without nulls."""

class _DecryptManyOptions(DecryptOptions, total=False):
    contexts: Contexts | None
    """The context of each value, in place of `context`: as when it was encrypted."""

class _DecryptColumnOptions(_DecryptManyOptions, total=False):
    type: Any
    """The type of a decrypted column: a name such as "int64", or a data type of Arrow. By default that of all values."""

class _Settings(TypedDict, total=False):
    server_name: str | None
    """The name that the engine's certificate must be valid for; by default the host of the address."""
    connections_max: int | None
    connect_timeout: float | None
    timeout: float | None
    """Maximum seconds of a request; 30 by default. A column of more than 10,000 values is several requests."""
    retries_max: int | None

class _Base:
    @property
    def app(self) -> str | None: ...
    @property
    def decisions(self) -> dict[str, int]:
        """The number of decisions of an engine in this process by outcome: `granted`, or the code of the refusal."""
    @property
    def closed(self) -> bool: ...
    @property
    def decisions(self) -> dict[str, int]:
        """The number of decisions of an engine in this process by outcome: `granted`, or the code of the refusal."""
    @property
    def forked(self) -> bool: ...

class Engine(_Base):
    """An engine. Threads can share it; calls release the GIL while they work."""

    @classmethod
    def open(cls, dir: str | PathLike[str], *, app: str | None = None, timeout: float | None = None) -> Self:
        """Opens the engine of a folder that `leafseal` made, in this process: its keystore, root key and settings."""

    @classmethod
    def from_public_keys(
        cls, files: str | PathLike[str] | Sequence[str | PathLike[str]], *, app: str | None = None, timeout: float | None = None
    ) -> Self:
        """Opens an engine that encrypts and does nothing else, with the public keys of apps: of files that `leafseal keys public APP --json` wrote.
        `app` is by default the only app."""

    @classmethod
    def connect(
        cls,
        address: str | Sequence[str],
        *,
        ca: Pem,
        certificate: Pem,
        key: Pem,
        app: str | None = None,
        **settings: Unpack[_Settings],
    ) -> Self:
        """Connects to one engine, or to several that serve the same apps. PEM is a path, or bytes."""

    @overload
    def encrypt(
        self,
        document: D,
        select: Sequence[str] | str | None = None,
        *,
        report: Literal[False] = False,
        **options: Unpack[EncryptDocumentOptions],
    ) -> D:
        """Encrypts the values of a JSON document that the selectors select; without selectors all."""

    @overload
    def encrypt(
        self,
        document: D,
        select: Sequence[str] | str | None = None,
        *,
        report: Literal[True],
        **options: Unpack[EncryptDocumentOptions],
    ) -> tuple[D, Report]: ...

    @overload
    def decrypt(
        self,
        document: D,
        select: Sequence[str] | str | None = None,
        *,
        report: Literal[False] = False,
        **options: Unpack[DecryptDocumentOptions],
    ) -> D:
        """Decrypts the envelopes of a JSON document that the selectors select; without selectors all."""

    @overload
    def decrypt(
        self,
        document: D,
        select: Sequence[str] | str | None = None,
        *,
        report: Literal[True],
        **options: Unpack[DecryptDocumentOptions],
    ) -> tuple[D, Report]: ...

    @overload
    def encrypt_many(
        self, values: list[Any] | tuple[Any, ...], *, report: Literal[False] = False, **options: Unpack[_EncryptManyOptions]
    ) -> list[Scalar]:
        """Encrypts values, or a column of Arrow, pandas or Polars."""

    @overload
    def encrypt_many(
        self, values: list[Any] | tuple[Any, ...], *, report: Literal[True], **options: Unpack[_EncryptManyOptions]
    ) -> tuple[list[Scalar], Report]: ...

    @overload
    def encrypt_many(
        self, values: A, *, report: Literal[False] = False, **options: Unpack[_EncryptManyOptions]
    ) -> A: ...

    @overload
    def encrypt_many(
        self, values: A, *, report: Literal[True], **options: Unpack[_EncryptManyOptions]
    ) -> tuple[A, Report]: ...

    @overload
    def decrypt_many(
        self, values: list[Any] | tuple[Any, ...], *, report: Literal[False] = False, **options: Unpack[_DecryptManyOptions]
    ) -> list[Scalar]:
        """Decrypts envelopes, or a column of them; other values stay unchanged."""

    @overload
    def decrypt_many(
        self, values: list[Any] | tuple[Any, ...], *, report: Literal[True], **options: Unpack[_DecryptManyOptions]
    ) -> tuple[list[Scalar], Report]: ...

    @overload
    def decrypt_many(
        self, values: A, *, report: Literal[False] = False, **options: Unpack[_DecryptColumnOptions]
    ) -> A: ...

    @overload
    def decrypt_many(
        self, values: A, *, report: Literal[True], **options: Unpack[_DecryptColumnOptions]
    ) -> tuple[A, Report]: ...

    @overload
    def inspect(
        self,
        envelopes: str,
        *,
        app: str | None = None,
        context: str | None = None,
        accept: str | None = None,
        timeout: float | None = None,
    ) -> Inspection:
        """Returns the metadata of envelopes, never their values; with an app including the fields inside."""

    @overload
    def inspect(
        self,
        envelopes: list[str],
        *,
        app: str | None = None,
        context: str | None = None,
        accept: str | None = None,
        timeout: float | None = None,
    ) -> list[Inspection]: ...

    def close(self) -> None:
        """Ends calls that are running, and closes connections."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class AsyncEngine(_Base):
    """The same for asyncio. Cancelling the task of a call cancels the call at the engine."""

    @classmethod
    async def open(cls, dir: str | PathLike[str], *, app: str | None = None, timeout: float | None = None) -> Self:
        """Opens the engine of a folder that `leafseal` made, in this process: its keystore, root key and settings."""

    @classmethod
    async def from_public_keys(
        cls, files: str | PathLike[str] | Sequence[str | PathLike[str]], *, app: str | None = None, timeout: float | None = None
    ) -> Self:
        """Opens an engine that encrypts and does nothing else, with the public keys of apps: of files that `leafseal keys public APP --json` wrote.
        `app` is by default the only app."""

    @classmethod
    async def connect(
        cls,
        address: str | Sequence[str],
        *,
        ca: Pem,
        certificate: Pem,
        key: Pem,
        app: str | None = None,
        **settings: Unpack[_Settings],
    ) -> Self:
        """Connects to one engine, or to several that serve the same apps. PEM is a path, or bytes."""

    @overload
    async def encrypt(
        self,
        document: D,
        select: Sequence[str] | str | None = None,
        *,
        report: Literal[False] = False,
        **options: Unpack[EncryptDocumentOptions],
    ) -> D:
        """Encrypts the values of a JSON document that the selectors select; without selectors all."""

    @overload
    async def encrypt(
        self,
        document: D,
        select: Sequence[str] | str | None = None,
        *,
        report: Literal[True],
        **options: Unpack[EncryptDocumentOptions],
    ) -> tuple[D, Report]: ...

    @overload
    async def decrypt(
        self,
        document: D,
        select: Sequence[str] | str | None = None,
        *,
        report: Literal[False] = False,
        **options: Unpack[DecryptDocumentOptions],
    ) -> D:
        """Decrypts the envelopes of a JSON document that the selectors select; without selectors all."""

    @overload
    async def decrypt(
        self,
        document: D,
        select: Sequence[str] | str | None = None,
        *,
        report: Literal[True],
        **options: Unpack[DecryptDocumentOptions],
    ) -> tuple[D, Report]: ...

    @overload
    async def encrypt_many(
        self, values: list[Any] | tuple[Any, ...], *, report: Literal[False] = False, **options: Unpack[_EncryptManyOptions]
    ) -> list[Scalar]:
        """Encrypts values, or a column of Arrow, pandas or Polars."""

    @overload
    async def encrypt_many(
        self, values: list[Any] | tuple[Any, ...], *, report: Literal[True], **options: Unpack[_EncryptManyOptions]
    ) -> tuple[list[Scalar], Report]: ...

    @overload
    async def encrypt_many(
        self, values: A, *, report: Literal[False] = False, **options: Unpack[_EncryptManyOptions]
    ) -> A: ...

    @overload
    async def encrypt_many(
        self, values: A, *, report: Literal[True], **options: Unpack[_EncryptManyOptions]
    ) -> tuple[A, Report]: ...

    @overload
    async def decrypt_many(
        self, values: list[Any] | tuple[Any, ...], *, report: Literal[False] = False, **options: Unpack[_DecryptManyOptions]
    ) -> list[Scalar]:
        """Decrypts envelopes, or a column of them; other values stay unchanged."""

    @overload
    async def decrypt_many(
        self, values: list[Any] | tuple[Any, ...], *, report: Literal[True], **options: Unpack[_DecryptManyOptions]
    ) -> tuple[list[Scalar], Report]: ...

    @overload
    async def decrypt_many(
        self, values: A, *, report: Literal[False] = False, **options: Unpack[_DecryptColumnOptions]
    ) -> A: ...

    @overload
    async def decrypt_many(
        self, values: A, *, report: Literal[True], **options: Unpack[_DecryptColumnOptions]
    ) -> tuple[A, Report]: ...

    @overload
    async def inspect(
        self,
        envelopes: str,
        *,
        app: str | None = None,
        context: str | None = None,
        accept: str | None = None,
        timeout: float | None = None,
    ) -> Inspection:
        """Returns the metadata of envelopes, never their values; with an app including the fields inside."""

    @overload
    async def inspect(
        self,
        envelopes: list[str],
        *,
        app: str | None = None,
        context: str | None = None,
        accept: str | None = None,
        timeout: float | None = None,
    ) -> list[Inspection]: ...

    async def aclose(self) -> None:
        """Ends calls that are running, and closes connections."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
