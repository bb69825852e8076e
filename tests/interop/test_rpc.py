"""Every method of the protocol through a client written from `docs/protocol.md` alone: results, options, and errors of requests."""

import base64
import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

import app_keys
import sdk_vectors
from compare import leaves, same
from conftest import APP
from decryptor import Decryptor
from engine import Engine
from envelope import VERSIONS, Curve, Envelope, ValueType, compressed
from rpc_client import Client, RpcError
from sealer import seal

KEYS = app_keys.of_the_vectors()
DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "protocol.md").read_text()
LIMITS = {
    "frame_size_max": "size of a frame",
    "elements_max": "elements of an array",
    "depth_max": "containers inside one another",
}
ORIGIN = 70
# Input, encrypted text, output.
VALUES = [
    ("héllo ✓ 😀\u0000", "héllo ✓ 😀\u0000", "héllo ✓ 😀\u0000"),
    ("", "", ""),
    (True, "true", True),
    (False, "false", False),
    (0, "0", 0),
    (-1, "-1", -1),
    (2**64 - 1, "18446744073709551615", 2**64 - 1),
    (-(2**63), "-9223372036854775808", -(2**63)),
    (12.5, "12.5", 12.5),
    (0.1, "0.1", 0.1),
    (100.0, "100", 100),
    (-0.0, "0", 0),
    (1e21, "1e+21", 1e21),
    (1e-7, "1e-7", 1e-7),
]


@pytest.fixture
def client(engine: Engine) -> Iterator[Client]:
    with engine.connect() as client:
        yield client


def refused(client: Client, method: str, **fields: object) -> RpcError:
    """Returns the error of a request that must fail; the connection stays open."""
    with pytest.raises(RpcError) as error:
        client.call(method, **fields)
    assert client.call("health") == {"status": "ok"}
    assert error.value.message and "\n" not in error.value.message
    return error.value


def own(value_type: ValueType, text: str, version: str = "Tk9D") -> str:
    """An envelope for the app that was not created by Leafseal."""
    return seal(VERSIONS[version], KEYS[VERSIONS[version].curve].public_key(), value_type, text)


def forged() -> str:
    envelope = Envelope.parse(own(ValueType.STRING, "the secret"))
    return Envelope(**(vars(envelope) | {"iv": bytes(12)})).text()


def test_encrypt_and_decrypt_native_values(client: Client, decryptor: Decryptor) -> None:
    sealed = client.call("encrypt", app=APP, values=[None, *(value for value, _, _ in VALUES)])["values"]
    assert sealed[0] is None
    for text, (value, expected, _) in zip(sealed[1:], VALUES, strict=True):
        opened = decryptor.open(text)
        assert (opened.text, opened.way) == (expected, 0), value
    opened = client.call("decrypt", app=APP, values=sealed)["values"]
    assert same(opened, [None, *(result for _, _, result in VALUES)])


@pytest.mark.parametrize("role", [None, "pci-data"])
@pytest.mark.parametrize("keying", ["field", "request", "session"])
@pytest.mark.parametrize("curve", list(Curve))
def test_options(client: Client, decryptor: Decryptor, curve: Curve, keying: str, role: str | None) -> None:
    begin = int(time.time())
    requests = [
        client.call("encrypt", app=APP, curve=curve.value, keying=keying, role=role, values=["a", 1, True])["values"]
        for _ in range(4)
    ]
    opened = [decryptor.open(text) for sealed in requests for text in sealed]
    assert [value.value for value in opened] == ["a", 1, True] * 4
    for value in opened:
        assert (value.envelope.version.curve, value.way, value.role) == (curve, 0, role)
        assert value.origin == (ORIGIN if role else None)
        assert role is None or begin <= value.encrypted_at <= time.time()
    ephemerals = {value.envelope.ephemeral for value in opened}
    # A session may end between two of the four requests.
    assert len(ephemerals) in {"field": [12], "request": [4], "session": [1, 2]}[keying]
    assert len({(value.envelope.ephemeral, value.envelope.iv) for value in opened}) == 12


def test_values_that_are_no_envelopes_come_back(client: Client) -> None:
    values = ["plain", "ev:", 7, 1.5, None, False, own(ValueType.NUMBER, "12.50")]
    assert same(client.call("decrypt", app=APP, values=values)["values"], [*values[:-1], 12.5])


