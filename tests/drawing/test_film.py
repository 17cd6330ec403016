"""The moving picture of the README: recordings of a terminal."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from drawing.film import REST, Frame, Pane, Run, draw

ASKED = (Run(0, "> hi", "default", False),)
FIRST = (Run(0, "Hel", "cyan", False),)
WHOLE = (Run(0, "Hello", "cyan", False), Run(6, "<you>", "default", True))
FRAMES = [Frame(0.0, (ASKED, ())), Frame(1.0, (ASKED, FIRST)), Frame(3.0, (ASKED, WHOLE))]


def times(picture: str, pane: int) -> list[float]:
    rule = re.search(rf"@keyframes move{pane} {{ (.*?)}} }} ", picture)
    return [float(time) for time in re.findall(r"([\d.]+)% {", rule[1] if rule else "")]


def test_frames_come_at_the_times_at_which_they_were_seen():
    picture = draw([Pane("fast", FRAMES)], "")
    share = 100 / (3.0 + REST)
    assert times(picture, 0) == pytest.approx([0, share, 3 * share, 100], abs=0.01)


def test_panes_share_one_clock():
    slow = [FRAMES[0], Frame(6.0, FRAMES[-1].rows)]
    picture = draw([Pane("fast", FRAMES), Pane("slow", slow)], "")
    share = 100 / (6.0 + REST)
    assert times(picture, 0) == pytest.approx([0, share, 3 * share, 100], abs=0.01)
    assert times(picture, 1) == pytest.approx([0, 6 * share, 100], abs=0.01)


def test_rows_that_frames_share_are_drawn_once():
    picture = draw([Pane("fast", FRAMES), Pane("again", FRAMES)], "")
    assert picture.count("&gt; hi") == 1
    assert picture.count('href="#r0"') == 6


def test_whoever_wants_less_motion_sees_the_end():
    picture = draw([Pane("fast", FRAMES)], "")
    still = re.search(r"reduced-motion: reduce\) { (.*?) } }", picture)
    assert still
    assert "animation: none; transform: translateY(-68px)" in still[1]


def test_a_preview_has_text_whether_it_moves_or_not():
    picture = draw([Pane("fast", FRAMES)], "")
    strip = re.search(r"\.strip0 { (.*?); animation: (.*?) }", picture)
    assert strip
    assert strip[1] == "transform: translateY(-68px)"  # the last frame, where nothing moves
    assert strip[2] == "move0 8.00s step-end -6.00s infinite"  # from a moment after it came
    shown = (Path(__file__).parents[2] / "docs" / "pictures" / "chat.svg").read_text("utf-8")
    assert re.search(
        r"\.strip0 { transform: translateY\(-\d+px\); animation: .* -[\d.]+s inf", shown
    )


def test_text_of_a_terminal_is_no_markup():
    root = ElementTree.fromstring(draw([Pane("<b>", FRAMES)], "a & b"))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"<b>", "a & b", "<you>"} <= set(texts)
