"""Replies that repeat themselves until they are cut, and others that only look alike."""

from __future__ import annotations

import json
import re

import pytest

from localspec.running.runtime.repetition import is_repetitive

INTRODUCTION = "Here is what I know of rivers, and I will be as brief as I can: "
SENTENCE = "The river is long and wide, and it flows into the sea. "
PARAGRAPH = " ".join(f"Sentence {at} is about the river number {at * at}." for at in range(8))


def tokens(text):
    """Read a text as words, numbers by their digits and signs."""
    seen: dict[str, int] = {}
    return [seen.setdefault(word, len(seen)) for word in re.findall(r"[A-Za-z]+|\s+|.", text)]


@pytest.mark.parametrize(
    "text",
    [
        INTRODUCTION + SENTENCE * 40,
        INTRODUCTION + f"{PARAGRAPH}\n\n" * 20,
        INTRODUCTION + "no, " * 300,
        PARAGRAPH * 7,
        INTRODUCTION + "a" * 30 + "=" * 600,
        INTRODUCTION * 4 + f"- {SENTENCE}\n" * 40 + f"- {SENTENCE}"[:20],  # cut in mid-line
    ],
)
def test_a_reply_that_goes_round_in_a_loop_is_found(text):
    assert is_repetitive(tokens(text))


@pytest.mark.parametrize(
    "text",
    [
        INTRODUCTION + "\n".join(f"{at}. {SENTENCE}" for at in range(1, 60)),
        "\n".join(f"| {at} | {at * at} | yes |" for at in range(200)),
        json.dumps([{"id": at, "name": "x", "size": 0, "tags": []} for at in range(120)]),
        "\n".join(f"    elif name == 'case{at}':\n        return {at}" for at in range(120)),
        "def board():\n"
        + "    x = f(y)\n" * 12
        + "\n".join(f"    place({at}, {at + 1})" for at in range(80)),
        "".join(f"row{at} = [0, 0, 0, 0, 0, 0, 0, 0]\n" for at in range(80)),
        PARAGRAPH * 5,
        SENTENCE * 2,
        "no, " * 40,
        "",
    ],
)
def test_lists_tables_and_code_are_none(text):
    whole = tokens(text)
    assert not any(is_repetitive(whole[:end]) for end in (*range(0, len(whole), 97), len(whole)))


def test_a_reply_that_ended_by_itself_is_none():
    end_token = -1
    assert not is_repetitive([*tokens(INTRODUCTION + SENTENCE * 40), end_token])


def test_a_matrix_of_zeros_within_a_program_is_none():
    before = "\n".join(f"    place({at}, {at + 1})" for at in range(80))
    assert not is_repetitive(tokens(before + "[0, 0, 0, 0],\n" * 30))
