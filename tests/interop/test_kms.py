"""Key slots that AWS KMS keeps, as moto serves it: it verifies signatures and encryption contexts."""

import json
import os
import sqlite3
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import leafseal as program
import pages
from certificates import Authority
from leafseal import CommandFailed, Leafseal
from ports import free_ports

GUIDE = pages.ROOT / "docs/guides/key-ceremonies.md"
APP = "acme"
START_SECONDS_MAX = 60
# Requests before moto verifies signatures: those of `SETUP`.
SETUP_REQUESTS = 5
SETUP = """
import json, sys, boto3
url, ca = sys.argv[1:]
client = lambda name: boto3.client(name, endpoint_url=url, verify=ca, region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x")
kms, iam = client("kms"), client("iam")
key = kms.create_key()["KeyMetadata"]["KeyId"]
kms.create_alias(AliasName="alias/leafseal", TargetKeyId=key)
iam.create_user(UserName="engine")
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["kms:Encrypt", "kms:Decrypt"], "Resource": "*"}]}
iam.put_user_policy(UserName="engine", PolicyName="kms", PolicyDocument=json.dumps(policy))
print(json.dumps(iam.create_access_key(UserName="engine")["AccessKey"], default=str))
"""


@dataclass
class Kms:
    """A running server with a key `alias/leafseal`, and the credentials of a user that may use it."""

    url: str
    ca: Path
    key_id: str
    secret: str


@pytest.fixture(scope="module")
def kms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kms]:
    python = os.environ.get("MOTO")
    if not python:
        pytest.skip("set MOTO to a Python with moto")
    folder = tmp_path_factory.mktemp("moto")
    authority = Authority.fresh()
    ca = authority.write(folder)
    certificate = authority.issue_server(folder, "moto", ["localhost", "127.0.0.1"])
    port = free_ports(1)[0]
    command = [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    command += ["-c", str(certificate.certificate), "-k", str(certificate.key)]
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": str(SETUP_REQUESTS), "MOTO_ENABLE_ISO_REGIONS": "false"}
    with (folder / "moto.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    url = f"https://127.0.0.1:{port}"
    try:
        _wait(f"{url}/moto-api/", ca, process, folder / "moto.log")
        done = subprocess.run([python, "-c", SETUP, url, str(ca)], capture_output=True, text=True, timeout=START_SECONDS_MAX, check=False)
        assert done.returncode == 0, done.stderr + (folder / "moto.log").read_text()
        key = json.loads(done.stdout)
        yield Kms(url, ca, key["AccessKeyId"], key["SecretAccessKey"])
    finally:
        process.kill()
        process.wait()


def _wait(url: str, ca: Path, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + START_SECONDS_MAX
    context = ssl.create_default_context(cafile=ca)
    while True:
        try:
            with urllib.request.urlopen(url, timeout=START_SECONDS_MAX, context=context):
                return
        except urllib.error.URLError:
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.1)


@pytest.fixture
def store(empty: Leafseal, kms: Kms) -> Leafseal:
    """A keystore with the app APP and a slot in `kms`, and settings that name it. Without its root key."""
    empty.create(APP)
    write_credentials(empty, kms.key_id, kms.secret)
    lines = ("[aws_kms]", 'key = "alias/leafseal"', 'region = "eu-central-1"', f'url = "{kms.url}"')
    lines += ('credentials_file = "credentials"', f'authorities = "{kms.ca}"')
    (empty.folder / "leafseal.toml").write_text("\n".join(lines) + "\n")
    empty.run("slot", "add", "--aws-kms")
    (empty.folder / "root.key").rename(empty.folder / "offline.key")
    return empty


def write_credentials(leafseal: Leafseal, key_id: str, secret: str) -> None:
    path = leafseal.folder / "credentials"
    path.write_text(f"[default]\naws_access_key_id = {key_id}\naws_secret_access_key = {secret}\n")
    path.chmod(0o600)


def refusal(leafseal: Leafseal, *flags: str) -> str:
    """The message with which opening the store fails."""
    with pytest.raises(CommandFailed) as failed:
        leafseal.run("store", "check", *flags)
    assert failed.value.code == 3
    return failed.value.message


def test_a_slot_opens_the_keystore_without_the_root_key(store: Leafseal) -> None:
    store.run("store", "check")
    assert "aws-kms" in store.run("slot", "list").decode()
    assert b"aws-kms" in store.run("info")
    store.run("slot", "rotate-root", "--link-seconds", "0")
    assert store.decrypt(APP, store.encrypt(APP, b'["x"]')) == b'["x"]'


def test_a_slot_moved_to_another_place_is_refused(store: Leafseal) -> None:
    database = sqlite3.connect(store.folder / "keystore.db")
    with database:
        database.execute("UPDATE slot SET id = '0011223344556677' WHERE kind = 'aws-kms'")
    database.close()
    message = refusal(store)
    assert "InvalidCiphertextException" in message and "0011223344556677" in message


def test_wrong_credentials_are_refused_with_advice(store: Leafseal, kms: Kms) -> None:
    write_credentials(store, kms.key_id, kms.secret[::-1])
    assert "check aws_kms.credentials_file" in refusal(store)
    write_credentials(store, kms.key_id, kms.secret)
    # The file is read for each call.
    store.run("store", "check")
    (store.folder / "credentials").chmod(0o644)
    assert "chmod 600" in refusal(store)


def test_a_server_without_a_hybrid_key_exchange_is_refused_where_one_is_required(store: Leafseal) -> None:
    if ssl.OPENSSL_VERSION_INFO >= (3, 5):
        pytest.skip("the server's OpenSSL has X25519MLKEM768")
    store.run("store", "check")
    assert "a server without X25519MLKEM768" in refusal(store, "--set", "aws_kms.tls_require=hybrid")


def test_a_server_that_is_down_or_another_is_named_and_another_slot_opens(store: Leafseal, tmp_path: Path) -> None:
    ca = Authority.fresh().write(tmp_path)
    assert "its certificate was refused" in refusal(store, "--set", f"aws_kms.authorities={ca}")
    down = ("--set", f"aws_kms.url=https://127.0.0.1:{free_ports(1)[0]}")
    assert "it cannot be reached" in refusal(store, *down)
    store.run("store", "check", *down, "--set", "keystore.root_key_file=offline.key")


def test_every_command_of_the_ceremony_works(kms: Kms, tmp_path: Path) -> None:
    """The blocks `sh aws-kms` of docs/guides/key-ceremonies.md."""
    blocks = pages.blocks(GUIDE.read_text())
    script = "".join(block.text for block in blocks if (block.language, block.name) == ("sh", "aws-kms"))
    assert "slot add --aws-kms" in script
    script = script.replace("/etc/ssl/certs/ca-certificates.crt", str(kms.ca))
    script = f"set -euo pipefail\nexport LEAFSEAL_AWS_KMS_URL={kms.url}\nleafseal keys create acme\n" + script
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": kms.key_id, "AWS_SECRET_ACCESS_KEY": kms.secret, "HOME": str(tmp_path)}
    environment["PATH"] = os.pathsep.join([str(program.binary().parent), os.environ["PATH"]])
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
