"""The site: what a search of it finds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Build the site; return the titles that a search knows, by page."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    index = json.loads((folder / "search" / "search_index.json").read_text(encoding="utf-8"))
    titles = {}
    for entry in index["docs"]:
        page = entry["location"].partition("#")[0]
        titles.setdefault(page, []).append(entry["title"])
    return titles


def test_a_search_finds_what_to_do_by_the_problem(searched):
    entry = searched["files/"]
    assert {"It is slow", "A GPU is not used", "A server does not stop"} <= set(entry)
    assert any("context" in title for title in entry)


def test_a_search_finds_nothing_of_how_to_contribute(searched):
    assert not {page for page in searched if page.startswith(("CONTRIBUTING", "CODE_OF"))}
    assert "server/tools/" in searched
