"""Text in the colours of those who guessed it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from localspec.apps.chat.terminal.coloured import NAMES, THOUGHT, Coloured, legend
from localspec.apps.chat.terminal.ink import Ink, bare
from localspec.core.requests.figures import TARGET

SOURCES = (TARGET, "draft-model", "ngram", "suffix", "prediction", "forced", "mtp")


def test_each_source_has_a_colour_of_its_own():
    shown = Coloured(Ink(colours=True))
    for by in SOURCES:
        shown.add("word ", [(5, by)])
    [line], _ = shown.lines(80, final=True)
    codes = [part.partition("m")[0] for part in line.split("\x1b[")[1:] if part[0] != "0"]
    assert line.startswith("word ")
    assert len(codes) == len({*codes}) == len(SOURCES) - 1


@given(
    st.lists(st.text("ab \n\r\t\x1b中", max_size=6), max_size=8),
    st.sampled_from([9, 20, 80]),
)
def test_what_comes_in_pieces_is_shown_as_it_is_at_once(pieces, width):
    streamed, whole = Coloured(Ink(colours=True)), Coloured(Ink(colours=True))
    settled: list[str] = []
    for piece in pieces:
        streamed.add(piece, [(len(piece), "ngram")])
        settled += streamed.lines(width)[0]
    settled += streamed.lines(width, final=True)[0]
    text = "".join(pieces)
    whole.add(text, [(len(text), "ngram")])
    expected, _ = whole.lines(width, final=True)
    assert [*map(bare, settled)] == [*map(bare, expected)]
    assert not any("\x1b" in bare(line) for line in settled)


def test_spans_that_do_not_cover_a_text_leave_the_rest_without_a_colour():
    shown = Coloured(Ink(colours=True))
    shown.add("abc", [(2, "ngram")])
    assert shown.lines(80, final=True)[0] == ["\x1b[33mab\x1b[0mc"]


def test_without_colours_thoughts_are_still_faint():
    shown = Coloured(Ink(colours=False), THOUGHT)
    shown.add("well", [(4, "ngram")])
    assert shown.lines(80, final=True)[0] == ["\x1b[2;3mwell\x1b[0m"]


def test_the_legend_names_all_who_spoke_also_where_it_takes_several_lines():
    for width in (20, 80):
        console = Console(width=width, force_terminal=True, color_system="standard")
        with console.capture() as captured:
            console.print(legend(dict.fromkeys(SOURCES, 3)))
        lines = [bare(line) for line in captured.get().splitlines()]
        assert all(len(line) <= width for line in lines)
        text = " ".join(" ".join(lines).split())
        assert all(NAMES.get(by, by) in text for by in SOURCES)
        assert "\x1b[31m" in captured.get()
