"""Limits of a tokenizer.json, beyond which the tokenizers library hangs or crashes.

It is refused before the library sees it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from localspec_mlx.folder.files import Object, refuse
from localspec_mlx.folder.spelling import PARTS, replacement, steps
from localspec_mlx.folder.vocabulary import Added

MOST_STEPS = 32  # of a part; the most seen are 8
MOST_GROWTH = 4096  # times, by all replacements together
# Of a regular expression. Compiling nests with brackets: 1,000 overflow a stack of 512 KiB.
MOST_LETTERS = 8192
MOST_BRACKETS = 256
# Of a unigram model. A piece is freed by as many calls as it has bytes, one within the other:
# 16,000 overflow a stack of 512 KiB. Each byte of all takes about 300 in memory.
LONGEST_PIECE = 4096
MOST_PIECES = 6 << 20
MOST_ADDED = 2 << 20  # letters of all added tokens; each takes about 110 bytes, and 1 us


def check(path: Path, data: Object, added: Mapping[int, Added]) -> None:
    for part in PARTS:
        part_steps = steps(path, data, part)
        _at_most(path, MOST_STEPS, len(part_steps), f"steps in its {part}")
        for step in part_steps:
            _check_expression(path, step.get("pattern"))
    growth = math.prod(_growth(step) for step in steps(path, data, "normalizer"))
    _at_most(path, MOST_GROWTH, growth, "times the letters of a text in what it makes of it")
    kinds = [step.get("type") for step in steps(path, data, "post_processor")]
    _at_most(path, 1, kinds.count("TemplateProcessing"), "templates for a text")
    check_added(path, added)
    model = data.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, list):
        _check_pieces(path, vocabulary)


def check_added(path: Path, added: Mapping[int, Added]) -> None:
    letters = sum(len(token.content) for token in added.values())
    _at_most(path, MOST_ADDED, letters, "letters in its added tokens")


def _check_expression(path: Path, pattern: object) -> None:
    text = pattern.get("Regex") if isinstance(pattern, dict) else None
    if isinstance(text, str):
        _at_most(path, MOST_LETTERS, len(text), "letters in a regular expression")
        brackets = text.count("(") + text.count("[")
        _at_most(path, MOST_BRACKETS, brackets, "brackets in a regular expression")


def _growth(step: Object) -> float:
    """Bound how many times as long a text may become."""
    if step.get("type") != "Replace":
        return 1.0
    pattern, content = replacement(step)
    longer = len(content) / len(pattern) if pattern else 1 + len(content)
    return max(1.0, longer)


def _check_pieces(path: Path, vocabulary: Iterable[object]) -> None:
    pieces = [piece[0] for piece in vocabulary if isinstance(piece, list) and piece]
    texts = [piece for piece in pieces if isinstance(piece, str)]
    sizes = [len(text.encode("utf-8", "surrogatepass")) for text in texts]
    _at_most(path, LONGEST_PIECE, max(sizes, default=0), "bytes in a token")
    _at_most(path, MOST_PIECES, sum(sizes), "bytes in its tokens")


def _at_most(path: Path, most: int, count: float, items: str) -> None:
    if count > most:
        refuse(path, f"has {count:,.0f} {items}; {most:,} are the most that are taken")
