#!/usr/bin/env python3
"""Writes the corpus: one JSON file for each topic. README.md describes them.

    python3 vectors/ambiguous/make.py
"""

import json
from pathlib import Path

from corpus import TOPICS
from documents import documents
from forms import multipart, urlencoded
from mixtures import mixtures
from targets import codings, headers, paths, query

HERE = Path(__file__).parent


def main() -> None:
    for topic in (urlencoded, multipart, documents, paths, query, headers, codings, mixtures):
        topic()
    for topic, cases in TOPICS.items():
        lines = ",\n".join(json.dumps(case) for case in cases)
        (HERE / f"{topic}.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
