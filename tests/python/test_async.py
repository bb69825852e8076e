"""The engine of asyncio: the same calls, cancellation, and many at once."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import leafseal
import pyarrow as pa
import pytest
from conftest import APP
from program import Program, Server

Use = Callable[[leafseal.AsyncEngine], Awaitable[None]]


@pytest.fixture(params=["local", "remote"])
def run(request: pytest.FixtureRequest, program: Program) -> Callable[[Use], None]:
    """Runs a coroutine with an engine of either kind."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[leafseal.AsyncEngine]:
        if request.param == "local":
            async with await leafseal.AsyncEngine.open(program.folder, app=APP) as engine:
                yield engine
        else:
            server: Server = request.getfixturevalue("server")
            async with await leafseal.AsyncEngine.connect(server.address, **server.credentials(), app=APP) as engine:
                yield engine

    def run(use: Use) -> None:
        async def main() -> None:
            async with opened() as engine:
                await use(engine)

        asyncio.run(main())

    return run


def test_calls(run: Callable[[Use], None]) -> None:
    async def use(engine: leafseal.AsyncEngine) -> None:
        values = ["a", 1, None, True]
        assert await engine.decrypt_many(await engine.encrypt_many(values)) == values
        document = {"a": {"b": "c"}}
        sealed, report = await engine.encrypt(document, "$.a.b", report=True)
        assert report.count == 1 and await engine.decrypt(sealed) == document
        assert (await engine.inspect(sealed["a"]["b"])).type == "string"
        column = pa.array(["a", None])
        assert (await engine.decrypt_many(await engine.encrypt_many(column))).equals(column)
        with pytest.raises(leafseal.DecryptFailed):
            text = sealed["a"]["b"]
            await engine.decrypt_many([text[:-10] + ("A" if text[-10] != "A" else "B") + text[-9:]])
        with pytest.raises(leafseal.InvalidParams):
            await engine.encrypt_many("text")

    run(use)


def test_many_calls_at_once(run: Callable[[Use], None]) -> None:
    async def use(engine: leafseal.AsyncEngine) -> None:
        lists = [[f"{number} {index}" for index in range(20)] for number in range(200)]
        sealed = await asyncio.gather(*(engine.encrypt_many(values) for values in lists))
        assert await asyncio.gather(*(engine.decrypt_many(one) for one in sealed)) == lists

    run(use)


def test_cancellation_ends_the_call(run: Callable[[Use], None]) -> None:
    async def use(engine: leafseal.AsyncEngine) -> None:
        task = asyncio.create_task(engine.encrypt_many(["x"] * 400_000, keying="field"))
        await asyncio.sleep(0.3)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # One worker or thread would be busy for a long time if the call went on.
        assert await engine.encrypt_many(["x"]) is not None
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await engine.encrypt_many(["x"] * 400_000, keying="field")
        with pytest.raises(leafseal.DeadlineExceeded):
            await engine.encrypt_many(["x"] * 400_000, keying="field", timeout=0.2)

    run(use)


def test_the_loop_runs_during_a_call(run: Callable[[Use], None]) -> None:
    async def use(engine: leafseal.AsyncEngine) -> None:
        turns = 0
        task = asyncio.create_task(engine.encrypt_many(["x"] * 100_000, keying="field", timeout=1))
        while not task.done():
            turns += 1
            await asyncio.sleep(0.001)
        await asyncio.gather(task, return_exceptions=True)
        assert turns > 5

    run(use)


def test_closing(run: Callable[[Use], None]) -> None:
    async def use(engine: leafseal.AsyncEngine) -> None:
        task = asyncio.create_task(engine.encrypt_many(["x"] * 400_000, keying="field"))
        await asyncio.sleep(0.2)
        await engine.aclose()
        with pytest.raises(leafseal.Closed):
            await task
        with pytest.raises(leafseal.Closed):
            await engine.encrypt_many(["x"])

    run(use)


def test_a_loop_that_is_closed_during_a_call(program: Program) -> None:
    async def main() -> leafseal.AsyncEngine:
        engine = await leafseal.AsyncEngine.open(program.folder, app=APP)
        asyncio.ensure_future(engine.encrypt_many(["x"] * 50_000))
        await asyncio.sleep(0)
        return engine

    engine = asyncio.run(main())
    time.sleep(0.1)
    assert asyncio.run(engine.encrypt_many(["x"]))[0].startswith("ev:")


@pytest.mark.parametrize("ending", ["await call", "asyncio.ensure_future(call); await asyncio.sleep(0)"])
def test_the_interpreter_ends_while_an_engine_delivers(program: Program, ending: str) -> None:
    """Threads that enter an interpreter while it ends abort the process; the fault showed itself in every fourth process."""
    code = f"""
import asyncio, leafseal
async def main():
    engine = await leafseal.AsyncEngine.open({str(program.folder)!r}, app={APP!r})
    call = engine.encrypt_many(["x"] * 2000)
    {ending}
asyncio.run(main())
"""
    for _ in range(10):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