def test_decrypted_numbers_are_native(client: Client) -> None:
    texts = ["18446744073709551615", "18446744073709551616", "-9223372036854775808", "-0", "1e3", "1.0"]
    values = [own(ValueType.NUMBER, text) for text in texts]
    opened = client.call("decrypt", app=APP, values=values)["values"]
    assert opened[:3] == [2**64 - 1, 2.0**64, -(2**63)]
    assert [type(value) for value in opened[:3]] == [int, float, int]
    assert isinstance(opened[3], float) and math.copysign(1, opened[3]) == -1
    assert opened[4:] == [1000, 1]


@pytest.mark.parametrize("case", sdk_vectors.cases(), ids=str)
def test_strings_of_the_sdks(client: Client, case: sdk_vectors.Case) -> None:
    opened = client.call("decrypt_document", app=APP, role=case.role, document=json.dumps(case.sealed))
    assert same(json.loads(opened["document"]), case.expected)
    opened = client.call("decrypt", app=APP, role=case.role, values=leaves(case.sealed))["values"]
    assert same(opened, leaves(case.expected))


def test_documents(client: Client, decryptor: Decryptor) -> None:
    document = b' { "card": {"number": "4242", "cvc": 12.50}, "a" : 1,"a":null } '
    sealed = client.call("encrypt_document", app=APP, select=["$.card"], role="pci", document=document)
    assert sealed["count"] == 2
    card = json.loads(sealed["document"])["card"]
    assert [decryptor.open(text).text for text in card.values()] == ["4242", "12.50"]
    as_text = sealed["document"].decode()
    for given in (sealed["document"], as_text):
        opened = client.call("decrypt_document", app=APP, role="pci", document=given)
        assert opened == {"document": document, "count": 2}
    partly = client.call("decrypt_document", app=APP, select=["$..cvc"], document=as_text)
    assert partly["count"] == 1 and b'"cvc": 12.50' in partly["document"] and b"4242" not in partly["document"]


@pytest.mark.parametrize("curve", list(Curve))
def test_files(client: Client, decryptor: Decryptor, curve: Curve) -> None:
    content = bytes(range(256)) * 300
    sealed = client.call("encrypt_file", app=APP, curve=curve.value, data=content)["data"]
    assert decryptor.open_file(sealed) == (content, 0)
    assert client.call("decrypt_file", app=APP, data=sealed) == {"data": content}


def test_rewrap(engine: Engine, rotated: list[str]) -> None:
    with engine.connect("operator") as client:
        fresh = client.call("encrypt", app="rotated", values=["new"])["values"][0]
        result = client.call("rewrap", app="rotated", values=[*rotated, fresh])
        assert result["count"] == len(rotated)
        assert result["values"][-1] == fresh
        assert not set(result["values"][:-1]) & set(rotated)
        inspected = client.call("inspect", app="rotated", values=[*rotated, *result["values"]])["values"]
        assert [one["key_version"] for one in inspected] == [1] * len(rotated) + [2] * (len(rotated) + 1)
        before = client.call("decrypt", app="rotated", values=rotated)["values"]
        after = client.call("decrypt", app="rotated", values=result["values"])["values"]
        assert after == [*before, "new"] == ["old", 1, "new"]
        moved = client.call("rewrap", app="rotated", curve="k1", values=rotated)["values"]
        assert all(text.startswith("ev:S0lS:") for text in moved)


def test_inspect(client: Client) -> None:
    begin = int(time.time())
    text = client.call("encrypt", app=APP, curve="k1", role="pci", values=[True])["values"][0]
    outside = client.call("inspect", values=[text])["values"][0]
    expected = {
        "scheme": "public-key",
        "version": "S0lS",
        "curve": "k1",
        "type": "boolean",
        "debug": False,
        "ephemeral": Envelope.parse(text).ephemeral,
    }
    inside_only = ("role", "origin", "encrypted_at", "key_version")
    assert {name: value for name, value in outside.items() if name not in inside_only} == expected
    assert all(outside.get(name) is None for name in inside_only)
    inside = client.call("inspect", app=APP, values=[text])["values"][0]
    assert (inside["role"], inside["origin"], inside["key_version"]) == ("pci", ORIGIN, 1)
    assert begin <= inside["encrypted_at"] <= time.time()
    text = client.call("encrypt", app=APP, scheme="symmetric", values=["a"])["values"][0]
    key_id = base64.b64decode(text.split(":")[2] + "==")
    shown = {"scheme": "symmetric", "version": "WEFF", "type": "string", "debug": False, "symmetric_key_id": key_id}
    assert client.call("inspect", values=[text])["values"][0] == shown
    assert client.call("inspect", app=APP, values=[text])["values"][0] == {**shown, "key_version": 1}


