"""`vectors/ev-sdk`: output of the real SDKs, case by case, and the values that it must decrypt to."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass

from envelope import VECTORS

FILE_CONTENT = b"file bytes \x00\x01"
ORIGINS = {"node": 5, "py": 7}
ROLE = "pci-data"


@dataclass(frozen=True)
class Case:
    """One call of an SDK. `sealed` and `expected` have the same shape."""

    sdk: str
    name: str
    sealed: object
    expected: object
    role: str | None
    is_quirk: bool = False

    def __str__(self) -> str:
        return f"{self.sdk}/{self.name}"


@dataclass(frozen=True)
class FileCase:
    sdk: str
    name: str
    content: bytes

    def __str__(self) -> str:
        return f"{self.sdk}/{self.name}"


# The single values that both SDKs encrypted in every case; the files do not repeat them.
SINGLES = {"str": "plain", "num": 1.5, "bool": True, "arr": [1, "a", True]}
QUIRK_TEXT = "b"


def _outputs() -> Iterator[tuple[str, str, dict[str, object]]]:
    for sdk in ORIGINS:
        for name, out in json.loads((VECTORS / "ev-sdk" / f"{sdk}.json").read_text())["out"].items():
            yield sdk, name, out


def cases() -> list[Case]:
    """Returns every string of the vectors; each is in exactly one case."""
    return list(_cases())


def files() -> list[FileCase]:
    """Every file of the vectors."""
    with_file = [(sdk, name, out["file"]) for sdk, name, out in _outputs() if "file" in out]
    return [FileCase(sdk, name, base64.b64decode(file)) for sdk, name, file in with_file]


def _cases() -> Iterator[Case]:
    for sdk, name, out in _outputs():
        if name.startswith("quirk/"):
            # The role is that of the second call; the key that of the first.
            role = ROLE if name.endswith(f"then-{ROLE}") else None
            yield Case(sdk, name, out["str"], QUIRK_TEXT, role, is_quirk=True)
            continue
        role = ROLE if name.endswith(f"/{ROLE}") else None
        yield Case(sdk, f"{name}/obj", out["obj"], out["rt"], role)
        for single, value in SINGLES.items():
            yield Case(sdk, f"{name}/{single}", out[single], value, role)
