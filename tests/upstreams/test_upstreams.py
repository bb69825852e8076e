"""Requests that two readers understand differently (vectors/ambiguous), through the relay to real upstreams.

Whatever an upstream reads under a selected name is an envelope, or the relay has refused the request.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import corpus
import relays
import servers
from conftest import APP
from corpus import SECRET, Answer, Case, Client
from decryptor import Decryptor
from engine import Engine
from leafseal import Leafseal

FORM_RULE = {"action": "encrypt", "form": ["card_number"]}
JSON_RULE = {"action": "encrypt", "json": ["$.card.number", "$.card_number", "$.secret_key"]}
FILTER_RULE = {"action": "encrypt", "json": ["$.payments[?@.kind == 'card'].number"]}
QUERY_RULE = {"action": "encrypt", "query": ["card_number"]}
HEADER_RULE = {"action": "encrypt", "headers": ["X-Card-Number"]}
# The selected parts of each route: the first word of a reader's name in a report.
ROUTES = {
    "/v1/cards": ([FORM_RULE, JSON_RULE, QUERY_RULE, HEADER_RULE], {"form", "json", "query", "header", "params"}),
    "/v1/form": ([FORM_RULE], {"form", "params"}),
    "/v1/json": ([JSON_RULE], {"json"}),
    "/v1/query": ([QUERY_RULE], {"query", "params"}),
    "/v1/any-form": ([{"action": "encrypt", "form": ["*"]}], {"form", "params"}),
    "/v1/any-query": ([{"action": "encrypt", "query": ["*"]}], {"query", "params"}),
    "/v1/filter": ([FILTER_RULE], {"filter"}),
    "/v1/strict": ([{"action": "encrypt", "json": ["$.card_number"], "require_match": True}], {"json", "shape"}),
    "/v1/list": ([{"action": "encrypt", "json": ["$.cards[*].number"], "require_match": True}], {"list"}),
}
# Topics of what only some readers read, none of which the relay accepts.
RARE = {"changes", "inside", "shapes"}
# Statuses of invalid requests.
REFUSALS = range(400, 500)
ENVELOPE = re.compile(r"ev:[0-9A-Za-z+/=:]+:\$")
SEALED_FILE = re.compile(r"%EVENC")


@dataclass
class Front:
    """A relay with a listener for each application, and clients of both sides."""

    through: dict[str, Client]
    direct: dict[str, Client]


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory, leafseal: Leafseal, engine: Engine) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp("upstreams")
    with servers.running(folder, list(ROUTES)) as ports:
        text = relays.process_section() + relays.engine_section(engine)
        for name, port in ports.items():
            text += relays.section("[inbound]", name=name, address="127.0.0.1:0", upstream=f"http://127.0.0.1:{port}", unmatched="pass")
            for path, (rules, _) in ROUTES.items():
                text += relays.section("[inbound.route]", app=APP, path=path, request=rules)
        with relays.running(leafseal, folder, text) as relay:
            through = {name: Client(relay.at(name, False).port) for name in ports}
            direct = {name: Client(port) for name, port in ports.items()}
            yield Front(through, direct)
            for client in [*through.values(), *direct.values()]:
                client.close()


def leaves(value: object) -> list[str]:
    """Every scalar except null, as text."""
    if isinstance(value, (dict, list)):
        return [leaf for member in (value.values() if isinstance(value, dict) else value) for leaf in leaves(member)]
    return [] if value is None else [str(value)]


def is_sealed(text: str) -> bool:
    """Nothing but envelopes, which a header joins by commas; or a sealed file."""
    return bool(SEALED_FILE.match(text)) or not ENVELOPE.sub("", text).strip(", ")


def selected(report: dict[str, object]) -> dict[str, list[str]]:
    """The values in the report under a selected name of the route."""
    if report["route"] not in ROUTES:
        return {}
    kinds = ROUTES[report["route"]][1]
    return {reader: leaves(value) for reader, value in report["read"].items() if reader.split(" ")[0] in kinds}


def unsealed(name: str, answer: Answer) -> list[str]:
    if not answer.report:
        return []
    found = selected(answer.report).items()
    return [f"{name}: {reader} read {text!r}" for reader, texts in found for text in texts if not is_sealed(text)]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in corpus.cases()])
def test_no_upstream_reads_an_unsealed_value(front: Front, decryptor: Decryptor, case: Case) -> None:
    faults, opened = [], set()
    for name, client in front.through.items():
        answer = client.send(case)
        if answer.code and answer.status in REFUSALS:
            assert not case.is_accepted, f"{case.about}: refused as {answer.code}"
            # The rules of all listeners are the same, and so is the decision.
            break
        assert not answer.code, f"{name}: {answer.status} {answer.code}"
        faults += unsealed(name, answer)
        if answer.report:
            texts = [text for texts in selected(answer.report).values() for text in texts]
            opened |= {str(decryptor.open(envelope).value) for text in texts for envelope in ENVELOPE.findall(text)}
    assert not faults, "\n".join([case.about, *faults])
    if case.is_accepted:
        assert any(SECRET in text for text in opened) or case.name == "multipart-upload"


def test_each_reader_reads_the_plain_value_without_the_relay(front: Front) -> None:
    """Checks that each reader read something; otherwise the tests would be void."""
    blind: set[str] = set()
    seeing: set[str] = set()
    for case in corpus.cases():
        if not case.is_accepted and case.topic not in RARE:
            continue
        for name, client in front.direct.items():
            report = client.send(case).report or {"read": {}}
            for reader, value in report["read"].items():
                found = any(SECRET in text for text in leaves(value))
                (seeing if found else blind).add(f"{name} {reader}")
    assert blind - seeing == set()
    assert {name.split(" ")[0] for name in seeing} == set(front.direct)


@pytest.mark.parametrize("name", servers.LANGUAGES)
def test_every_language_is_installed(name: str) -> None:
    if name in servers.installed():
        return
    assert os.environ.get("CI") != "true" or name not in servers.REQUIRED, f"{name} is not installed"
    pytest.skip(f"{name} is not installed")
