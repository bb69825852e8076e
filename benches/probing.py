"""Helpers for benches that measure small requests during an attack: cores for each side, connections, the probe.

The attackers have half of the machine's cores, what they attack the other half, which it shares with the probe. The probe stands for
another machine, and gets a core at once where the system allows it (real-time priority, as root). What is measured still holds the time
for which a network thread waits for a core that the same process computes on: with few cores up to a time slice of the scheduler, some
milliseconds.
"""

import contextlib
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator

PAUSE = 0.005
CORES = sorted(os.sched_getaffinity(0))
CORES_OF_ATTACKERS = set(CORES[len(CORES) // 2 :])
CORES_OF_ATTACKED = set(CORES[: len(CORES) // 2]) or CORES_OF_ATTACKERS


@contextlib.contextmanager
def preferred() -> Iterator[None]:
    """Sets real-time priority for this process, if permitted."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def tls(authority: str, certificate: str | None = None, key: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority)
    if certificate:
        context.load_cert_chain(certificate, key)
    return context


def connect(port: int, context: ssl.SSLContext | None) -> socket.socket:
    """Connects to this machine, over TLS if there is a context."""
    stream = socket.create_connection(("127.0.0.1", port), timeout=120)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(stream, server_hostname="localhost") if context else stream


def probe(port: int, context: ssl.SSLContext | None, ask: Callable[[socket.socket], object], seconds: float) -> list[float]:
    """Returns the sorted durations of the calls of `ask` in milliseconds."""
    times, until = [], time.time() + seconds
    with preferred(), connect(port, context) as stream:
        while time.time() < until:
            began = time.perf_counter()
            ask(stream)
            times.append((time.perf_counter() - began) * 1e3)
            time.sleep(PAUSE)
    return sorted(times)


def at(times: list[float], share: float) -> float:
    """A quantile of sorted times."""
    return times[min(int(len(times) * share), len(times) - 1)]
