"""What a model writes for an option: a label of one token, or else the option's text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice, product
from string import ascii_uppercase

from localspec.base.errors import UsageError
from localspec.base.tokenizer import Tokenizer, encode_within
from localspec.running.runtime.decisions.answer import log_of_sum
from localspec.running.runtime.decisions.question import Question
from localspec.running.runtime.prompting import encode_in_reply

MOST_TOKENS = 64  # of an option's text: each is a place to ask about

Spelling = tuple[int, ...]  # the tokens of a label or text
Nodes = dict[Spelling, tuple[int, ...]]  # what may follow each beginning of a spelling
Judged = Mapping[Spelling, Mapping[int, float]]  # and the log-probability of that


class Labels:
    """Finds labels of one token in a vocabulary. Any thread may call it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokens: dict[str, tuple[int, ...]] = {}

    def letters(self, count: int) -> list[str]:
        """Return labels for so many choices: letters, then pairs of them; fewer: there are none."""
        pairs = map("".join, product(ascii_uppercase, repeat=2))
        usable = (label for label in chain(ascii_uppercase, pairs) if self.tokens(label))
        return list(islice(usable, count))

    def tokens(self, label: str) -> tuple[int, ...]:
        """Return the tokens that are this label alone, with a space before it or without."""
        if label not in self._tokens:
            ways = (encode_within(self._tokenizer, way) for way in (label, f" {label}"))
            self._tokens[label] = tuple({way[0]: None for way in ways if way and len(way) == 1})
        return self._tokens[label]

    def text(self, text: str) -> Spelling:
        return tuple(encode_in_reply(self._tokenizer, text))

    @property
    def ends(self) -> list[int]:
        return sorted(self._tokenizer.ends)


def labels_for(question: Question, order: Sequence[int], labels: Labels) -> list[str]:
    """Return a label for each option, as they are shown in an order; nothing if one is missing."""
    count = len(question.options)
    if question.kind == "choice":
        letters = dict(zip(order, labels.letters(count), strict=False))
        return [letters[at] for at in range(count)] if len(letters) == count else []
    numbers = [str(level) for level in range(count)]
    values = [option.value for option in question.options]
    words = numbers if question.kind == "score" else values
    return words if all(map(labels.tokens, words)) else []


def spellings_of(
    question: Question, option_labels: Sequence[str], labels: Labels
) -> list[list[Spelling]]:
    """Return the tokens that stand for each option: any of its label's, or those of its text."""
    if not option_labels:
        return with_ends([option.value for option in question.options], labels)
    words = [{label} for label in option_labels]
    if question.kind == "predicate":
        words = [{label, label.capitalize()} for label in option_labels]
    return [[(token,) for word in sorted(ways) for token in labels.tokens(word)] for ways in words]


def with_ends(texts: Sequence[str], labels: Labels) -> list[list[Spelling]]:
    """Return the tokens of texts; one that begins another ends where the reply would end."""
    spelled = list(map(labels.text, texts))
    if (longest := max(map(len, spelled))) > MOST_TOKENS:
        raise UsageError(
            f"there are no labels of one token for {len(texts)} options, and the text of one has "
            f"{longest:,} tokens; it may have {MOST_TOKENS}: shorten it"
        )
    begun = {text[:end] for text in spelled for end in range(len(text))}
    ended = [[(*text, end) for end in labels.ends if text in begun] for text in spelled]
    return [ways or [text] for ways, text in zip(ended, spelled, strict=True)]


def nodes_of(spellings: Iterable[Sequence[Spelling]]) -> Nodes:
    """Return all beginnings of spellings, each with the tokens that go on from there."""
    nodes: dict[Spelling, set[int]] = {}
    for spelling in chain.from_iterable(spellings):
        for at, token in enumerate(spelling):
            nodes.setdefault(spelling[:at], set()).add(token)
    return {node: tuple(sorted(tokens)) for node, tokens in nodes.items()}


def logprob(ways: Sequence[Spelling], judged: Judged) -> float:
    """Return the log-probability that the model writes any of an option's spellings."""
    return log_of_sum(sum(judged[way[:at]][token] for at, token in enumerate(way)) for way in ways)
