"""Markdown that streams in is shown as it would be all at once, and all of it can be read."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.apps.chat.terminal.canvas import Canvas
from localspec.apps.chat.terminal.ink import Ink, bare, cells
from localspec.apps.chat.terminal.prose import Prose
from tests.apps.chat.terminal import Terminal

# fmt: off
BITS = (
    "a", "word ", "*", "**", "_", "`", "```", "````", "~~~", "~~", "```py\n", "x = 1\n", "'''\n",
    "- ", "* ", "+ ", "1. ", "2) ", "10. ", "[ ] ", "# ", "## ", "#", "-", "> ", ">", "===\n",
    "---\n", "***\n", "\n", "\n", "\n\n", "\n\n", "\r\n", "\r", "  ", "    ", "\t", "    code\n",
    "\\", ":", "|", "| a | b |\n", "|---|---|\n", "|:-:|\n", "|x|y|z|\n", "[x](y)", "[x]: y\n",
    "![i](s)", "[", "]", "(", ")", "<b>", "<div>\n", "<!-- c -->", "<http://x%1b>", "&amp;",
    "&#27;", "/*", "中文", "，", "👨\u200d👩\u200d👧", "e\u0301", "longlonglonglonglonglong",  # noqa: RUF001
    "\x1b[2J", "\x9b1A", "\u202e", "\u2028", "\x85", "\x0c", "\x00", "\ud800",
)
# fmt: on
TEXTS = st.lists(st.sampled_from(BITS), min_size=1, max_size=40).map("".join)
SIZES = st.sampled_from([10, 11, 20, 30, 80, 200])


def show(text: str, columns: int, rows: int, cuts: Sequence[int] = ()) -> tuple[list[str], int]:
    """Return what a terminal shows in the end, and the most open lines there were."""
    terminal = Terminal(columns, rows)
    canvas, prose = Canvas(terminal, lambda: terminal.size), Prose(Ink(colours=True))
    tallest = at = 0
    for cut in cuts:
        prose.add(text[at:cut])
        settled, open_ = prose.lines(columns - 1)
        canvas.draw(settled, open_)
        tallest, at = max(tallest, len(open_)), cut
    prose.add(text[at:])
    settled, _ = prose.lines(columns - 1, final=True)
    canvas.draw(settled)
    return terminal.text, tallest


def letters(text: str) -> Counter[str]:
    return Counter(filter(str.isalnum, unicodedata.normalize("NFC", text)))


@settings(max_examples=60)
@given(text=TEXTS, columns=SIZES, rows=st.sampled_from([3, 4, 5]), data=st.data())
def test_a_text_cut_anywhere_is_shown_as_it_is_at_once(text, columns, rows, data):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=10)))
    whole, _ = show(text, columns, 100)
    streamed, _ = show(text, columns, 100, cuts)
    assert streamed == whole
    small, tallest = show(text, columns, rows, cuts)
    assert small == whole or tallest > rows
    assert letters("".join(small)) >= letters("".join(whole))


@settings(max_examples=100)
@given(text=TEXTS, columns=SIZES)
def test_nothing_that_was_said_is_hidden_and_no_line_is_too_wide(text, columns):
    prose = Prose(Ink(colours=False))
    prose.add(text)
    lines, _ = prose.lines(columns - 1, final=True)
    assert all(cells(bare(line)) < columns for line in lines)
    assert letters(bare("".join(lines))) >= letters(text.replace("\ud800", ""))
    shown = bare("".join(lines))
    assert not {*shown} & {"\x1b", "\x9b", "\r", "\n", "\t", "\x00", "\u202e", "\ud800"}


def long_text(kind: str, rng: random.Random, count: int = 90) -> str:
    words = [f"word{at} " + "more " * rng.randrange(12) for at in range(count)]
    match kind:
        case "code":
            code = ("def f{0}(x):", "    return '''a", "b''' # {0}", "", "{0}) # {0}")
            return "\n".join(
                ["```py", *(code[at % 5].format(at) for at in range(3 * count)), "```"]
            )
        case "table":
            rows = (f"| {word} | {'z' * rng.randrange(9)}{word[:6]} |" for word in words)
            return "\n".join(["| a | b |", "|---|--:|", *rows])
        case "list":
            return "\n".join(f"{at}. {word}" for at, word in enumerate(words, start=1))
        case "nested list":
            return "\n".join("  " * rng.randrange(3) + f"- {word}" for word in words)
        case "quote":
            return "\n".join(f"> {word}" for word in words)
    marks = ("*{}", "{}*", "**{}", "{}**", "`{}`", "{}", "[{}](where)")
    return " ".join(rng.choice(marks).format(word) for word in words)


KINDS = ("code", "table", "list", "nested list", "quote", "paragraph")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (24, 5), (200, 60)])
def test_nothing_is_lost_of_what_is_taller_than_the_screen(kind, columns, rows):
    rng = random.Random(columns)
    text = long_text(kind, rng)
    whole, _ = show(text, columns, 60)
    streamed, tallest = show(text, columns, rows, sorted(rng.sample(range(len(text)), 40)))
    assert letters("".join(streamed)) >= letters("".join(whole))
    assert len(streamed) <= len(whole) + rows
    if tallest <= rows:
        assert streamed == whole


@pytest.mark.parametrize("kind", ["code", "table", "list"])
def test_long_blocks_are_settled_part_by_part_and_in_the_same_colours(kind):
    text = long_text(kind, random.Random(1))
    streaming, whole = Prose(Ink(colours=True)), Prose(Ink(colours=True))
    whole.add(text)
    settled: list[str] = []
    for line in text.splitlines(keepends=True):
        streaming.add(line)
        more, open_ = streaming.lines(60)
        settled += more
        assert len(open_) < 120
    assert settled + streaming.lines(60, final=True)[0] == whole.lines(60, final=True)[0]


def shown(text: str, width: int = 60) -> list[str]:
    prose = Prose(Ink(colours=False))
    prose.add(text)
    return [bare(line) for line in prose.lines(width, final=True)[0]]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("#", ["#"]),
        ("-", ["•"]),
        ("|", ["|"]),
        ("one\ntwo", ["one", "two"]),
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("Title\n=====\ntext", ["Title", "", "text"]),
        ('[a]: http://x "T"\n\n[a]', ['[a]: http://x "T"', "", "[a]"]),
        ('[text](http://x "T")', ['text (http://x "T")']),
        ("[http://x](http://x)", ["http://x"]),
        ("![alt](a.png)", ["![alt](a.png)"]),
        ("<b>x</b> &lt; &#27;[2J", ["<b>x</b> &lt; &#27;[2J"]),
        ("\\(x\\) \\*y\\* a\\_b", ["\\(x\\) *y* a_b"]),
        ("7. a\n9. b\n   - c", ["7. a", "9. b", "   • c"]),
        ("- a\n\n- b", ["• a", "", "• b"]),
        ("> a\n>\n> b", ["│ a", "│", "│ b"]),
        ("```py\na\n\nb", ["```py", "a", "", "b"]),
        ("````\n```\nx\n```\n````\nend", ["````", "```", "x", "```", "````", "", "end"]),
        ("~~~\na\n~~~", ["~~~", "a", "~~~"]),
        ("- a\n  ```\n  b\n  ```", ["• a", "  ```", "  b", "  ```"]),
        ("a|b\n-|-:\n1|22\n3|4|5|6", ["a │      b", "──┼───────", "1 │     22", "3 │ 4 |5|6"]),
        ("use `x|y` now", ["use `x|y` now"]),
        ("\x1b[31mred\x07 \u202eback", ["␛[31mred␇ �back"]),
    ],
)
def test_what_is_said_is_shown(text, lines):
    assert shown(text) == [line.rstrip() for line in lines]


def test_a_table_without_room_for_its_columns_is_a_list_of_cells():
    text = "|Name|Value|Where|\n|-|-|-|\n|alpha|12345678|somewhere|\n|beta|2|there|"
    assert shown(text, 15) == [
        "Name: alpha",
        "Value: 12345678",
        "Where:",
        "somewhere",
        "──────",
        "Name: beta",
        "Value: 2",
        "Where: there",
    ]


def test_what_lies_too_deep_is_shown_as_it_was_written():
    assert "deep" in "".join(shown(">" * 500 + " deep"))
    assert "deep" in "".join(shown("- " * 500 + "deep"))


def test_chinese_breaks_between_characters_but_not_before_a_full_stop():
    assert shown("一二三四五六，七八", 12) == ["一二三四五", "六，七八"]  # noqa: RUF001


@pytest.mark.parametrize("width", [79, 200])
def test_text_in_styles_goes_on_with_them_on_the_next_line(width):
    prose = Prose(Ink(colours=True))
    prose.add("**" + "bold " * 60 + "end**")
    lines, _ = prose.lines(width, final=True)
    assert all(line.startswith("\x1b[1m") and line.endswith("\x1b[0m") for line in lines)


def test_a_wide_cell_far_down_does_not_move_the_columns_above_it():
    rows = [f"| {at} | {'far ' * 9 if at == 50 else 'x'} |\n" for at in range(60)]
    text = "".join(["| a | b |\n", "|---|---|\n", *rows])
    cuts = [at + 1 for at, character in enumerate(text) if character == "\n"]
    assert show(text, 80, 100, cuts)[0] == show(text, 80, 100)[0]
