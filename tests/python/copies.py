"""Copies of a process that has an engine, for test_copies.py: each scenario runs in a program of its own, which prints
its result as JSON. Engines of public keys suffice: all that encrypts is the same."""

import ctypes
import json
import os
import platform
import re
import signal
import sys
from collections.abc import Callable

import leafseal

CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
CLONE3 = 435
CLONE_NEWPID = 0x20000000
LIBC = ctypes.CDLL(None, use_errno=True)
# Pairs of key and nonce that `restored` compares.
PAIRS = 1_000_000


def failed(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")


def clone(*arguments: object) -> int:
    """A fork by the system call alone: neither Python nor the C library learns of it."""
    process = LIBC.syscall(*(arguments or (CLONE, signal.SIGCHLD, 0, 0, 0, 0)))
    if process < 0:
        raise failed("clone")
    return process


def clone_with_number(number: int) -> int:
    wanted = (ctypes.c_int * 1)(number)
    # struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size.
    fields = [0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(wanted), 1]
    arguments = (ctypes.c_uint64 * len(fields))(*fields)
    return clone(CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments))


def pairs(engine: leafseal.Engine, count: int = 100, **options: object) -> list[str]:
    """Nonce and ephemeral key of each of `count` new envelopes."""
    parts = (sealed.split(":") for sealed in engine.encrypt_many(["a"] * count, **options))
    return [f"{part[2]}:{part[3]}" for part in parts]


def used(engine: leafseal.Engine, keys: str) -> list[str]:
    """The results in a copy of the process, from the engine of its parent and from one of its own."""
    try:
        inherited = pairs(engine, keying="session")
    except leafseal.Forked as error:
        inherited = [error.code]
    with leafseal.Engine.from_public_keys(keys) as own:
        return [*inherited, *pairs(own)]


def run(fork: Callable[[], int], work: Callable[[], object]) -> object:
    """Runs `work` in the process that `fork` makes, and returns its result."""
    reader, writer = os.pipe()
    process = fork()
    if process == 0:
        try:
            result = work()
        except BaseException as error:
            result = f"{type(error).__name__}: {error}"
        with os.fdopen(writer, "w") as pipe:
            json.dump(result, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        result = json.load(pipe)
    os.waitpid(process, 0)
    return result


def fork_as_first() -> int:
    """Forks the first process of a new namespace, whose number there is 1."""
    if LIBC.unshare(CLONE_NEWPID) != 0:
        raise failed("unshare")
    return os.fork()


def first_of_namespace(keys: str) -> object:
    """The first process of a namespace forks the first one of a namespace in it: both have the number 1."""

    def first() -> object:
        engine = leafseal.Engine.from_public_keys(keys)
        before = pairs(engine, keying="session")
        copied = run(fork_as_first, lambda: [os.getpid(), *used(engine, keys)])
        return [os.getpid(), before + pairs(engine, keying="session"), copied]

    return run(fork_as_first, first)


def number_again(keys: str) -> object:
    """A process ends, and a descendant of it gets its number."""
    result_reader, result_writer = os.pipe()
    ended_reader, ended_writer = os.pipe()

    def heir(number: int, engine: leafseal.Engine, own: list[str]) -> object:
        os.read(ended_reader, 1)
        try:
            copied = run(lambda: clone_with_number(number), lambda: [os.getpid(), *used(engine, keys)])
        except PermissionError as error:
            copied = str(error)
        return [number, own, copied]

    owner = os.fork()
    if owner == 0:
        engine = leafseal.Engine.from_public_keys(keys)
        number, own = os.getpid(), pairs(engine, keying="session")
        if os.fork() == 0:
            with os.fdopen(result_writer, "w") as pipe:
                json.dump(heir(number, engine, own), pipe)
        os._exit(0)
    os.waitpid(owner, 0)
    os.close(result_writer)
    os.write(ended_writer, b".")
    with os.fdopen(result_reader) as pipe:
        result = json.load(pipe)
    if isinstance(result[-1], str):
        raise PermissionError(result[-1])
    return result


def cloned(keys: str) -> object:
    engine = leafseal.Engine.from_public_keys(keys)
    before = pairs(engine, keying="session")
    copied = run(clone, lambda: [os.getpid(), *used(engine, keys)])
    return [os.getpid(), before + pairs(engine, keying="session"), copied]


def emptied_in_copies() -> dict[int, bytes]:
    """The memory that the kernel empties in a fork, by address."""
    pages: dict[int, bytes] = {}
    with open("/proc/self/smaps") as smaps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in smaps:
            if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
                start, end = (int(text, 16) for text in found.groups())
            elif line.startswith("VmFlags:") and "wf" in line.split():
                memory.seek(start)
                pages[start] = memory.read(end - start)
    return pages


def restored(keys: str) -> object:
    """A checkpoint that is restored twice: copies by the system call that have the memory back which the kernel empties in a fork."""
    engine = leafseal.Engine.from_public_keys(keys)
    seen = pairs(engine, PAIRS // 10, keying="session")
    pages = emptied_in_copies()

    def work() -> object:
        with open("/proc/self/mem", "wb", buffering=0) as memory:
            for start, content in pages.items():
                memory.seek(start)
                memory.write(content)
        count = (PAIRS - len(seen)) // 2
        by_session = pairs(engine, count - 20_000, keying="session")
        by_request = [pair for _ in range(20) for pair in pairs(engine, 1_000, keying="request")]
        return [engine.forked, by_session + by_request]

    copies = [run(clone, work) for _ in range(2)]
    every = seen + [pair for copy in copies for pair in copy[1]]
    before = {pair.split(":")[1] for pair in seen}
    shared = [sum(pair.split(":")[1] in before for pair in copy[1]) for copy in copies]
    return {"pages": len(pages), "forked": [copy[0] for copy in copies], "all": len(every), "different": len(set(every)), "shared": shared}


def during(keys: str) -> object:
    """A handler of a signal forks during a call, which both processes go on with."""
    engine = leafseal.Engine.from_public_keys(keys)
    reader, writer = os.pipe()
    parent, forks = os.getpid(), []

    def fork(_signal: int, _frame: object) -> None:
        if not forks:
            forks.append(os.fork())

    signal.signal(signal.SIGALRM, fork)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    values = ["a"] * PAIRS
    try:
        # A call takes long enough for the signal, or else the next one does.
        while not forks:
            ended = len(engine.encrypt_many(values, keying="session"))
        outcome: object = ended
    except leafseal.Forked as error:
        outcome = error.code
    if os.getpid() != parent:
        os.write(writer, json.dumps(outcome).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        in_fork = json.load(pipe)
    os.waitpid(forks[0], 0)
    return {"parent": outcome, "fork": in_fork}


def drawn(keys: str) -> object:
    """Nonces and keys, and what the C library's function draws."""
    library = ctypes.create_string_buffer(8)
    LIBC.getrandom(library, 8, 0)
    with leafseal.Engine.from_public_keys(keys) as engine:
        return {"library": library.raw.hex(), "pairs": pairs(engine, keying="field")}


if __name__ == "__main__":
    scenario = {"drawn": drawn, "during": during, "first": first_of_namespace, "again": number_again, "cloned": cloned, "restored": restored}[sys.argv[1]]
    try:
        print(json.dumps(scenario(sys.argv[2])))
    except PermissionError as error:
        print(json.dumps({"skipped": str(error)}))
