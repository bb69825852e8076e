"""Each call of an engine in this process gives exactly the decisions of the table of all entry points (crates/testkit/src/decision_cases.rs)."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import leafseal
import pytest
from conftest import APP
from program import Program

Call = Callable[[leafseal.Engine, str], Any]

CASES: dict[str, tuple[Call, str, str]] = {
    "a permitted encryption": (lambda e, app: e.encrypt({"a": "x"}, app=app), APP, "granted"),
    "a permitted encryption of a list": (lambda e, app: e.encrypt_many(["x"] * 200, app=app), APP, "granted"),
    "a permitted search for envelopes": (lambda e, app: e.encrypt({"a": "x"}, app=app, skip_sealed=True), APP, "granted"),
    "a permitted decryption": (lambda e, app: e.decrypt({"a": "x"}, app=app), APP, "granted"),
    "a permitted decryption of a list": (lambda e, app: e.decrypt_many(["x"] * 200, app=app), APP, "granted"),
    "an app that does not exist": (lambda e, app: e.encrypt({"a": "x"}, app=app), "nowhere", "unknown_app"),
    "an app that is disabled": (lambda e, app: e.encrypt({"a": "x"}, app=app), "disabled", "app_disabled"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_call_gives_one_decision(program: Program, name: str) -> None:
    call, app, outcome = CASES[name]
    with leafseal.Engine.open(program.folder) as engine:
        assert engine.decisions == {}
        try:
            call(engine, app)
            code = "granted"
        except leafseal.Error as error:
            code = error.code
        assert (code, engine.decisions) == (outcome, {outcome: 1})


def test_calls_add_up(program: Program) -> None:
    with leafseal.Engine.open(program.folder, app=APP) as engine:
        envelope = engine.encrypt_many(["x"])[0]
        engine.decrypt_many([envelope])
        engine.inspect([envelope])
        for app in ["nowhere", "disabled"]:
            with pytest.raises(leafseal.Error):
                engine.decrypt_many([envelope], app=app)
        assert engine.decisions == Counter(granted=3, unknown_app=1, app_disabled=1)


def test_a_remote_engine_decides_itself(remote: leafseal.Engine) -> None:
    remote.encrypt_many(["x"])
    assert remote.decisions == {}
