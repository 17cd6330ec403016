"""The page, its drawings, and the picture."""

from __future__ import annotations

import re
import xml.etree.ElementTree as xml
from html.parser import HTMLParser

import pytest

from localspec.bench import charts, picture
from localspec.bench.page import page
from localspec.bench.report import report
from localspec.errors import UsageError
from tests.bench.invented import MODES, PLAIN_ROUND, prompt, reply, run

HEADING = (("command", "localspec bench <MODEL> & more"), ("model", "tiny, Q4_1"))
VOID = ("meta", "br", "hr", "img", "link", "input")


class Tags(HTMLParser):
    """The tags of a page; each must be closed where it should be."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture
def shown():
    return page(report(HEADING, MODES, run()))


def drawings(shown):
    return [xml.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", shown)]


def test_a_page_is_well_formed_and_needs_nothing_from_elsewhere(shown):
    tags = Tags(shown)
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in tags.seen}
    assert not any({"src", "href"} & attrs.keys() for _, attrs in tags.seen)
    assert "url(" not in shown
    assert "@import" not in shown
    assert "http" not in shown


def test_a_page_has_light_and_dark_colours_for_every_mark(shown):
    light, dark = shown.split("prefers-color-scheme: dark")
    for number in range(1, charts.COLOURS + 1):
        assert f"--c{number}:" in light
        assert f"--c{number}:" in dark
        assert f".c{number}{{fill:var(--c{number})" in shown


def test_what_replies_and_names_hold_is_shown_and_not_obeyed():
    asked = prompt("<i>chat</i>")
    text = "</pre><script>alert(1)</script>"
    replies = [reply(mode, PLAIN_ROUND, asked=asked, text=text) for mode in MODES]
    shown = page(report(HEADING, MODES, replies))
    tags = Tags(shown)
    assert not {"script", "i"} & {tag for tag, attrs in tags.seen if "class" not in attrs}
    words = "".join(tags.words)
    assert text in words
    assert "<i>chat</i> 1" in words
    assert "localspec bench <MODEL> & more" in words


def test_a_page_shows_every_table_and_tells_which_replies_loop_or_differ(shown):
    words = " ".join(Tags(shown).words)
    for expected in ("Speed", "Drafts", "Theory", "all without loops: 2 replies", "207.1"):
        assert expected in words
    assert "chat 2; 16 tokens; looping" in words
    assert "edit 1; 7 tokens; said otherwise by ngram:4" in words
    assert words.count("said otherwise") == 1


def test_every_drawing_is_a_picture_in_itself_and_nothing_leaves_its_frame(shown):
    found = drawings(shown)
    assert len(found) == 5
    for drawing in found:
        _, _, width, height = map(float, drawing.get("viewBox").split())
        for element in drawing.iter():
            for name, most in (("x", width), ("cx", width), ("x1", width), ("x2", width)):
                assert 0 <= float(element.get(name, 0)) <= most
            for name, most in (("y", height), ("cy", height), ("y1", height), ("y2", height)):
                assert 0 <= float(element.get(name, 0)) <= most


def test_each_prompt_is_a_dot_and_each_median_a_bar(shown):
    strip = drawings(shown)[0]
    dots = [e for e in strip.iter("circle") if "dot" in e.get("class")]
    assert len(dots) == 2 + 1 + 3 + 2  # of chat, edit, all and all without loops
    assert len(list(strip.iter("rect"))) == 4
    [one] = [e for e in strip.iter("line") if e.get("class") == "one"]
    assert all(float(dot.get("cx")) > float(one.get("x1")) for dot in dots)
    assert [e.text for e in strip.iter("text") if e.text in ("2.25", "1.50", "2.00")]


def test_marks_stand_where_their_values_are():
    scale = charts.Scale(0.5, 2.5, 100, 500)
    assert [scale(value) for value in (0.5, 1, 2.5)] == [100, 200, 500]
    assert list(scale.ticks()) == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert list(charts.Scale(0, 13, 0, 1).ticks()) == [0, 2, 4, 6, 8, 10, 12]


@pytest.mark.parametrize("high", [0.0007, 0.2, 1.2, 3.9, 8, 51, 999])
def test_axes_have_a_few_ticks(high):
    assert 4 <= len(list(charts.Scale(0, high, 0, 1).ticks())) <= 10


def test_plain_is_grey_and_other_modes_have_colours_of_their_own():
    modes = ("plain", "auto", "ngram:4")
    assert [charts.colour(modes, mode) for mode in modes] == ["c0", "c1", "c2"]


def test_a_page_of_nothing_is_still_a_page():
    assert "No prompt was answered" in page(report(HEADING, MODES, run()[:1]))


def test_a_page_of_replies_without_drafts_or_speed_is_still_a_page():
    for rounds in ([], [PLAIN_ROUND]):
        shown = page(report(HEADING, MODES, [reply(mode, *rounds) for mode in MODES]))
        assert len(drawings(shown)) == 5
        Tags(shown)


def test_a_picture_needs_its_extra():
    with pytest.raises(UsageError, match=r'pip install "localspec\[plots\]"'):
        picture.require(find=lambda name: None)


@pytest.mark.parametrize("replies", [run(), run()[:1], [reply(m, PLAIN_ROUND) for m in MODES]])
def test_a_picture_is_drawn_of_whatever_there_is(tmp_path, replies):
    pytest.importorskip("matplotlib", reason="the extra `plots` is not installed")
    picture.draw(report(HEADING, MODES, replies), tmp_path / "figures.png")
    assert (tmp_path / "figures.png").read_bytes().startswith(b"\x89PNG")
