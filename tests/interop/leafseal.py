"""The program under test, used through its command line."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import app_keys
import escrow_text
from decryptor import PrivateKeys
from envelope import Curve

COMMAND_SECONDS_MAX = 60


def binary() -> Path:
    """From the environment, as `run.sh` sets it."""
    path = os.environ.get("LEAFSEAL")
    if not path:
        raise RuntimeError("set LEAFSEAL to the program's path, or run tests/interop/run.sh")
    return Path(path)


class CommandFailed(Exception):
    """A command failed."""

    def __init__(self, command: list[str], code: int, message: str):
        super().__init__(f"{' '.join(command)}: exit code {code}: {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Choices:
    """Options of encryption; missing ones use Leafseal's defaults."""

    curve: Curve | None = None
    keying: str | None = None
    role: str | None = None
    select: list[str] = field(default_factory=list)

    def flags(self) -> list[str]:
        flags = [f"--select={path}" for path in self.select]
        if self.curve:
            flags += ["--curve", self.curve.value]
        if self.keying:
            flags += ["--keying", self.keying]
        if self.role:
            flags += ["--role", self.role]
        return flags


@dataclass(frozen=True)
class Leafseal:
    """A folder with keystore, keys and certificates."""

    folder: Path

    def command(self, *arguments: str) -> list[str]:
        return [str(binary()), "--dir", str(self.folder), *arguments]

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Returns standard output; raises CommandFailed if the exit code is not 0."""
        command = self.command(*arguments)
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=COMMAND_SECONDS_MAX, check=False)
        if done.returncode != 0:
            raise CommandFailed(list(arguments), done.returncode, done.stderr.decode(errors="replace"))
        return done.stdout

    def create(self, app: str) -> None:
        self.run("keys", "create", app)

    def import_keys(self, app: str, keys: PrivateKeys, form: str = "pkcs8") -> None:
        pem = app_keys.write_pem(keys, self.folder.parent, form)
        self.run("keys", "import", app, "--r1", str(pem[Curve.R1]), "--k1", str(pem[Curve.K1]))

    def public_keys(self, app: str) -> dict[str, object]:
        return json.loads(self.run("keys", "public", app, "--json"))

    def symmetric_roots(self, app: str) -> list[bytes]:
        """Those of the active key versions, oldest first, from `keys export`."""
        recipient = ec.generate_private_key(ec.SECP256R1())
        file = self.folder.parent / "recipient.pem"
        file.write_bytes(recipient.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        exported = json.loads(self.run("keys", "export", app, "--recipient", str(file), "--confirm", app))
        texts = [escrow_text.open_jwe(key["jwe"], recipient)[1] for key in exported["keys"]]
        read = [escrow_text.read(text, exported["signer"]) for text in texts]
        roots = {int(facts["version"]): keys["root"] for facts, keys in read}
        return [roots[version] for version in sorted(roots)]

    def encrypt(self, app: str, document: bytes, choices: Choices = Choices()) -> bytes:
        return self.run("encrypt", "--app", app, *choices.flags(), stdin=document)

    def decrypt(self, app: str, document: bytes, *flags: str) -> bytes:
        return self.run("decrypt", "--app", app, *flags, stdin=document)

    def encrypt_file(self, app: str, content: bytes, curve: Curve) -> bytes:
        return self.run("encrypt", "--app", app, "--file", "--curve", curve.value, stdin=content)

    def decrypt_file(self, app: str, content: bytes) -> bytes:
        return self.run("decrypt", "--app", app, "--file", stdin=content)
