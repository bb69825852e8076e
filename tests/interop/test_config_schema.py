"""The JSON Schemas of both configuration files, read by an independent validator: they accept what the programs accept."""

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from leafseal import Leafseal

ROOT = Path(__file__).parents[2]
EXAMPLES = {"serve": "examples/leafseal.toml", "relay": "examples/relay.toml"}


@pytest.fixture(scope="module", params=["serve", "relay"])
def program(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def validator(leafseal: Leafseal, program: str) -> jsonschema.Draft202012Validator:
    schema = json.loads(leafseal.run("config", "schema", "--for", program))
    committed = {"serve": "leafseal", "relay": "relay"}[program]
    assert schema == json.loads((ROOT / f"docs/schema/{committed}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_examples_are_valid(validator, program):
    validator.validate(tomllib.loads((ROOT / EXAMPLES[program]).read_text()))


def test_every_shown_setting_is_valid(leafseal: Leafseal, validator, program):
    flags = ("--config", str(ROOT / EXAMPLES["serve"])) if program == "serve" else ("--relay", str(ROOT / EXAMPLES["relay"]))
    shown = tomllib.loads(leafseal.run("config", "show", "--for", program, *flags).decode())
    assert len(shown) > 3
    validator.validate(shown)


def test_faults_are_refused(validator, program):
    example = (ROOT / EXAMPLES[program]).read_text()
    for right, wrong in [
        ("access_log = true", 'access_log = "yes"'),
        ("access_log = true", "acces_log = true"),
        ('address = "0.0.0.0:8443"' if program == "serve" else 'drain_delay = "5s"', "drain_delay = 5"),
        ("trusted_balancers = [", "trusted_balancers = [5, "),
    ]:
        assert right in example
        faults = list(validator.iter_errors(tomllib.loads(example.replace(right, wrong, 1))))
        assert faults, wrong