def test_public_keys(client: Client) -> None:
    result = client.call("public_keys", app=APP)
    assert (result["app"], result["version"]) == (APP, 1)
    for curve in Curve:
        key = KEYS[curve].public_key()
        assert result[curve.value] == compressed(key)
        assert load_pem_public_key(result[f"{curve.value}_pem"].encode()) == key


def documented_limits() -> dict[str, int]:
    """The defaults in the document's table, by their names in `info`."""
    rows = [re.search(rf"^\| {start}[^|]*\| ([0-9]+)", DOCUMENT, re.MULTILINE) for start in LIMITS.values()]
    return {name: int(row[1]) for name, row in zip(LIMITS, rows, strict=True)}


def test_every_method_of_the_document_is_there(client: Client) -> None:
    methods = re.findall(r"^### `([a-z_]+)`$", DOCUMENT, re.MULTILINE)
    assert len(methods) == 14
    for method in methods:
        try:
            client.call(method)
        except RpcError as error:
            # It has no parameters, and is for the clients in server.unsealers.
            assert error.code == ("forbidden" if method == "unseal_key" else "invalid_params"), method


def test_health_and_info(client: Client) -> None:
    assert client.call("health") == {"status": "ok"}
    info = client.call("info")
    assert all(isinstance(text, str) for pair in info.items() for text in pair)
    assert info["protocol"] == "1"
    assert {name: int(info[name]) for name in LIMITS} == documented_limits()
    client.reserve(1000)
    client.send_message([0, 1000, "health", []])
    assert client.answer(1000) == {"status": "ok"}


@pytest.mark.parametrize(
    ("method", "fields", "code", "named"),
    [
        ("explode", {}, "unknown_method", "explode"),
        ("encrypt", {"app": APP, "values": [], "colour": "red"}, "invalid_params", "colour"),
        ("encrypt", {"values": []}, "invalid_params", "app"),
        ("encrypt", {"app": APP}, "invalid_params", "values"),
        ("encrypt", {"app": 7, "values": []}, "invalid_params", "app"),
        ("encrypt", {"app": "", "values": []}, "invalid_params", "app"),
        ("encrypt", {"app": APP, "values": [], "curve": "p256"}, "invalid_params", "curve"),
        ("encrypt", {"app": APP, "values": [], "keying": "never"}, "invalid_params", "keying"),
        ("encrypt", {"app": APP, "values": [], "role": "UPPER"}, "invalid_params", "role"),
        ("encrypt", {"app": APP, "values": [], "role": "x" * 21}, "invalid_params", "role"),
        ("encrypt", {"app": APP, "values": [], "deadline_ms": 0}, "invalid_params", "deadline_ms"),
        ("encrypt", {"app": APP, "values": [], "deadline_ms": -5}, "invalid_params", "deadline_ms"),
        ("encrypt_document", {"app": APP, "document": 5}, "invalid_params", "document"),
        ("encrypt_document", {"app": APP, "document": b"1", "select": []}, "invalid_params", "select"),
        ("encrypt_file", {"app": APP, "data": "text"}, "invalid_params", "data"),
        ("inspect", {"values": [7]}, "invalid_params", ""),
        ("health", {"app": APP}, "invalid_params", "app"),
    ],
)
def test_refused_parameters(client: Client, method: str, fields: dict[str, object], code: str, named: str) -> None:
    error = refused(client, method, **fields)
    assert (error.code, error.retry) == (code, "never")
    assert named in error.message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", [1], {"a": 1}], ids=repr)
def test_values_without_a_text(client: Client, value: object) -> None:
    error = refused(client, "encrypt", app=APP, values=["fine", value])
    assert (error.code, error.index) == ("invalid_params", 1)


def test_refused_envelopes_tell_their_index(client: Client) -> None:
    good = own(ValueType.STRING, "the secret")
    error = refused(client, "decrypt", app=APP, values=[good, 1, forged()])
    assert (error.code, error.retry, error.index) == ("decrypt_failed", "never", 2)
    assert "the secret" not in error.message
    error = refused(client, "decrypt", app=APP, values=[good, own(ValueType.NUMBER, "1e999")])
    assert (error.code, error.index) == ("number_out_of_range", 1)
    error = refused(client, "inspect", app=APP, values=[good, "no envelope"])
    assert (error.code, error.index) == ("invalid_envelope", 1)
    for method in ("rewrap", "inspect"):
        error = refused(client, method, app=APP, values=[good, forged()])
        assert (error.code, error.index) == ("decrypt_failed", 1)


