"""The probe: rounds through a real engine and a real relay, and the start and end of an alarm."""

import itertools
import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection

import pytest

import engine as engines
import pages
import relays
import upstream as upstreams
from engine import Engine
from leafseal import Leafseal
from relays import Relay
from upstream import Answer, Received, Upstream, echo, ok, wait_until

APP = "app_probe"
SECONDS_MAX = 60
# Short enough for a test, and long enough that a busy machine does not raise an alarm.
# Longer than any response takes on a busy machine.
LIMIT = "30s"
# For requests without a response.
SHORT_LIMIT = "2s"


@dataclass(frozen=True)
class Setting:
    engine: Engine
    relay: Relay
    upstream: Upstream

    def url(self, path: str = "/sealed") -> str:
        return self.relay.at("front", False).url(path, "127.0.0.1")

    def command(self, *arguments: str) -> list[str]:
        return self.engine.leafseal.command("probe", "--app", APP, "--json", *arguments)

    def both(self) -> list[str]:
        """The probe's arguments for engine and relay."""
        return ["--connect", self.engine.ready["address"], "--client", "dev", "--relay", self.url()]


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    folder = tmp_path_factory.mktemp("probe")
    program = Leafseal(folder / "store")
    with upstreams.running() as upstream, engines.running(program, APP) as engine:
        text = relays.process_section() + relays.engine_section(engine, "dev")
        text += relays.section("[inbound]", name="front", address="127.0.0.1:0", upstream=upstream.url)
        sealing = [{"action": "encrypt", "json": ["$"]}]
        text += relays.section("[inbound.route]", path="/sealed", app=APP, request=sealing)
        text += relays.section("[inbound.route]", path="/half", app=APP, request=[{"action": "encrypt", "json": ["$.f1"]}])
        with relays.running(program, folder, text) as relay:
            yield Setting(engine, relay, upstream)


@pytest.fixture(autouse=True)
def _clear(setting: Setting) -> None:
    setting.upstream.clear()
    setting.upstream.answer = echo


@contextmanager
def halted(engine: Engine) -> Iterator[None]:
    """Accepts connections and never responds, like a machine without free memory."""
    engine.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        engine.process.send_signal(signal.SIGCONT)


@dataclass
class Probe:
    """A probe that runs until it is stopped; `rounds` are the lines that it prints."""

    process: subprocess.Popen[bytes]
    metrics_at: str
    rounds: list[dict[str, object]] = field(default_factory=list)

    def get(self, path: str) -> tuple[int, str]:
        connection = HTTPConnection(self.metrics_at, timeout=SECONDS_MAX)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metric(self, sample: str) -> float:
        lines = self.get("/metrics")[1].splitlines()
        [value] = [line.rsplit(" ", 1)[1] for line in lines if line.startswith(sample + " ")]
        return float(value)


