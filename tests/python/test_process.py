"""Threads, signals, time limits, forks, and engines that restart."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import leafseal
import pytest
from conftest import APP, connect
from program import Program, Server, start

# Long enough that no machine ends it before the test interferes: keying per field costs an agreement for each value.
LONG = [f"value {index}" for index in range(2_000_000)]


def long_call(engine: leafseal.Engine, **options: object) -> object:
    return engine.encrypt_many(LONG[:400_000], keying="field", **options)


def test_other_threads_run_during_a_call(local: leafseal.Engine) -> None:
    began, ended, turns = threading.Event(), threading.Event(), 0

    def call() -> None:
        began.set()
        local.encrypt_many(LONG)
        ended.set()

    thread = threading.Thread(target=call)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # Only a released GIL lets this thread run.
    try:
        thread.start()
        began.wait()
        while not ended.is_set():
            turns += 1
            time.sleep(0.001)
    finally:
        sys.setswitchinterval(switch)
        thread.join()
    assert turns > 5


def test_threads_share_an_engine(engine: leafseal.Engine) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(20):
                values = [f"{number} {turn} {index}" for index in range(50)]
                assert engine.decrypt_many(engine.encrypt_many(values)) == values
                assert engine.decrypt(engine.encrypt({"a": values}, "$.a[*]")) == {"a": values}
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_deadlines(engine: leafseal.Engine) -> None:
    with pytest.raises(TimeoutError) as caught:
        long_call(engine, timeout=0.2)
    assert isinstance(caught.value, leafseal.DeadlineExceeded) and caught.value.retry == "later"
    assert engine.decrypt_many(engine.encrypt_many(["still here"])) == ["still here"]


def test_deadlines_of_engines(program: Program, server: Server) -> None:
    for engine in (leafseal.Engine.open(program.folder, app=APP, timeout=0.2), connect(server, timeout=0.2)):
        with engine, pytest.raises(leafseal.DeadlineExceeded):
            long_call(engine)


class Interrupted(Exception):
    pass


def test_signals_end_a_call(engine: leafseal.Engine) -> None:
    def handle(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Interrupted):
            long_call(engine)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(engine.encrypt_many(["still here"])) == 1


def test_keyboard_interrupt(program: Program) -> None:
    code = (
        f"import leafseal; engine = leafseal.Engine.open({str(program.folder)!r}, app={APP!r}); print('ready', flush=True)\n"
        "try: engine.encrypt_many(['x'] * 400_000, keying='field')\n"
        "except KeyboardInterrupt: print('interrupted')"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "interrupted\n"


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_closing_ends_calls(program: Program, server: Server, kind: str) -> None:
    engine = leafseal.Engine.open(program.folder, app=APP) if kind == "local" else connect(server)
    errors: list[leafseal.Error] = []

    def call() -> None:
        try:
            long_call(engine)
        except leafseal.Error as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(0.3)
    engine.close()
    thread.join(60)
    assert [type(error) for error in errors] == [leafseal.Closed]


def in_a_fork(work: Callable[[], object]) -> object:
    """Runs `work` in a forked process and returns its result."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            result = work()
        except BaseException as error:
            result = f"{type(error).__name__}: {error}"
        os.write(writer, json.dumps(result).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read()
    assert os.waitpid(process, 0)[1] == 0
    return json.loads(text)


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_forks(engine: leafseal.Engine) -> None:
    engine.encrypt_many(["before"])

    def work() -> object:
        try:
            engine.encrypt_many(["a"])
        except leafseal.Forked as error:
            engine.close()
            return [error.code, "after the fork" in str(error)]

    assert in_a_fork(work) == ["forked", True]
    assert engine.decrypt_many(engine.encrypt_many(["after"])) == ["after"]


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_process_has_keys_and_nonces_of_its_own(program: Program, local: leafseal.Engine) -> None:
    local.encrypt_many(["seeds the generator of this thread"])

    def seal() -> list[str]:
        with leafseal.Engine.open(program.folder, app=APP) as engine:
            return [part for sealed in engine.encrypt_many(["a"] * 20) for part in sealed.split(":")[2:4]]

    children = [in_a_fork(seal) for _ in range(3)]
    nonces = [set(parts[::2]) for parts in (*children, seal())]
    keys = [set(parts[1::2]) for parts in (*children, seal())]
    assert len(set.union(*nonces)) == 80 and len(set.union(*keys)) == 4


def pool_work(folder: Path) -> list[str]:
    with leafseal.Engine.open(folder, app=APP) as engine:
        return engine.encrypt_many(["a", "b"])


def test_spawned_processes(program: Program, local: leafseal.Engine) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert local.decrypt_many(pool.apply(pool_work, (program.folder,))) == ["a", "b"]


def test_an_engine_that_restarts(program: Program) -> None:
    server = start(program, APP)
    try:
        with connect(server) as engine:
            sealed = engine.encrypt_many(["a"])
            server.kill()
            with pytest.raises(ConnectionError) as caught:
                engine.decrypt_many(sealed, timeout=1)
            assert caught.value.retry in ("later", "elsewhere")
            server = start(program, APP, server.port)
            assert engine.decrypt_many(sealed) == ["a"]
    finally:
        server.kill()


def test_a_local_engine_follows_its_store(program: Program, local: leafseal.Engine) -> None:
    program.create("rotated")
    [before] = local.encrypt_many(["a"], app="rotated")
    program.run("keys", "rotate", "rotated")
    deadline = time.monotonic() + 30
    while local.inspect(local.encrypt_many(["b"], app="rotated")[0], app="rotated").key_version != 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert local.decrypt_many([before], app="rotated") == ["a"]
