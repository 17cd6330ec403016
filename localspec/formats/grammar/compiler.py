"""Compile grammars against a model's vocabulary, by llguidance."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from localspec.base.errors import UsageError
from localspec.base.tokenizer import Tokenizer, encode_within
from localspec.formats.grammar.compile_child import DEEPER_BYTES, limits, on_stack
from localspec.formats.grammar.compile_trial import fault, is_quick
from localspec.formats.grammar.constraint import Constraint
from localspec.formats.grammar.grammar import LAYOUT, Grammar

if TYPE_CHECKING:
    import llguidance

CONTROL = b"\xff"  # marks a control token for llguidance, before its text
MAX_FORCED_CHARACTERS = (
    1024  # characters of a forced text that are tokenised, of which the first tokens count
)
MAX_ERROR = 300  # characters of an error


class Lexicon:
    """Compiles grammars; built when the first one is. Any thread may call it.

    Compiling takes up to some seconds. Other threads go on: llguidance releases Python's lock.
    `clock` returns the processor time of the calling thread.
    """

    def __init__(self, tokenizer: Tokenizer, clock: Callable[[], float] = time.thread_time) -> None:
        self._tokenizer = tokenizer
        self._clock = clock
        self._lock = threading.Lock()
        self._built: llguidance.LLTokenizer | None = None

    def constraint(self, grammar: Grammar, ends: frozenset[int]) -> Constraint:
        """Compile a grammar; the reply may end by any of `ends` where it is complete."""
        source = _source(grammar)
        quick = grammar.kind == "json_object" or (
            grammar.kind == "json_schema" and is_quick(grammar.text)
        )
        if not quick and (why := fault(source)):
            raise _refusal(grammar, why)
        matcher = self._compile(source)
        if matcher.is_error():
            raise _refusal(grammar, matcher.get_error())
        try:
            constraint = Constraint(matcher, self._tokenizer.size, ends, self._clock)
        except UsageError as error:
            raise _refusal(grammar, str(error)) from error
        if constraint.over(()):
            raise _refusal(grammar, "it leaves nothing to say")
        return constraint

    def _compile(self, source: str) -> llguidance.LLMatcher:
        import llguidance  # takes 20 ms, and few replies need it

        words = self._vocabulary()
        matchers: list[llguidance.LLMatcher] = []

        def compile_grammar() -> None:
            matchers.append(llguidance.LLMatcher(words, source, log_level=0, limits=limits()))

        on_stack(DEEPER_BYTES, compile_grammar)
        return matchers[0]

    def _vocabulary(self) -> llguidance.LLTokenizer:
        import llguidance

        with self._lock:
            if self._built is None:
                tokens = llguidance.TokenizerWrapper(GrammarTokens(self._tokenizer))
                self._built = llguidance.LLTokenizer(tokens)
            return self._built


class GrammarTokens:
    """The interface of a tokenizer that llguidance asks for.

    It names no end token, so that llguidance adds one of its own: a model may have several.
    """

    eos_token_id = None
    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.tokens = [
            tokenizer.token_bytes(token)
            or CONTROL + tokenizer.token_text(token).encode("utf-8", "replace")
            for token in range(tokenizer.size)
        ]
        self._letters = {word: token for token, word in enumerate(self.tokens) if len(word) == 1}

    def __call__(self, text: bytes) -> list[int]:
        """Tokenise the beginning of a text, as the model would within a reply."""
        beginning = text.decode()[:MAX_FORCED_CHARACTERS]
        if (tokens := encode_within(self._tokenizer, beginning)) is not None:
            return tokens
        spelling = beginning.encode()
        letters = [spelling[at : at + 1] for at in range(len(spelling))]
        return [self._letters[letter] for letter in letters if letter in self._letters]


def _source(grammar: Grammar) -> str:
    from llguidance import LLMatcher

    if grammar.kind == "lark":
        return LLMatcher.grammar_from_lark(grammar.text)
    if grammar.kind == "regex":
        return LLMatcher.grammar_from_regex(grammar.text)
    schema = grammar.text if grammar.kind == "json_schema" else '{"type": "object"}'
    try:
        return LLMatcher.grammar_from_json_schema(schema, defaults=LAYOUT)
    except ValueError as error:  # a schema that is no JSON object
        raise _refusal(grammar, str(error)) from error


def _refusal(grammar: Grammar, why: str) -> UsageError:
    line = " ".join(why.split())
    return UsageError(f"the {grammar.kind} cannot be followed: {line[:MAX_ERROR]}")
