"""The pre-tokenizers that a GGUF may name: how each cuts a text before its bytes are merged.

The patterns say what llama.cpp does, which is what a name in a GGUF stands for: the case of a
letter, for instance, is looked at in ASCII only.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, pre_tokenizers

CONTRACTION = r"'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])"
LINES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
NOT_LOWER, NOT_UPPER = r"(?:(?=\p{L})[^a-z])", r"(?:(?=\p{L})[^A-Z])"
WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def any_case(number: str) -> str:
    """Match words with one sign before them, numbers, and signs with the line ends after them."""
    words = rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+"
    return rf"{words}|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{LINES}"


def by_case(number: str) -> str:
    """Match the same, but end words before capitals too; contractions do not stand alone."""
    start = r"[^\r\n\p{L}\p{N}]?"
    words = f"{start}{NOT_LOWER}*{NOT_UPPER}+|{start}{NOT_LOWER}+{NOT_UPPER}*"
    return rf"{words}|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{LINES}"


@dataclass(frozen=True, slots=True)
class Split:
    """Patterns, each of which cuts what the one before it left, and their settings."""

    patterns: tuple[str, ...]
    whole_words: bool = False  # a word that is a token is not merged but taken
    begins: bool = False  # a text begins with the start token, unless the file says otherwise

    def steps(self) -> list[pre_tokenizers.PreTokenizer]:
        return [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in self.patterns]


LLAMA3 = any_case(r"\p{N}{1,3}")
EASTERN = r"(?:(?!\s)[一-龥ࠀ-一가-퟿])+"
GROUPS = {
    "gpt-2 phi-2 mpt olmo jais trillion granite-docling gigachat a.x-4.0 mellum exaone4": Split(
        (WORDS,)
    ),
    "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2": Split(
        (r"\p{N}", WORDS)
    ),
    "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2": Split(
        (LLAMA3,), whole_words=True, begins=True
    ),
    "dbrx smaug-bpe": Split((LLAMA3,)),
    "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2": Split(
        (any_case(r"\p{N}"),)
    ),
    "tekken": Split((by_case(r"\p{N}"),), whole_words=True, begins=True),
    "deepseek-coder": Split((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EASTERN, r"\p{N}")),
    "default": Split((r"[\p{P}$+<=>^~|]+", WORDS, r"\p{N}+", "[0-9]{3}")),
}
SPLITS = {name: split for names, split in GROUPS.items() for name in names.split()}
