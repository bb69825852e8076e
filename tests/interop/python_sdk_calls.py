"""The real Python SDK against the API, in its own process. `EV_API_URL` is the API's URL; `PYTHONPATH` selects the trusted bundle.

    python_sdk_calls.py < CASES.json

Each case is `{"do": NAME, "data": …, "role": …}`; the output is a list of `{"ok": …}` or `{"error": TYPE, "message": TEXT}`. Bytes are
`{"base64": …}`.
"""

import base64
import json
import os
import sys
from datetime import datetime, timedelta, timezone

import evervault


def plain(value: object) -> object:
    """Converts a value to JSON types."""
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def native(value: object) -> object:
    is_bytes = isinstance(value, dict) and set(value) == {"base64"}
    return base64.b64decode(value["base64"]) if is_bytes else value


def run(case: dict[str, object]) -> object:
    data = native(case["data"])
    match case["do"]:
        case "round_trip":
            return evervault.decrypt(evervault.encrypt(data, case.get("role")))
        case "encrypt":
            return evervault.encrypt(data, case.get("role"))
        case "decrypt":
            return evervault.decrypt(data)
        case "token":
            seconds = case.get("seconds")
            expiry = datetime.now(timezone.utc) + timedelta(seconds=seconds) if seconds is not None else None
            return evervault.create_client_side_decrypt_token(data, expiry)
        case other:
            raise ValueError(other)


def answer(case: dict[str, object]) -> dict[str, object]:
    try:
        return {"ok": plain(run(case))}
    except evervault.EvervaultError as error:
        return {"error": type(error).__name__, "message": str(error)}


def main() -> None:
    evervault.init(os.environ["APP"], os.environ["KEY"], curve=os.environ.get("CURVE", "SECP256R1"))
    json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
