"""The engines: `Engine` for threads, `AsyncEngine` for asyncio, each local or remote."""

import asyncio
import atexit
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from leafseal._convert import arrow, contexts_for, like
from leafseal._error import make
from leafseal._native import Core, Options, end, forked

_PORT = 3443

atexit.register(end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)


def _pem(what: str, given: Any) -> bytes:
    """Reads PEM: bytes are its text, anything else is the path of a file."""
    if isinstance(given, (bytes, bytearray)):
        return bytes(given)
    if is_pem(given):
        raise make("invalid_settings", f"{what}: a str is the path of a file; PEM text must be bytes", "never")
    try:
        return Path(given).read_bytes()
    except OSError as error:
        # What was given for a path may be a key.
        place = "" if what == "key" else f"{given}: "
        raise make("invalid_settings", f"{what}: {place}{error.strerror}", "never") from None


def is_pem(given: Any) -> bool:
    """Whether a text that must be a path is PEM."""
    return isinstance(given, str) and ("-----BEGIN" in given or "\n" in given)


def _addresses(address: Any) -> list[str]:
    addresses = [address] if isinstance(address, str) else list(address)
    return [one if _has_port(one) else f"{one}:{_PORT}" for one in addresses]


def _has_port(address: str) -> bool:
    return address.rpartition(":")[2].isdigit() and not address.endswith("]") and ":" in address


def _open(dir: str | os.PathLike[str], timeout: float | None) -> Core:
    return Core.open(os.fspath(dir), os.environ.get("LEAFSEAL_ROOT_KEY"), timeout)


def _of_public_keys(files: Any, app: str | None, timeout: float | None) -> tuple[Core, str | None]:
    """An engine of the public keys in files, and its app: the only one, unless another is given."""
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    apps = [keys for path in paths for keys in _public_keys(path)]
    names = {name for name, *_ in apps}
    if not names:
        raise make("invalid_settings", "there must be at least one file with public keys", "never")
    if len(names) < len(apps):
        raise make("invalid_settings", "the files contain public keys of an app more than once: give the newest alone", "never")
    if app is not None and app not in names:
        raise make("unknown_app", f"there is no public key of app {app}", "never")
    return Core.of_public_keys(apps, timeout), app or (names.pop() if len(names) == 1 else None)


def _public_keys(path: Any) -> list[tuple[str, int, bytes, bytes]]:
    """Reads what `leafseal keys public APP --json` prints, or a list of that."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise make("invalid_settings", f"{path}: {error.strerror}", "never") from None
    except UnicodeDecodeError:
        raise make("invalid_settings", f"{path}: not UTF-8", "never") from None
    try:
        found = json.loads(text)
        entries = found if isinstance(found, list) else [found]
        return [_public_key(**{name: one[name] for name in ("app", "version", "r1", "k1")}) for one in entries]
    except (KeyError, TypeError, ValueError):
        message = f"{path}: must be what `leafseal keys public APP --json` prints, or a list of that"
        raise make("invalid_settings", message, "never") from None


def _public_key(app: Any, version: Any, r1: Any, k1: Any) -> tuple[str, int, bytes, bytes]:
    if not (isinstance(app, str) and type(version) is int and 0 < version < 1 << 32):
        raise ValueError
    return app, version, bytes.fromhex(r1), bytes.fromhex(k1)


def _core(address: Any, ca: Any, certificate: Any, key: Any, settings: dict[str, Any]) -> Core:
    given = [ca, certificate, key]
    # New connections read them again, so that renewed ones are used.
    files = None if any(isinstance(one, (bytes, bytearray)) for one in given) else given
    return Core.connect(
        _addresses(address),
        _pem("ca", ca),
        _pem("certificate", certificate),
        _pem("key", key),
        files=files,
        **settings,
    )


def _of_inspection(
    app: str | None = None, context: str | None = None, accept: str | None = None, timeout: float | None = None
) -> Options:
    """The options of `inspect`, without the engine's app: with one, inspection needs the permission to decrypt."""
    return Options(app=app, context=context, accept=accept, timeout=timeout)


