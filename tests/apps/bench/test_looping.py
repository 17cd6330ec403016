"""Replies that count as loops, and replies that do not."""

from __future__ import annotations

import pytest

from localspec.apps.bench.reply import loops
from tests.apps.bench.invented import reply

UNLIKE = range(1000, 1100)


@pytest.mark.parametrize(
    "text",
    [
        "It began well. " + "And then it rained. " * 5,
        "It began well. " + "And then it rained. " * 5 + "And then",  # cut within
        "\n".join(f"{n}. Always check the temperature twice." for n in range(1, 12)),
        "\n".join(f"  {n}) Always check the temperature twice." for n in range(98, 103)),
        "no " * 40,
        "x" * 60,
    ],
)
def test_text_that_ends_by_repeating_itself_loops(text):
    assert loops(text, UNLIKE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Row, row, row your boat, gently down the stream.",
        "And then it rained. " * 2 + "And then the sun came out and everybody went home again.",
        "And then it rained. " * 8 + "Then it stopped.",
        "Title\n" + "-" * 50,
        "\n".join(f"{n}. {word}" for n, word in enumerate(("cut", "stir", "bake", "cool"))),
        "A refrain of thirty characters.\n" * 2,
        '[{"a": 12.5}, {"a": 13.5}, {"a": 14.5}, {"a": 15.5}, {"a": 16.5}, {"a": 17.5}]',
    ],
)
def test_text_that_does_not_end_so_does_not_loop(text):
    assert not loops(text, UNLIKE)


def test_few_characters_in_many_tokens_loop_too():
    assert loops("#\n#\n", (*range(3), *[3, 4] * 10))
    assert not loops("#\n#\n", (*range(3), *[3, 4] * 9))
    assert not loops("", (*range(30), *range(30)))
    assert loops("", (*range(30), *range(30), *range(30)))


def test_an_end_token_does_not_hide_a_loop():
    assert reply("plain", tokens=(*[3, 4] * 10, 0), finish="stop").looping
    assert not reply("plain", tokens=(*[3, 4] * 10, 1, 2), finish="stop").looping
