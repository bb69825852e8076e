"""Records of the audit log as OCSF events, validated against the published definitions of that version."""

import json

import jsonschema
import pytest
from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema

import engine as engines
from conftest import APP
from leafseal import Leafseal

VERSION = "1.8.0"


@pytest.fixture(name="exported")
def fixture_exported(tmp_path):
    """The events of an engine that has encrypted, decrypted, refused and started again."""
    leafseal = Leafseal(tmp_path / "dev")
    for command in (
        ("keys", "create", "shop"),
        ("keys", "rotate", "shop"),
        ("keys", "disable", "shop", "--version", "1"),
        ("keys", "enable", "shop", "--version", "1"),
        ("slot", "add", "--root-key-file", str(tmp_path / "recovery.key")),
        ("store", "backup", str(tmp_path / "backup")),
        ("certs", "init", "--name", "localhost", "--ip", "127.0.0.1"),
        ("certs", "issue", "billing", "--app", "shop", "--allow", "encrypt"),
        ("certs", "renew", "billing"),
        ("certs", "revoke", "billing"),
        ("api-keys", "create", "shop", "--allow", "encrypt"),
    ):
        leafseal.run(*command)
    settings = ("audit.folder=audit", "server.name=one", "audit.checkpoint_interval=10ms")
    for _ in range(2):
        engine = engines.start(leafseal, APP, 0, *settings)
        try:
            with engine.connect() as client:
                sealed = client.call("encrypt", app=APP, values=["x"])["values"]
                client.call("decrypt", app=APP, values=sealed)
                with pytest.raises(Exception, match="."):
                    client.call("decrypt", app="other", values=sealed)
            engine.process.terminate()
            engine.process.wait()
        finally:
            engines.kill(engine)
    (log,) = (leafseal.folder / "audit").iterdir()
    text = leafseal.run("audit", "export", str(log), "--format", "ocsf").decode()
    return [json.loads(line) for line in text.splitlines()]


def test_events_are_valid(exported):
    schema = OcsfJsonSchemaEmbedded(get_ocsf_schema(VERSION))
    seen = set()
    for event in exported:
        assert event["metadata"]["version"] == VERSION
        name = schema.lookup_class_name_from_uid(event["class_uid"])
        jsonschema.validate(event, schema.get_class_schema(name))
        seen.add((event["class_uid"], event["activity_id"], event.get("status_id")))
    assert {(6002, 3, None), (6003, 1, 1), (6003, 2, 1), (6003, 2, 2)} <= seen
    # Changes of the keystore: Account Change, and Entity Management.
    assert {(3001, activity, 1) for activity in (1, 5, 7, 99)} <= seen
    assert {(3004, activity, 1) for activity in (1, 2, 8, 9)} <= seen


def test_what_is_required_is_missed(exported):
    """The validation notices a missing attribute."""
    schema = OcsfJsonSchemaEmbedded(get_ocsf_schema(VERSION))
    event = next(event for event in exported if event["class_uid"] == 6003)
    del event["api"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(event, schema.get_class_schema("api_activity"))
