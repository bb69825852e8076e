"""Every refusal has a type, a code and advice, and contains neither values nor secrets."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import leafseal
import pytest
from conftest import APP, connect
from program import Program, Server

SECRET = "4111-secret-1111"


def nested(depth: int) -> object:
    value: object = SECRET
    for _ in range(depth):
        value = [value]
    return value


def cyclic() -> object:
    value: list[object] = [SECRET]
    value.append(value)
    return value


Call = Callable[[leafseal.Engine], Any]

CASES: dict[str, tuple[str, int | None, Call]] = {
    "no value": ("invalid_params", 1, lambda e: e.encrypt_many([SECRET, b"x"])),
    "surrogate": ("invalid_params", 1, lambda e: e.encrypt_many([SECRET, "\ud800"])),
    "nan": ("invalid_params", 1, lambda e: e.encrypt_many([SECRET, float("nan")])),
    "huge": ("number_out_of_range", 0, lambda e: e.encrypt_many([2**64])),
    "negative": ("number_out_of_range", 0, lambda e: e.encrypt_many([-(2**63) - 1])),
    "nested list": ("invalid_params", 0, lambda e: e.encrypt_many([[SECRET]])),
    "a text of values": ("invalid_params", None, lambda e: e.encrypt_many(SECRET)),
    "a number as a document": ("invalid_params", None, lambda e: e.encrypt(7)),
    "no JSON": ("invalid_document", None, lambda e: e.encrypt(f'{{"a": "{SECRET}"')),
    "a document with NaN": ("invalid_document", None, lambda e: e.encrypt({"a": float("inf")})),
    "a document with a surrogate": ("invalid_document", None, lambda e: e.encrypt({"a": "\udfff"})),
    "text with a surrogate": ("invalid_document", None, lambda e: e.encrypt('["\ud800"]')),
    "no UTF-8": ("invalid_document", None, lambda e: e.encrypt(b'["\xff"]')),
    "an int as a name": ("invalid_document", None, lambda e: e.encrypt({1: SECRET})),
    "an object": ("invalid_document", None, lambda e: e.encrypt({"a": object()})),
    "deep": ("invalid_document", None, lambda e: e.encrypt(nested(129))),
    "too deep": ("invalid_document", None, lambda e: e.encrypt(nested(100_000))),
    "cyclic": ("invalid_document", None, lambda e: e.encrypt(cyclic())),
    "many digits": ("number_out_of_range", None, lambda e: e.encrypt({"a": 1 << 20_000})),
    "selector": ("invalid_selector", None, lambda e: e.encrypt({"a": SECRET}, "a[")),
    "unmatched": ("unmatched_selector", None, lambda e: e.encrypt({"a": SECRET}, "$.b", strict=True)),
    "case": ("ambiguous_name", None, lambda e: e.encrypt({"A": SECRET}, "$.a", other_case="refuse")),
    "no selector": ("invalid_params", None, lambda e: e.encrypt({"a": SECRET}, [])),
    "role": ("invalid_params", None, lambda e: e.encrypt_many([SECRET], role="No Role")),
    "curve": ("invalid_params", None, lambda e: e.encrypt_many([SECRET], curve="p521")),
    "option": ("invalid_params", None, lambda e: e.encrypt_many([SECRET], colour="red")),
    "an option of encryption": ("invalid_params", None, lambda e: e.decrypt(e.encrypt({"a": SECRET}), skip_sealed=True)),
    "an option of decryption": ("invalid_params", None, lambda e: e.encrypt({"a": SECRET}, on_failure="leave")),
    "an option of documents": ("invalid_params", None, lambda e: e.encrypt_many([SECRET], strict=True)),
    "timeout": ("invalid_params", None, lambda e: e.encrypt_many([SECRET], timeout=0)),
    "malformed": ("invalid_envelope", 0, lambda e: e.decrypt_many(["ev:Tk9D:x:$"])),
    "other app": ("decrypt_failed", 0, lambda e: e.decrypt_many(e.encrypt_many([SECRET]), app="other")),
    "other role": ("forbidden", 0, lambda e: e.decrypt_many(e.encrypt_many([SECRET], role="a"), role="b")),
}


@pytest.mark.parametrize("case", CASES)
def test_refusals(engine: leafseal.Engine, case: str) -> None:
    code, index, call = CASES[case]
    if engine._core.is_remote and case == "other app":
        code, index = "forbidden", None
    with pytest.raises(leafseal.Error) as caught:
        call(engine)
    error = caught.value
    assert (error.code, error.retry) == (code, "never"), error
    assert type(error).__name__ == "".join(word.capitalize() for word in code.split("_"))
    assert index is None or error.index == index
    assert SECRET not in str(error) and SECRET not in repr(error)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and copy.__dict__ == error.__dict__ and str(copy) == str(error)


@pytest.mark.parametrize(("app", "code"), [("nobody", "unknown_app"), ("disabled", "app_disabled"), (None, "invalid_params")])
def test_apps(program: Program, app: str | None, code: str) -> None:
    with leafseal.Engine.open(program.folder, app=app) as engine, pytest.raises(leafseal.Error) as caught:
        engine.encrypt_many(["a"])
    assert caught.value.code == code


def test_permissions(server: Server) -> None:
    with connect(server, "writer") as writer:
        sealed = writer.encrypt_many(["a"])
        with pytest.raises(leafseal.Forbidden) as caught:
            writer.decrypt_many(sealed)
        assert caught.value.from_engine


def test_folders(program: Program, tmp_path: Path) -> None:
    with pytest.raises(leafseal.InvalidSettings, match="no keystore"):
        leafseal.Engine.open(tmp_path)
    for name in ("keystore.db", "root.key"):
        (tmp_path / name).write_bytes((program.folder / name).read_bytes())
        (tmp_path / name).chmod(0o600)
    tmp_path.chmod(0o700)
    leafseal.Engine.open(tmp_path).close()
    config = tmp_path / "leafseal.toml"
    for text, message in [
        ("engine.curve = 'x'", 'leafseal.toml:1:16: engine.curve must be one of "r1", "k1"'),
        ("engine.keying = 7", "leafseal.toml:1:17: engine.keying must be one of"),
        ("engine.step_bytes_max = '1b'\nkeystore.url = 3", r"engine.step_bytes_max must be .*; .*leafseal.toml:2:16: keystore.url must be"),
        ("keystore.url = 'keys'", "keystore.url must have the form postgres://"),
        ("engine", "not TOML"),
    ]:
        config.write_text(text)
        with pytest.raises(leafseal.InvalidSettings, match=message):
            leafseal.Engine.open(tmp_path)
    config.write_text("[engine]\ncurve = 'k1'\nempty_strings = 'leave'\nwipe_buffers = true\n[server]\nworkers = 3\n")
    with leafseal.Engine.open(tmp_path, app=APP) as engine:
        [left, sealed] = engine.encrypt_many(["", "a"])
        assert left == "" and engine.inspect(sealed).curve == "k1"
    (tmp_path / "root.key").unlink()
    with pytest.raises(leafseal.InvalidSettings, match="no root key"):
        leafseal.Engine.open(tmp_path)


def test_the_root_key_of_the_environment(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (program.folder / "root.key").read_text().strip()
    (tmp_path / "keystore.db").write_bytes((program.folder / "keystore.db").read_bytes())
    (tmp_path / "keystore.db").chmod(0o600)
    tmp_path.chmod(0o700)
    monkeypatch.setenv("LEAFSEAL_ROOT_KEY", text)
    leafseal.Engine.open(tmp_path).close()
    monkeypatch.setenv("LEAFSEAL_ROOT_KEY", text[:-4] + "AAAA")
    with pytest.raises(leafseal.InvalidSettings) as caught:
        leafseal.Engine.open(tmp_path)
    assert text[-20:-4] not in str(caught.value)


def test_connections(server: Server, program: Program, tmp_path: Path) -> None:
    files = server.credentials()
    with pytest.raises(leafseal.InvalidSettings, match="ca"):
        leafseal.Engine.connect(server.address, **{**files, "ca": tmp_path / "nothing.pem"})
    with pytest.raises(leafseal.InvalidSettings) as caught:
        leafseal.Engine.connect(server.address, **{**files, "key": b"-----BEGIN PRIVATE KEY-----\nMIIsecret\n"})
    assert "MIIsecret" not in str(caught.value)
    # Text in the place of a path is neither read nor repeated, and nor is a key without its lines of dashes.
    for text in ("-----BEGIN PRIVATE KEY-----\nMIIsecret\n", "MIIsecret", "MIIsecret" * 500):
        with pytest.raises(leafseal.InvalidSettings, match="key: ") as caught:
            leafseal.Engine.connect(server.address, **{**files, "key": text})
        assert "MIIsecret" not in str(caught.value)
    with pytest.raises(leafseal.TlsFailed):
        leafseal.Engine.connect(server.address, **files, server_name="elsewhere", retries_max=0)
    other = Program(tmp_path / "other")
    other.run("certs", "init")
    with pytest.raises(leafseal.TlsFailed):
        wrong = {**files, "ca": other.folder / "certs" / "ca.pem"}
        leafseal.Engine.connect(server.address, **wrong, retries_max=0)
    with pytest.raises(leafseal.ConnectFailed) as refused:
        leafseal.Engine.connect("127.0.0.1:9", **files, retries_max=0)
    assert isinstance(refused.value, ConnectionError)


def test_closed_engines(program: Program, server: Server) -> None:
    for engine in (leafseal.Engine.open(program.folder, app=APP), connect(server)):
        with engine:
            assert not engine.closed
        assert engine.closed and "closed" in repr(engine)
        with pytest.raises(leafseal.Closed):
            engine.encrypt_many(["a"])
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(engine)