def test_one_forged_value_spoils_the_document(client: Client) -> None:
    document = json.dumps({"good": own(ValueType.STRING, "the secret"), "bad": forged()})
    error = refused(client, "decrypt_document", app=APP, document=document)
    assert error.code == "decrypt_failed"
    assert "the secret" not in error.message
    opened = client.call("decrypt_document", app=APP, select=["$.good"], document=document)
    assert b"the secret" in opened["document"]


def test_selectors_report_what_they_matched(client: Client) -> None:
    document = json.dumps({"card": {"number": "4242", "cvc": None}, "list": [{"number": 1}] * 3000})
    select = ["$..number", "$.card", "$.card.cvccc", "$.list[-2:].number"]
    result = client.call("encrypt_document", app=APP, select=select, document=document)
    assert (result["matched"], result["count"]) == ([3001, 2, 0, 2], 3001)
    assert not {"resealed", "skipped", "failed", "failures"} & set(result)
    assert "matched" not in client.call("encrypt_document", app=APP, document=document)
    error = refused(client, "encrypt_document", app=APP, select=select, strict=True, document=document)
    assert (error.code, error.retry, error.index) == ("unmatched_selector", "never", 2)
    lines = '{"card":"1"}\n\n{"cards":[{"card":"2"}]}\n'
    error = refused(client, "encrypt_document", app=APP, select=["$.card"], strict=True, lines=True, document=lines)
    assert (error.code, error.index, error.offset) == ("unmatched_selector", 0, 14)
    assert error.message.startswith("line 3: ")
    good = client.call("decrypt_document", app=APP, select=select[:2], strict=True, document=result["document"])
    assert (good["matched"], json.loads(good["document"])) == ([3001, 2], json.loads(document))
    assert refused(client, "encrypt", app=APP, strict=True, values=[1]).code == "invalid_params"
    assert refused(client, "encrypt_document", app=APP, strict="yes", document=document).code == "invalid_params"


