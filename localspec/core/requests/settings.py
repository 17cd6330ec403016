"""The settings of one reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType

from localspec.base.errors import UsageError
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.formats.grammar.grammar import Grammar
from localspec.formats.thought.form import Thoughts
from localspec.interfaces.adapter import check_scale
from localspec.interfaces.media import Run

MAX_LOGPROBS = 100  # most alternatives reported per token
MAX_BANNED = 1024  # banned strings; lists that people share have up to 500
MAX_BANNED_BYTES = 256  # of one of them
MAX_BANNED_TOTAL = 1 << 15  # bytes of all: each begins in several ways, which takes time to find
MAX_MESSAGE = 1024  # characters of a text that ends a thought


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one reply.

    max_tokens: most tokens of the reply; None, the default: until the context is full
    sampling: how tokens are drawn; greedy by default
    seed: the same one gives the same text; None: another one each time
    stop: texts that end the reply, and are not part of it
    ignore_end: go on where the model would stop
    ends: tokens that end the reply besides
    logprobs: None: none; N: of each token, and of the N most likely in its place
    sampled_logprobs: those are of the distribution that tokens are drawn from, not the model's own
    proposers: the names of those that may draft; None: all; (): plain decoding
    depth: most tokens to draft in a round; 0: plain decoding; None: as many as pay
    prediction: a text that the reply is likely to repeat, in whole or edited
    grammar: what the reply must follow
    marks: control tokens that are to show in the text
    banned_strings: texts that the reply may not have, whether in small letters or in capitals
    adapters: the scale of each of the model's adapters, by number, and of the others 0; None: their
        own
    reasoning_budget: of a chat: most tokens of thought; None or -1: no limit; 0: no thought
    reasoning_budget_message: a text that ends a thought whose budget is spent
    thoughts: of a chat: how the reply shows its thoughts
    media: the pictures and sounds in the prompt
    prompt_logprobs: report log-probabilities of the prompt's tokens but the first, too
    min_tokens: how many come before any token that ends the reply
    reuse_prefix: begin where the KV cache of an earlier text ends, if it is a prefix of the prompt
    ahead: only read the prompt, while nobody waits for a reply; what was read is kept
    judged: tokens whose log-probabilities are reported beside the N most likely, however unlikely
    """

    max_tokens: int | None = None
    sampling: Sampling = GREEDY
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_end: bool = False
    ends: frozenset[int] = frozenset()
    logprobs: int | None = None
    proposers: tuple[str, ...] | None = None
    depth: int | None = None
    prediction: str = ""
    grammar: Grammar | None = None
    marks: frozenset[int] = frozenset()
    banned_strings: tuple[str, ...] = ()
    sampled_logprobs: bool = False
    adapters: Mapping[int, float] | None = None
    reasoning_budget: int | None = None
    reasoning_budget_message: str | None = None
    thoughts: Thoughts | None = None
    media: tuple[Run, ...] = ()
    prompt_logprobs: bool = False
    min_tokens: int = 0
    reuse_prefix: bool = True
    ahead: bool = False
    judged: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self._check_kinds()
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"max_tokens is {self.max_tokens}; it must be at least 1")
        if self.min_tokens < 0:
            raise UsageError(f"min_tokens is {self.min_tokens}; it must be at least 0")
        if self.seed is not None and not 0 <= self.seed < 1 << 64:
            raise UsageError(f"seed is {self.seed}; it must be at least 0 and below 2^64")
        if any(not text for text in self.stop):
            raise UsageError("a stop text is empty; give at least one character")
        if self.logprobs is not None and not 0 <= self.logprobs <= MAX_LOGPROBS:
            raise UsageError(f"logprobs is {self.logprobs}; it must be from 0 to {MAX_LOGPROBS}")
        if self.depth is not None and self.depth < 0:
            raise UsageError(f"depth is {self.depth}; it must be at least 0")
        check_banned(self.banned_strings)
        check_adapters(self.adapters)
        self._check_reasoning()

    def _check_reasoning(self) -> None:
        budget, message = self.reasoning_budget, self.reasoning_budget_message or ""
        if budget is not None and budget < -1:
            raise UsageError(f"reasoning_budget is {budget}; it must be at least -1, no limit")
        if len(message) > MAX_MESSAGE:
            raise UsageError(
                f"reasoning_budget_message has {len(message):,} characters; it may have "
                f"{MAX_MESSAGE:,}: shorten it"
            )
        banned = (text for text in self.banned_strings if text.lower() in message.lower())
        if text := next(banned, ""):
            raise UsageError(
                f"reasoning_budget_message has {text[:40]!r}, one of banned_strings: leave it out "
                "of one of them"
            )

    def _check_kinds(self) -> None:
        """Refuse values of other kinds by name: types are not enforced on callers."""
        whole = {"max_tokens": self.max_tokens, "seed": self.seed}
        check_kind("min_tokens", self.min_tokens, int, "a whole number")
        whole |= {"logprobs": self.logprobs, "depth": self.depth}
        whole |= {"reasoning_budget": self.reasoning_budget}
        for name, number in whole.items():
            check_kind(name, number, (int, NoneType), "a whole number, or None")
        check_kind("sampling", self.sampling, Sampling, "a Sampling, as Sampling(temperature=0.7)")
        check_kind("grammar", self.grammar, (Grammar, NoneType), "a Grammar, or None")
        check_kind("prediction", self.prediction, str, "a text")
        message = self.reasoning_budget_message
        check_kind("reasoning_budget_message", message, (str, NoneType), "a text, or None")
        listed = {"stop": self.stop, "proposers": self.proposers or ()}
        for name, texts in {**listed, "banned_strings": self.banned_strings}.items():
            check_kind(name, texts, tuple, "a tuple of texts")
            for text in texts:
                check_kind(f"one of {name}", text, str, "a text")


def check_kind(name: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise UsageError(f"{name} is {value!r}; it must be {expected}")


def check_adapters(scales: object) -> None:
    """Refuse what are no scales by number."""
    check_kind("adapters", scales, (Mapping, NoneType), "scales by number, or None")
    for number, scale in scales.items() if isinstance(scales, Mapping) else ():
        check_kind("the number of an adapter", number, int, "a whole number")
        check_scale(f"the scale of adapter {number}", scale)


def check_banned(strings: tuple[str, ...]) -> None:
    """Refuse more strings, or longer ones, than there is time to look for."""
    if len(strings) > MAX_BANNED:
        raise UsageError(f"{len(strings):,} strings are banned; there may be {MAX_BANNED:,}")
    sizes = [len(string.encode("utf-8", "replace")) for string in strings]
    if 0 in sizes:
        raise UsageError("a banned string is empty; give at least one character")
    if any(string.encode("utf-8", "replace").decode() != string for string in strings):
        raise UsageError("a banned string is no text: it has half a character in it")
    if max(sizes, default=0) > MAX_BANNED_BYTES:
        most = f"it may have {MAX_BANNED_BYTES}"
        raise UsageError(f"a banned string has {max(sizes):,} bytes; {most}: ban a part of it")
    if sum(sizes) > MAX_BANNED_TOTAL:
        raise UsageError(
            f"the banned strings have {sum(sizes):,} bytes together; they may have "
            f"{MAX_BANNED_TOTAL:,}: ban fewer, or parts of them"
        )


DEFAULT = Settings()
READ_ONLY = Settings(max_tokens=1, ahead=True)
