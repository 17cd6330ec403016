"""The chart of the README."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from drawing import ratios

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"


@pytest.mark.parametrize("theme", ratios.THEMES)
def test_the_chart_shows_what_the_tables_say(theme):
    drawn = ratios.chart(ROOT, theme)
    assert (PICTURES / f"chart-{theme}.svg").read_text(encoding="utf-8") == drawn, (
        "a table has changed: python3 scripts/pictures chart"
    )


def test_each_panel_has_a_pair_of_bars_for_each_kind_of_text():
    coding = ratios.real_pair(ROOT / "BENCHMARKS.md")
    card = ratios.large_file(ROOT / "docs" / "gpu.md")
    assert [kind for kind, _ in coding.rows][:3] == ["all", "agent", "edit"]
    assert [kind for kind, _ in card.rows][:2] == ["all", "code edit"]
    assert {len(bars) for _, bars in (*coding.rows, *card.rows)} == {len(ratios.SIDES)}


def test_the_figures_of_the_readme_are_those_of_the_chart():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    panels = (ratios.real_pair(ROOT / "BENCHMARKS.md"), ratios.large_file(ROOT / "docs/gpu.md"))
    in_all = [f"{dict(panel.rows)['all'][0]:.2f}" for panel in panels]
    assert re.findall(r"\*\*(\d\.\d\d)\*\*", readme) == in_all


def test_pictures_are_well_formed_small_and_ask_no_other_host():
    pictures = list(PICTURES.glob("*.svg"))
    assert pictures
    for picture in pictures:
        source = picture.read_text(encoding="utf-8")
        ElementTree.fromstring(source)
        assert picture.stat().st_size < 1_500_000
        assert "http" not in source.replace("http://www.w3.org/2000/svg", "")
        assert "<script" not in source
