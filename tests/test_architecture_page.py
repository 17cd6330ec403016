"""The map of the wings names what is there, and no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "localspec"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WINGS = ("apps", "console", "running", "core", "formats", "interfaces", "base")


def names(folder: Path) -> set[str]:
    """The modules and packages of a folder."""
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("wing", WINGS)
def test_the_map_names_all_that_a_wing_has(wing):
    [row] = re.findall(rf"^\| `{wing}` \|(.*)$", PAGE, re.M)
    named = set(re.findall(r"`([a-z_]+)`", row)) - {"localspec"}
    assert named == names(PACKAGE / wing)


def test_there_is_nothing_else_at_the_root():
    assert names(PACKAGE) == {*WINGS, "__main__"}


def test_the_evenings_path_leads_to_its_files():
    rows = re.findall(r"^\| [0-9-]+ \|([^|]*)\|", PAGE, re.M)
    files = []
    for row in rows:
        for name in re.findall(r"`([\w/]+\.py)`", row):
            folder = PACKAGE if "/" in name else files[-1].parent
            files.append(folder / name)
    assert len(files) == 21
    assert [file for file in files if not file.is_file()] == []
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    assert lines == pytest.approx(2_800, abs=100), "the page says 2,800"