class _Base:
    """Shared by both kinds of engine: the native engine, and the options of calls."""

    def __init__(self, core: Core, app: str | None) -> None:
        self._core = core
        self._app = app

    def __repr__(self) -> str:
        place = "remote" if self._core.is_remote else "local"
        state = ", closed" if self._core.closed else ""
        return f"<leafseal.{type(self).__name__} {place}{state}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"a leafseal.{type(self).__name__} cannot be pickled: create one in each process")

    @property
    def app(self) -> str | None:
        """The app of calls that name none."""
        return self._app

    @property
    def closed(self) -> bool:
        return self._core.closed

    @property
    def decisions(self) -> dict[str, int]:
        """The number of decisions of an engine in this process by outcome: `granted`, or the code of the refusal."""
        return self._core.decisions

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that created the engine: its calls raise `Forked`."""
        return self._core.forked

    def _options(self, select: Sequence[str] | str | None = None, **options: Any) -> Options:
        if isinstance(select, str):
            select = [select]
        if options.get("app") is None:
            options["app"] = self._app
        try:
            return Options(select=None if select is None else list(select), **options)
        except TypeError as error:
            raise make("invalid_params", str(error), "never") from None


class Engine(_Base):
    """An engine. Threads can share it; calls release the GIL while they work."""

    @classmethod
    def open(cls, dir: str | os.PathLike[str], *, app: str | None = None, timeout: float | None = None) -> Self:
        return cls(_open(dir, timeout), app)

    @classmethod
    def from_public_keys(cls, files: Any, *, app: str | None = None, timeout: float | None = None) -> Self:
        return cls(*_of_public_keys(files, app, timeout))

    @classmethod
    def connect(
        cls, address: str | Sequence[str], *, ca: Any, certificate: Any, key: Any, app: str | None = None, **settings: Any
    ) -> Self:
        engine = cls(_core(address, ca, certificate, key, settings), app)
        try:
            engine._core.call("ready", True, None, engine._options())
        except BaseException:
            engine.close()
            raise
        return engine

    def encrypt(self, document: Any, select: Any = None, *, report: bool = False, **options: Any) -> Any:
        return self._core.call("document", True, document, self._options(select, **options), report)

    def decrypt(self, document: Any, select: Any = None, *, report: bool = False, **options: Any) -> Any:
        return self._core.call("document", False, document, self._options(select, **options), report)

    def encrypt_many(self, values: Any, *, contexts: Any = None, report: bool = False, **options: Any) -> Any:
        return self._many(True, values, contexts, report, options)

    def decrypt_many(self, values: Any, *, contexts: Any = None, report: bool = False, **options: Any) -> Any:
        return self._many(False, values, contexts, report, options)

    def _many(self, encrypts: bool, values: Any, contexts: Any, report: bool, options: dict[str, Any]) -> Any:
        of_values = contexts_for(values, contexts)
        result = self._core.call("values", encrypts, arrow(values), self._options(**options), report, of_values)
        return _like(values, result, report)

    def inspect(self, envelopes: Any, **options: Any) -> Any:
        return self._core.call("inspect", False, envelopes, _of_inspection(**options))

    def close(self) -> None:
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncEngine(_Base):
    """The same for asyncio. Cancelling the task of a call cancels the call at the engine."""

    @classmethod
    async def open(cls, dir: str | os.PathLike[str], *, app: str | None = None, timeout: float | None = None) -> Self:
        return cls(await asyncio.to_thread(_open, dir, timeout), app)

    @classmethod
    async def from_public_keys(cls, files: Any, *, app: str | None = None, timeout: float | None = None) -> Self:
        return cls(*await asyncio.to_thread(_of_public_keys, files, app, timeout))

    @classmethod
    async def connect(
        cls, address: str | Sequence[str], *, ca: Any, certificate: Any, key: Any, app: str | None = None, **settings: Any
    ) -> Self:
        engine = cls(await asyncio.to_thread(_core, address, ca, certificate, key, settings), app)
        try:
            await engine._call("ready", True, None, engine._options())
        except BaseException:
            engine._core.close()
            raise
        return engine

    async def _call(self, method: str, encrypts: bool, given: Any, options: Options, report: bool = False, contexts: Any = None) -> Any:
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def notify() -> None:
            if not ended.done():
                ended.set_result(None)

        task = self._core.start(method, encrypts, given, options, loop, notify, report, contexts)
        try:
            await ended
        except asyncio.CancelledError:
            task.cancel()
            raise
        return task.result()

    async def encrypt(self, document: Any, select: Any = None, *, report: bool = False, **options: Any) -> Any:
        return await self._call("document", True, document, self._options(select, **options), report)

    async def decrypt(self, document: Any, select: Any = None, *, report: bool = False, **options: Any) -> Any:
        return await self._call("document", False, document, self._options(select, **options), report)

    async def encrypt_many(self, values: Any, *, contexts: Any = None, report: bool = False, **options: Any) -> Any:
        return await self._many(True, values, contexts, report, options)

    async def decrypt_many(self, values: Any, *, contexts: Any = None, report: bool = False, **options: Any) -> Any:
        return await self._many(False, values, contexts, report, options)

    async def _many(self, encrypts: bool, values: Any, contexts: Any, report: bool, options: dict[str, Any]) -> Any:
        of_values = contexts_for(values, contexts)
        result = await self._call("values", encrypts, arrow(values), self._options(**options), report, of_values)
        return _like(values, result, report)

    async def inspect(self, envelopes: Any, **options: Any) -> Any:
        return await self._call("inspect", False, envelopes, _of_inspection(**options))

    async def aclose(self) -> None:
        self._core.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _like(values: Any, result: Any, report: bool) -> Any:
    if isinstance(values, (list, tuple)):
        return result
    return (like(values, result[0]), result[1]) if report else like(values, result)
