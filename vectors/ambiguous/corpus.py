"""The cases of the corpus by topic, and the value, paths and content types that they share."""

import base64

# The value that no upstream may read. A number of 16 digits, so that it is valid where JSON expects a number, too.
SECRET = "4111111111111111"
ALL, FORM_ONLY, JSON_ONLY, QUERY_ONLY = "/v1/cards", "/v1/form", "/v1/json", "/v1/query"
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
MULTIPART = "multipart/form-data; boundary=B"

TOPICS: dict[str, list[dict[str, object]]] = {}


def add(
    topic: str,
    name: str,
    about: str,
    body: str | bytes | None = None,
    kind: str | None = None,
    *fields: tuple[str, str],
    target: str = ALL,
    method: str = "POST",
    accepted: bool = False,
) -> None:
    """Text is written as UTF-8. `kind` is the Content-Type, which is absent where it is None."""
    case: dict[str, object] = {"name": f"{topic}-{name}", "about": about, "method": method, "target": target}
    if accepted:
        case["accepted"] = True
    case["fields"] = [*([["Content-Type", kind]] if kind is not None else []), *map(list, fields)]
    if body is not None:
        content = body.encode() if isinstance(body, str) else body
        try:
            case["body"] = content.decode("ascii")
        except UnicodeDecodeError:
            case["body_base64"] = base64.b64encode(content).decode()
    cases = TOPICS.setdefault(topic, [])
    if any(case["name"] == known["name"] for known in cases):
        raise ValueError(f"two cases are named {case['name']}")
    cases.append(case)