@contextmanager
def probing(setting: Setting, *arguments: str) -> Iterator[Probe]:
    """Stops it with SIGTERM, which raises no alarm."""
    command = setting.command("--metrics", "127.0.0.1:0", *arguments)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        probe = Probe(process, json.loads(process.stdout.readline())["metrics"])
        reader = threading.Thread(target=lambda: [probe.rounds.append(json.loads(line)) for line in process.stdout])
        reader.start()
        yield probe
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=SECONDS_MAX) == 0
        reader.join()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def run(setting: Setting, *arguments: str) -> tuple[int, list[dict[str, object]], str]:
    """Returns exit code, rounds and standard error of a probe that ends by itself."""
    done = subprocess.run(setting.command(*arguments), capture_output=True, timeout=SECONDS_MAX, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def fields(message: dict[str, object]) -> list[object]:
    """The names in a message to the webhook, without the figures."""
    return [set(message), *((sample["way"], set(sample)) for sample in message["samples"])]


def ways(round_: dict[str, object]) -> dict[str, object]:
    return {sample["way"]: sample["failure"] for sample in round_["samples"]}


def test_a_good_round_is_100_encryptions_each_way(setting: Setting) -> None:
    code, rounds, _ = run(setting, *setting.both(), "--rounds", "2", "--every", "50ms", "--limit", LIMIT)
    assert code == 0 and len(rounds) == 2
    for round_ in rounds:
        assert round_["alarm"] is False and ways(round_) == {"engine": None, "relay": None}
        assert all(sample["ms"] > 0 for sample in round_["samples"])
    assert len(setting.upstream.requests) == 2
    for request in setting.upstream.requests:
        sealed = json.loads(request.body)
        assert len(sealed) == 100 and all(text.startswith("ev:") and text.endswith(":$") for text in sealed.values())
    setting.upstream.clear()
    setting.upstream.answer = echo
    code, _, _ = run(setting, "--relay", setting.url(), "--rounds", "1", "--count", "7", "--size", "500", "--limit", LIMIT)
    body = setting.upstream.only().body
    assert (code, len(json.loads(body))) == (0, 7) and len(body) > 7 * 500


def test_rounds_keep_their_schedule(setting: Setting) -> None:
    began = time.monotonic()
    code, rounds, _ = run(setting, *setting.both(), "--rounds", "4", "--every", "400ms", "--limit", LIMIT)
    assert (code, len(rounds)) == (0, 4) and time.monotonic() - began >= 3 * 0.4


def test_a_relay_that_does_not_seal_is_no_good_relay(setting: Setting) -> None:
    quick = ("--rounds", "1", "--limit", LIMIT)
    for path, failure in [("/plain", "values came to the upstream in the clear"), ("/half", "values came to the upstream in the clear")]:
        code, [round_], _ = run(setting, "--relay", setting.url(path), *quick)
        assert (code, ways(round_)) == (1, {"relay": failure})
    setting.upstream.answer = lambda _: ok(b"[]", "application/json")
    code, [round_], _ = run(setting, "--relay", setting.url(), *quick)
    assert (code, ways(round_)) == (1, {"relay": "0 envelopes came to the upstream, and not 100"})
    setting.upstream.answer = lambda _: ok(b"thanks")
    code, [round_], _ = run(setting, "--relay", setting.url(), *quick)
    assert (code, ways(round_)) == (1, {"relay": "the upstream did not answer with the JSON that came to it"})
    assert run(setting, "--relay", setting.url(), *quick, "--status-only")[0] == 0
    setting.upstream.answer = lambda _: Answer(status=500)
    code, [round_], _ = run(setting, "--relay", setting.url(), *quick, "--status-only")
    assert (code, ways(round_)) == (1, {"relay": "it was answered with status 500"})


def test_an_alarm_begins_and_ends_at_metrics_readiness_and_webhook(setting: Setting) -> None:
    [documented] = [json.loads(block.text) for block in pages.blocks((pages.ROOT / "docs/probe.md").read_text()) if block.language == "json"]
    with upstreams.running() as hook:
        arguments = ("--every", "100ms", "--limit", SHORT_LIMIT, "--failures", "2", "--webhook", f"{hook.url}/alarm?from=probe")
        with probing(setting, *setting.both(), *arguments) as probe:
            wait_until(lambda: len(probe.rounds) >= 2)
            assert (probe.metric("leafseal_probe_alarm"), probe.metric("leafseal_probe_alarms_total")) == (0, 0)
            assert probe.get("/readyz")[0] == 200
            for way in ("engine", "relay"):
                assert probe.metric(f'leafseal_probe_requests_total{{way="{way}",outcome="ok"}}') >= 2
                assert probe.metric(f'leafseal_probe_last_request_seconds{{way="{way}"}}') > 0
            with halted(setting.engine):
                wait_until(lambda: len(hook.requests) == 1, SECONDS_MAX)
                assert (probe.metric("leafseal_probe_alarm"), probe.metric("leafseal_probe_alarms_total")) == (1, 1)
                assert probe.get("/readyz") == (503, "alarm\n")
                assert probe.metric('leafseal_probe_requests_total{way="engine",outcome="failed"}') >= 2
                assert probe.metric('leafseal_probe_last_request_seconds{way="engine"}') >= 2
            wait_until(lambda: len(hook.requests) == 2, SECONDS_MAX)
            assert (probe.metric("leafseal_probe_alarm"), probe.metric("leafseal_probe_alarms_total")) == (0, 1)
            assert probe.get("/readyz")[0] == 200
            wait_until(lambda: probe.metric('leafseal_probe_webhook_total{outcome="ok"}') == 2)
        # The first failed round alone raises no alarm.
        first = next(at for at, round_ in enumerate(probe.rounds) if any(ways(round_).values()))
        assert [round_["alarm"] for round_ in probe.rounds[first : first + 2]] == [False, True]
        begun, ended = hook.requests
        assert hook.faults == []
        for request, is_alarm in ((begun, True), (ended, False)):
            assert (request.method, request.target) == ("POST", "/alarm?from=probe")
            assert request.header("Content-Type") == "application/json"
            alert = json.loads(request.body)
            assert alert["alarm"] is is_alarm and alert in probe.rounds
            assert fields(alert) == fields(documented)
        assert ways(json.loads(begun.body))["engine"] == "it took longer than 2000 ms"
        assert ways(json.loads(ended.body)) == {"engine": None, "relay": None}


def test_the_exit_code_is_the_alarm_and_the_webhook_knows_it_before(setting: Setting) -> None:
    with upstreams.running() as hook:
        arguments = ("--every", "50ms", "--limit", LIMIT, "--webhook", hook.url, "--exit-on-alarm")
        setting.upstream.answer = lambda _: Answer(status=503)
        code, rounds, errors = run(setting, *setting.both(), *arguments)
        assert code == 1 and [round_["alarm"] for round_ in rounds] == [True]
        assert errors.splitlines()[-1] == "leafseal: alarm: the probe failed or took longer than its limit"
        assert [json.loads(request.body)["alarm"] for request in hook.requests] == [True]
        answers = iter([503, 503, 200, 200])
        setting.upstream.answer = lambda request: flaky(request, next(answers))
        code, rounds, _ = run(setting, *setting.both(), *arguments[:-1], "--rounds", "4")
        assert code == 0 and [round_["alarm"] for round_ in rounds] == [True, True, False, False]
        assert [json.loads(request.body)["alarm"] for request in hook.requests] == [True, True, False]


def flaky(request: Received, status: int) -> Answer:
    return echo(request) if status == 200 else Answer(status=status)


def test_a_webhook_that_is_down_or_slow_delays_no_round(setting: Setting) -> None:
    """Rounds alternate between success and failure, so that each is logged."""
    with socket.create_server(("127.0.0.1", 0)) as deaf, upstreams.running() as broken:
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            closed = nobody.getsockname()[1]
        broken.answer = lambda _: Answer(status=500)
        urls = {
            f"http://127.0.0.1:{deaf.getsockname()[1]}": "in time",
            f"http://127.0.0.1:{closed}": "connection refused",
            broken.url: "it answered with status 500",
        }
        for url, reason in urls.items():
            turns = itertools.cycle([503, 200])
            setting.upstream.answer = lambda request: flaky(request, next(turns))
            arguments = ("--relay", setting.url(), "--every", "50ms", "--limit", LIMIT, "--webhook", url, "--webhook-timeout", "2s")
            with probing(setting, *arguments) as probe:
                wait_until(lambda: len(probe.rounds) >= 8)
                assert [round_["alarm"] for round_ in probe.rounds[:8]] == [True, False] * 4
            arguments = (*arguments[:-1], "200ms", "--rounds", "1")
            turns = itertools.repeat(503)
            code, _, errors = run(setting, *arguments)
            assert code == 1 and reason in errors, errors


def test_a_webhook_is_told_again(setting: Setting) -> None:
    with upstreams.running() as hook:
        answers = iter([500, 500, 200])
        hook.answer = lambda _: Answer(status=next(answers))
        arguments = ("--every", "50ms", "--webhook", hook.url, "--webhook-timeout", "1s", "--limit", LIMIT)
        setting.upstream.answer = lambda _: Answer(status=503)
        with probing(setting, "--relay", setting.url(), *arguments) as probe:
            wait_until(lambda: probe.metric('leafseal_probe_webhook_total{outcome="ok"}') == 1)
            assert len(hook.requests) == 3 and len({request.body for request in hook.requests}) == 1
            assert probe.metric('leafseal_probe_webhook_total{outcome="failed"}') == 0


@pytest.mark.parametrize("url", ["https://user@localhost/", "http://localhost:0/", "ftp://localhost/", "localhost"])
def test_addresses_that_are_none(setting: Setting, url: str) -> None:
    for flag in ("--relay", "--webhook"):
        target = ("--relay", setting.url()) if flag == "--webhook" else ()
        code, rounds, errors = run(setting, *target, flag, url, "--rounds", "1")
        assert (code, rounds) == (2, []) and url in errors
