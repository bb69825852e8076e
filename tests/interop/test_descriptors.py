"""A limit of descriptors and many silent connections: while a client fills one port, all others respond."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import few_descriptors
import flood
from leafseal import Leafseal

PORTS = ["rpc", "api", "engine-operator", "inbound", "outbound", "relay-operator"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[few_descriptors.Scene]:
    with few_descriptors.running(tmp_path_factory.mktemp("few")) as running:
        yield running


def test_both_programs_say_what_their_bounds_need(scene: few_descriptors.Scene) -> None:
    for process in scene.processes:
        limits = Path(f"/proc/{process}/limits").read_text()
        line = next(line for line in limits.splitlines() if line.startswith("Max open files"))
        assert line.split()[3:5] == ["1024", "1024"]
    for log, part in [
        (scene.engine_log, "server.connections_max 4096 + server.handshakes_max 512 + api.connections_max 4096 + "),
        (scene.relay_log, "limits.connections_max 16384 x 4 + upstream.sockets_max 32768 + "),
    ]:
        text = log.read_text()
        assert "the process may open 1024 descriptors, but the configured limits need" in text and part in text, text


@pytest.mark.parametrize("flooded", PORTS)
def test_silent_connections_to_one_port_leave_the_others_answering(scene: few_descriptors.Scene, flooded: str) -> None:
    assert [port.name for port in scene.ports] == PORTS
    port = next(port for port in scene.ports if port.name == flooded)
    with flood.silent(port.number, few_descriptors.SILENT):
        for other in scene.ports:
            if other.name != flooded:
                other.ask()
        for process in scene.processes:
            assert len(list(Path(f"/proc/{process}/fd").iterdir())) < few_descriptors.DESCRIPTORS
    for every in scene.ports:
        every.ask()


def test_a_soft_limit_is_raised_and_config_check_knows_the_hard_one(tmp_path: Path) -> None:
    leafseal = Leafseal(tmp_path / "store")
    leafseal.create("acme")
    leafseal.run("certs", "init")

    def check(limits: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", "-c", f'{limits} && exec "$@"', "sh", *leafseal.command("config", "check")]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    soft = check("ulimit -S -n 256")
    assert (soft.returncode, "descriptors" in soft.stdout + soft.stderr) == (0, False), soft
    few = check("ulimit -n 1024")
    assert few.returncode == 0, few
    assert "the process may open 1024 descriptors, but the configured limits need" in few.stdout + few.stderr, few
    none = check("ulimit -n 100")
    assert none.returncode == 2, none
    assert "needs at least" in none.stdout + none.stderr, none