@pytest.mark.parametrize("count", [5, 3000])
def test_what_is_sealed_already_is_reported_or_left_alone(engine: Engine, client: Client, count: int) -> None:
    mine, strange = own(ValueType.STRING, "the secret"), forged()
    values = [mine, "plain", strange, 7, mine] * (count // 5)
    twice = client.call("encrypt", app=APP, values=values)
    assert (twice["resealed"], "skipped" in twice) == (3 * count // 5, False)
    assert client.call("decrypt", app=APP, values=twice["values"])["values"] == values
    once = client.call("encrypt", app=APP, skip_sealed=True, values=values)
    assert (once["resealed"], once["skipped"]) == (count // 5, 2 * count // 5)
    left = [after == before for after, before in zip(once["values"], values, strict=True)]
    assert left == [True, False, False, False, True] * (count // 5)
    document = client.call("encrypt_document", app=APP, skip_sealed=True, document=json.dumps(values))
    assert (document["resealed"], document["skipped"], document["count"]) == (count // 5, 2 * count // 5, 3 * count // 5)
    assert [json.loads(document["document"])[place] for place in (0, -1)] == [mine, mine]
    with engine.connect("writer") as writer:
        assert refused(writer, "encrypt", app=APP, skip_sealed=True, values=values).code == "forbidden"
        assert writer.call("encrypt", app=APP, values=[mine])["resealed"] == 1


@pytest.mark.parametrize("count", [1, 700])
def test_a_planted_string_does_not_spoil_a_document_or_list(engine: Engine, client: Client, count: int) -> None:
    role = client.call("encrypt", app=APP, role="pci", values=["the secret"])["values"][0]
    with engine.connect("operator") as operator:
        other = operator.call("encrypt", app="rotated", values=["the secret"])["values"][0]
    good, planted = own(ValueType.STRING, "good"), "ev:Tk9D:planted:$"
    bad = [planted, forged(), other, role]
    values = [good, *bad, 5] * count
    assert refused(client, "decrypt", app=APP, role="health", values=values[1:]).code in ("invalid_envelope", "forbidden")
    for on_failure in ("leave", "null"):
        spots = bad if on_failure == "leave" else [None] * 4
        # The requested role differs from that of `role`, and `good` has none.
        result = client.call("decrypt", app=APP, role="health", on_failure=on_failure, values=values)
        first = good if on_failure == "leave" else None
        assert result["values"] == [first, *spots, 5] * count
        assert result["failed"] == 5 * count
        result = client.call("decrypt", app=APP, on_failure=on_failure, values=[good, *bad[:3], 5] * count)
        assert result["values"] == ["good", *spots[:3], 5] * count
        places = [5 * turn + place for turn in range(count) for place in (1, 2, 3)]
        assert (result["failed"], result["failures"]) == (3 * count, places[:16])
        document = json.dumps({"list": [{"a": text} for text in [good, *bad[:3]] * count]})
        result = client.call("decrypt_document", app=APP, on_failure=on_failure, document=document)
        assert json.loads(result["document"]) == {"list": [{"a": text} for text in ["good", *spots[:3]] * count]}
        paths = [f"$['list'][{4 * turn + place}]['a']" for turn in range(count) for place in (1, 2, 3)]
        assert (result["count"], result["failed"], result["failures"]) == (count, 3 * count, paths[:16])
    clean = client.call("decrypt", app=APP, on_failure="null", values=[good])
    assert clean == {"values": ["good"], "failed": 0}
    numbers = [own(ValueType.NUMBER, "1e999"), own(ValueType.NUMBER, "1")]
    assert client.call("decrypt", app=APP, on_failure="null", values=numbers)["values"] == [None, 1]
    assert refused(client, "decrypt", app=APP, on_failure="drop", values=[good]).code == "invalid_params"


def test_numbers_of_any_size_stay_exact_in_documents(client: Client) -> None:
    document = json.dumps([own(ValueType.NUMBER, "1e999"), own(ValueType.NUMBER, "0.1000")])
    assert client.call("decrypt_document", app=APP, document=document)["document"] == b"[1e999, 0.1000]"


def test_refused_documents_selectors_and_files(client: Client) -> None:
    error = refused(client, "encrypt_document", app=APP, document=b'{"a": tru}')
    assert (error.code, error.offset is not None) == ("invalid_document", True)
    assert refused(client, "encrypt_document", app=APP, document=b'"\xff"').code == "invalid_document"
    assert refused(client, "encrypt_document", app=APP, document=b"[" * 100_000).code == "invalid_document"
    error = refused(client, "encrypt_document", app=APP, document=b"{}", select=["$.a", "$.b["])
    assert (error.code, error.index) == ("invalid_selector", 1)
    assert refused(client, "decrypt_file", app=APP, data=b"%EVENC, almost").code == "invalid_envelope"
    sealed = client.call("encrypt_file", app=APP, data=b"the secret")["data"]
    broken = sealed[:60] + bytes([sealed[60] ^ 1]) + sealed[61:]
    assert refused(client, "decrypt_file", app=APP, data=broken).code in ("decrypt_failed", "invalid_envelope")


def test_the_role_must_be_the_one_asked_for(client: Client) -> None:
    sealed = client.call("encrypt", app=APP, role="pci", values=["the secret"])["values"]
    error = refused(client, "decrypt", app=APP, role="health", values=sealed)
    assert (error.code, error.retry) == ("forbidden", "never")
    assert client.call("decrypt", app=APP, role="pci", values=sealed)["values"] == ["the secret"]


def test_rights_of_clients(engine: Engine) -> None:
    """`reader` may decrypt values of one role for one app, `writer` may encrypt."""
    with engine.connect("reader") as reader, engine.connect("writer") as writer:
        sealed = {role: writer.call("encrypt", app=APP, role=role, values=["v"])["values"] for role in ("pci", "other")}
        assert reader.call("decrypt", app=APP, values=sealed["pci"])["values"] == ["v"]
        assert refused(reader, "decrypt", app=APP, values=sealed["other"]).code == "forbidden"
        assert refused(reader, "encrypt", app=APP, values=["v"]).code == "forbidden"
        assert refused(writer, "decrypt", app=APP, values=sealed["pci"]).code == "forbidden"
        for app in ("rotated", "nobody"):
            assert refused(reader, "decrypt", app=app, values=sealed["pci"]).code == "forbidden"
        assert len(writer.call("inspect", values=sealed["pci"])["values"]) == 1
    with engine.connect("operator") as operator:
        assert refused(operator, "decrypt", app="rotated", values=sealed["pci"]).code == "decrypt_failed"
        assert refused(operator, "public_keys", app="nobody").code == "unknown_app"


def test_inspecting_the_inside_needs_the_permission_to_decrypt(engine: Engine) -> None:
    with engine.connect("writer") as writer:
        sealed = writer.call("encrypt", app=APP, role="pci", values=["v"])["values"]
        assert refused(writer, "inspect", app=APP, values=sealed).code == "forbidden"
