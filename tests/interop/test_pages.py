"""Every command and program of the pages that start an engine: of README.md, the reference, docs/start and guides.

crates/cli/tests/it/guides.rs runs the other pages, and the program of docs/start/rust.md."""

from pathlib import Path

import pytest

import pages

PAGES = sorted(
    path
    for pattern in ("README.md", "docs/*.md", "docs/start/*.md", "docs/guides/*.md")
    for path in pages.ROOT.glob(pattern)
    if pages.starts_engine(path.read_text())
)


@pytest.mark.parametrize("path", PAGES, ids=[f"{path.parent.name}-{path.stem}" for path in PAGES])
def test_every_command_of_a_page_works(path: Path, tmp_path: Path) -> None:
    pages.run(path.read_text(), tmp_path)


def test_a_command_that_fails_fails_its_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        pages.run(f"```sh\n{pages.START}\nfalse\n```\n", tmp_path)


def test_a_program_that_a_page_leaves_running_ends_with_it(tmp_path: Path) -> None:
    pages.run(f"```sh\n{pages.START}\nsleep 600 &\n```\n", tmp_path)


@pytest.mark.parametrize("block", ["```console\n$ true\n```\n", "```json\n{\n```\n", "```toml\na = 1\n```\n"])
def test_a_block_that_no_test_runs_or_reads_fails_its_page(block: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, ValueError)):
        pages.run(block, tmp_path)
    assert pages.blocks(f"<!-- not run: it takes an hour -->\n{block}")[0].not_run == "it takes an hour"


def test_an_indented_block_fails_its_page() -> None:
    with pytest.raises(AssertionError):
        pages.blocks("Run this:\n\n    true\n")
    assert pages.blocks("- an item\n  of two lines\n\n```sh\nif true; then\n\n    true\nfi\n```\n")


def test_every_page_that_starts_an_engine_is_found() -> None:
    assert pages.ROOT / "README.md" in PAGES
    found = {path.relative_to(pages.ROOT / "docs").as_posix() for path in PAGES if path.name != "README.md"}
    assert {"api.md", "load.md", "relay.md", "start/http.md", "start/node.md", "start/python.md", "start/relay.md"} <= found
