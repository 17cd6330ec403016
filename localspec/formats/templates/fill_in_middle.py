"""Fill-in-the-middle prompts: ask for the text between two others, by the model's own tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from localspec.base.errors import UsageError
from localspec.base.tokenizer import LONG_TOKEN, Infill, Tokenizer

CUT = 1 << 16  # characters by which a prefix is cut before that
STEP = 256  # tokens by which a prefix is cut: its beginning stays the same while someone types
PROJECT, CURRENT = "project", "current"  # names where none are given


class Family(NamedTuple):
    """The texts of tokens that a family of models was trained with."""

    prefix: str
    suffix: str
    middle: str | None
    suffix_first: bool = False


FAMILIES = (
    Family("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    Family("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    Family("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    Family("<\uff5cfim▁begin\uff5c>", "<\uff5cfim▁hole\uff5c>", "<\uff5cfim▁end\uff5c>"),
    Family("▁<PRE>", "▁<SUF>", "▁<MID>"),
    Family("<PRE>", "<SUF>", "<MID>"),
    Family("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),
    Family("<|prefix|>", "<|suffix|>", "<|middle|>"),
    Family("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", suffix_first=True),
    Family("[PREFIX]", "[SUFFIX]", None, suffix_first=True),
)
SEPARATORS = ("<|file_sep|>", "<file_sep>", "<|file_separator|>", "<filename>")
REPOSITORIES = (
    "<|repo_name|>",
    "<|fim_repo|>",
    "<repo_name>",
    "<fim-repo>",
    "<reponame>",
    "<REPO>",
)
# Say that a middle is over, or that there is none.
MIDDLE_ENDS = (
    *("<|fim_pad|>", "<fim_pad>", "<fim-pad>", "<PAD>", "[PAD]"),
    *("▁<EOT>", "<EOT>", "[MIDDLE]"),
)
Ids = tuple[int, int, int | None, bool]


def is_filled_in(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a text has tokens for filling in already, as some editors write them.

    They ask for a middle, or for a window of a file anew: then with files alone, the last begun.
    """
    marks = tokenizer.infill
    if marks is None:
        return False
    if all(tokenizer.token_text(mark) in text for mark in (marks.prefix, marks.suffix)):
        return True
    begins = [mark for mark in (marks.separator, marks.repository) if mark is not None]
    return any(text.startswith(tokenizer.token_text(mark)) for mark in begins)


def infill_tokens(id_of: Callable[[str], int | None], named: Mapping[str, int]) -> Infill | None:
    """Find the tokens for filling in: those that a model file names, or else by their texts."""
    ids = _ids_by_name(named) or _by_texts(id_of)
    if ids is None:
        return None
    separator = named.get("separator", _first(id_of, SEPARATORS))
    repository = named.get("repository", _first(id_of, REPOSITORIES))
    by_text = map(id_of, (*SEPARATORS, *REPOSITORIES, *MIDDLE_ENDS))
    ends = frozenset(token for token in (*ids[:3], *named.values(), *by_text) if token is not None)
    return Infill(*ids, separator, repository, ends)


def _ids_by_name(named: Mapping[str, int]) -> Ids | None:
    if not named.keys() >= {"prefix", "suffix", "middle"}:
        return None
    return named["prefix"], named["suffix"], named["middle"], False


def _by_texts(id_of: Callable[[str], int | None]) -> Ids | None:
    for family in FAMILIES:
        prefix, suffix = id_of(family.prefix), id_of(family.suffix)
        middle = id_of(family.middle) if family.middle else None
        complete = middle is not None or family.middle is None
        if prefix is not None and suffix is not None and complete:
            return prefix, suffix, middle, family.suffix_first
    return None


def _first(id_of: Callable[[str], int | None], texts: Sequence[str]) -> int | None:
    return next((token for text in texts if (token := id_of(text)) is not None), None)


def middle(
    tokenizer: Tokenizer,
    prefix: str,
    suffix: str,
    extra: Sequence[tuple[str, str]] = (),
    prompt: str = "",
    limit: int | None = None,
) -> list[int]:
    """Return the tokens that ask for the text between prefix and suffix, at most `limit` of them.

    `prompt` ends the prefix. `extra` are other files, by name and text, the most telling last:
    where room is short, the first are left out, then what is far from the middle.
    """
    marks = tokenizer.infill
    if marks is None:
        raise UsageError(
            "this model has no tokens to fill in a middle by: load one trained for it, a coder"
        )
    start = [tokenizer.bos] if tokenizer.starts and tokenizer.bos is not None else []
    prefix += prompt
    if limit is not None:  # what is so far away that it cannot be kept takes no time
        far = max(len(prefix) - limit * LONG_TOKEN, 0)
        prefix, suffix = prefix[far // CUT * CUT :], suffix[: limit * LONG_TOKEN]
    before = tokenizer.encode(prefix).tolist()
    after = _going_on(tokenizer, suffix)
    end = [] if marks.middle is None else [marks.middle]
    if limit is not None:
        before, after = _cut(before, after, limit - len(start) - 2 - len(end))
    parts = [[marks.prefix, *before], [marks.suffix, *after]]
    ask = [*chain(*(reversed(parts) if marks.suffix_first else parts)), *end]
    budget = math.inf if limit is None else limit - len(start) - len(ask)
    return [*start, *_files(tokenizer, marks, extra, budget), *ask]


def _going_on(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokens of a text that follows another: without the space that some put first."""
    tokens: list[int] = tokenizer.encode(text).tolist()
    if b"".join(map(tokenizer.token_bytes, tokens)) == b" " + text.encode("utf-8", "replace"):
        other = tokenizer.encode("\n").tolist()
        joined: list[int] = tokenizer.encode("\n" + text).tolist()
        if joined[: len(other)] == other:
            return joined[len(other) :]
    return tokens


def _cut(before: list[int], after: list[int], limit: int) -> tuple[list[int], list[int]]:
    """Keep the text nearest to the middle; of two long ones, three quarters are the prefix."""
    if limit < 1:
        raise UsageError(
            f"there is room for {max(limit, 0)} tokens of text around the middle: allow more"
        )
    most = limit - min(len(after), limit // 4)
    if len(before) > most:
        step = min(STEP, max(1, most // 4))
        before = before[-(-(len(before) - most) // step) * step :]
    return before, after[: limit - len(before)]


def _files(
    tokenizer: Tokenizer, marks: Infill, extra: Sequence[tuple[str, str]], budget: float
) -> list[int]:
    """Return the last other files that fit, and the header of the current one."""

    def tokens_of(mark: int | None, content: str) -> list[int]:
        return [*([] if mark is None else [mark]), *tokenizer.encode(content).tolist()]

    separator, repository = marks.separator, marks.repository
    named = separator is not None and repository is not None
    first = tokens_of(repository, f"{PROJECT}\n") if named else []
    last = [] if separator is None else tokens_of(separator, f"{CURRENT}\n")
    budget -= len(first) + len(last)
    chosen: list[list[int]] = []
    for name, content in reversed(extra):
        if len(content) > budget * LONG_TOKEN:
            break
        file = tokens_of(separator, f"{name}\n{content}\n")
        budget -= len(file)
        if budget < 0:
            break
        chosen.insert(0, file)
    return [*first, *chain(*chosen), *last] if chosen else []
