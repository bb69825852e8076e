"""Every command and program of the pages that start an engine: docs/start, and guides.

crates/cli/tests/it/guides.rs runs the other guides, and the program of docs/start/rust.md."""

from pathlib import Path

import pytest

import pages

PAGES = sorted(
    path
    for path in [*pages.ROOT.glob("docs/start/*.md"), *pages.ROOT.glob("docs/guides/*.md")]
    if pages.starts_engine(path.read_text())
)


@pytest.mark.parametrize("path", PAGES, ids=[path.stem for path in PAGES])
def test_every_command_of_a_page_works(path: Path, tmp_path: Path) -> None:
    pages.run(path.read_text(), tmp_path)


def test_a_command_that_fails_fails_its_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        pages.run(f"```sh\n{pages.START}\nfalse\n```\n", tmp_path)


def test_every_page_that_starts_an_engine_is_found() -> None:
    assert {"http", "node", "python", "relay"} <= {path.stem for path in PAGES}
