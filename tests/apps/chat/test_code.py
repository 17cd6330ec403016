"""Code in colours."""

from __future__ import annotations

import pytest

from localspec.apps.chat.terminal.code import parts

LONG = "\n".join(
    line
    for at in range(60)
    for line in (f"def part_{at}():", '    """Several', "    lines.", '    """', f"    return {at}")
)


def lines(source: str, language: str = "python") -> list:
    return [line for part in parts(source, language) for line in part]


def text(highlighted: list) -> str:
    return "\n".join("".join(run for run, _ in line) for line in highlighted)


@pytest.mark.parametrize(
    "language", ["python", "js", "bash", "json", "diff", "html", "no such", ""]
)
def test_code_is_what_it_was_whatever_language_it_is_said_to_be(language):
    assert text(lines(LONG, language)) == LONG


@pytest.mark.parametrize("source", ["", "\n", "\n\na\n\n", "a", "a\n", "\ta\n", "x = '''\n" * 80])
def test_no_line_is_added_or_left_out(source):
    expected = source.removesuffix("\n").expandtabs(4)
    assert text(lines(source)) == expected


def test_the_colours_of_a_part_do_not_depend_on_what_follows_it():
    whole = lines(LONG)
    for count in range(1, LONG.count("\n"), 7):
        shorter = "\n".join(LONG.split("\n")[:count])
        *complete, _ = parts(shorter, "python")
        highlighted = [line for part in complete for line in part]
        assert highlighted == whole[: len(highlighted)]


def test_a_part_ends_where_nothing_is_open():
    for part in list(parts(LONG, "python"))[1:]:
        assert part[0][0][0] == "def"


def test_keywords_and_comments_are_told_apart():
    [line] = lines("return 1 # why")
    assert {run: style for run, style in line if run.strip()} == {
        "return": "35",
        "1": "33",
        "# why": "2;3",
    }


def test_a_string_over_many_lines_is_a_string_to_its_end():
    source = "a = 1\n" * 20 + "s = '''\n" + "text\n" * 30 + "'''\n" + "b = 2\n" * 20
    styles = {style for line in lines(source) for run, style in line if run == "text"}
    assert styles == {"32"}
