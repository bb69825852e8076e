"""Silent connections to one port, held by several processes because of the limit of descriptors of each.

    python flood.py PORT COUNT    opens COUNT connections, prints a line, and holds them until its standard input ends
"""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator

# Below the usual soft limit of 1,024.
OF_ONE_PROCESS = 800
SECONDS_MAX = 60


def limited(command: list[str], descriptors: int) -> list[str]:
    """Returns the command with this soft and hard limit of descriptors."""
    return ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *command]


@contextlib.contextmanager
def silent(port: int, count: int) -> Iterator[None]:
    """Holds `count` connections that send nothing. Connections that the peer closes are not reopened."""
    shares = [min(OF_ONE_PROCESS, count - start) for start in range(0, count, OF_ONE_PROCESS)]
    commands = [[sys.executable, __file__, str(port), str(share)] for share in shares]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe) for command in commands]
    try:
        for process in processes:
            assert process.stdout.readline() == b"open\n", "the flood did not begin"
        yield
    finally:
        for process in processes:
            process.stdin.close()
        for process in processes:
            process.wait()
            process.stdout.close()


def _hold(port: int, count: int) -> None:
    sockets = []
    for _ in range(count):
        # A peer at its limit may close or reset the connection immediately.
        with contextlib.suppress(ConnectionError):
            sockets.append(socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX))
    print("open", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _hold(int(sys.argv[1]), int(sys.argv[2]))
