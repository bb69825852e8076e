"""Opens envelopes and files with the test keys by the decryptor of tests/interop, which shares no code with Leafseal.

Standard input: `{"texts": […], "files": [base64…]}`. Standard output: the same shape with what each one held.
"""

import base64
import json
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "interop"))

import app_keys  # noqa: E402
from decryptor import Decryptor, Opened  # noqa: E402


def described(opened: Opened) -> dict[str, object]:
    envelope = opened.envelope
    shown = {key: value for key, value in asdict(opened).items() if key != "envelope"}
    return shown | {"version": envelope.version.name, "iv": envelope.iv.hex(), "ephemeral": envelope.ephemeral.hex()}


def main() -> None:
    asked = json.load(sys.stdin)
    decryptor = Decryptor(app_keys.of_the_vectors())
    files = [decryptor.open_file(base64.b64decode(file)) for file in asked["files"]]
    answer = {
        "texts": [described(decryptor.open(text)) for text in asked["texts"]],
        "files": [{"content": base64.b64encode(content).decode(), "way": way} for content, way in files],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
