"""Ports of servers that are started later, or stop and start again."""

import itertools
import os
import socket

# Below the ports that systems give to connections and to listeners of port 0: from 32,768 on Linux, from 49,152 elsewhere (RFC 6335,
# section 6). A connection cannot take such a port as its own while its server is away.
_FIRST, _COUNT = 10_000, 22_768

# Programs that run at once start far from each other: their ids are often neighbours.
_candidates = itertools.count(os.getpid() * 7919)


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Returns ports of 127.0.0.1 that are free, and which no program takes that asks for any port."""
    candidates = (_FIRST + number % _COUNT for number in itertools.islice(_candidates, _COUNT))
    ports = list(itertools.islice(filter(_is_free, candidates), count))
    assert len(ports) == count, "no free ports"
    return ports
