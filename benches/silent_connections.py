#!/usr/bin/env python3
"""How long each port of an engine and a relay with 1,024 descriptors takes to answer while another one has 4,000 silent connections.

For each flooded port: the slowest of some requests, each on a new connection, to every other port, while the connections are being opened
and once they are open; beside it the same without a flood. Milliseconds, TLS handshakes included.

    LEAFSEAL=target/release/leafseal tests/interop/run.sh silent [--requests 20]
"""

import argparse
import pathlib
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "interop"))

import few_descriptors  # noqa: E402
import flood  # noqa: E402


def measure(port, requests):
    """The median and the slowest, in milliseconds."""
    times = []
    for _ in range(requests):
        began = time.monotonic()
        port.ask()
        times.append((time.monotonic() - began) * 1e3)
    times.sort()
    return times[len(times) // 2], times[-1]


def show(name, ports, requests):
    cells = []
    for port in ports:
        median, slowest = measure(port, requests)
        cells.append(f"{port.name} {median:.1f} / {slowest:.1f}")
    print(f"{name:18} {'  '.join(cells)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20, help="to each port")
    requests = parser.parse_args().requests
    with tempfile.TemporaryDirectory() as folder, few_descriptors.running(pathlib.Path(folder)) as scene:
        print("median / slowest of each port, ms")
        show("quiet", scene.ports, requests)
        for flooded in scene.ports:
            others = [port for port in scene.ports if port is not flooded]
            opened, done = threading.Event(), threading.Event()

            def attack(number=flooded.number, opened=opened, done=done):
                with flood.silent(number, few_descriptors.SILENT):
                    opened.set()
                    done.wait()

            thread = threading.Thread(target=attack)
            thread.start()
            show(f"{flooded.name} opening", others, requests)
            opened.wait()
            show(f"{flooded.name} open", others, requests)
            done.set()
            thread.join()


if __name__ == "__main__":
    main()
