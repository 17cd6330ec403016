"""A small but real byte-level BPE vocabulary: every text splits, and common letters go together."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Layout = Literal["plain", "shuffled"]

NORMAL, CONTROL, UNUSED = 1, 3, 5  # token types as GGUF numbers them

BEGIN, TURN, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"
)

# Pairs by rank; a part is a byte's letter (a space is Ġ, a line's end Ċ) or a pair ranked before.
_MERGES = """
Ġ+t h+e Ġ+a i+n r+e o+n Ġt+he e+r Ġ+s a+t Ġ+w e+n Ġ+o o+u n+d i+t o+r i+s e+s Ġ+b e+d Ġ+c Ġ+f a+n
in+g Ġ+p Ġa+nd a+l Ġo+f Ġt+o Ġ+m Ġ+h a+r Ġ+in l+e Ġ+d i+c Ġt+h o+m Ġ+l Ġ+n Ġ+g s+t v+e l+l Ġb+e
en+t i+on t+ion e+t Ġw+h Ġ+it c+h l+y u+t o+w Ġ+y Ġy+ou Ġf+or Ġ+re Ġ+on Ġ+is a+s Ġ+as i+d u+r a+c
e+l Ġ+an Ġw+as o+t Ġn+ot Ġth+is Ġw+it Ġwit+h i+m k+e u+n a+m o+l r+o Ġ+st l+d ou+ld Ġs+h q+u Ġ+e
i+v iv+e a+y o+d od+e Ġc+ode Ġd+e Ġde+f Ġre+t ur+n Ġret+urn Ċ+Ċ Ġ+Ġ ĠĠ+ĠĠ Ġw+ould Ġh+a Ġha+ve
Ġm+e Ġw+e Ġ+u Ġu+p Ġd+o
"""
MERGES = tuple(_MERGES.split())

# What the shuffled layout lacks and has instead. No other pair is made of these.
MISSING = ("Ġw+ould", "Ġret+urn", "Ġde+f", "Ġwit+h", "Ġu+p", "Ċ+Ċ")
EXTRA = ("Ġg+o", "Ġl+ow", "i+f", "p+le", "Ġs+ay", "o+s", "t+er")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Token texts and types by id, and the pairs that are put together."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[str, ...]

    def id_of(self, text: str) -> int:
        return self.tokens.index(text)


def vocabulary(layout: Layout = "plain") -> Vocabulary:
    """Return the vocabulary of 384 tokens, or its shuffled twin of 400.

    The twin permutes all ids, lacks the texts of MISSING and has those of EXTRA.
    """
    if layout == "plain":
        return _vocabulary(MERGES, size=384)
    merges = tuple(merge for merge in MERGES if merge not in MISSING) + EXTRA
    ordered = _vocabulary(merges, size=400)
    order = np.random.default_rng(400).permutation(len(ordered.tokens))
    return Vocabulary(
        tokens=tuple(ordered.tokens[old] for old in order),
        types=tuple(ordered.types[old] for old in order),
        merges=ordered.merges,
    )


def _vocabulary(merges: tuple[str, ...], size: int) -> Vocabulary:
    normal = byte_letters() + [merge.replace("+", "") for merge in merges]
    control = [BEGIN, TURN, END]
    unused = [f"[unused{index}]" for index in range(size - len(normal) - len(control))]
    return Vocabulary(
        tokens=(*normal, *control, *unused),
        types=(NORMAL,) * len(normal) + (CONTROL,) * len(control) + (UNUSED,) * len(unused),
        merges=tuple(merge.replace("+", " ") for merge in merges),
    )


def byte_letters() -> list[str]:
    """Return the letter that stands for each byte: itself where it is visible in Latin-1."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    stand_ins = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(stand_ins)) for byte in range(0x100)]


def every_text() -> list[str]:
    """Return the texts of both layouts, each once, in an order of their own."""
    return sorted({*vocabulary("plain").tokens, *vocabulary("shuffled").tokens})


def is_readable(text: str) -> bool:
    """Tell whether a token is letters, marks and spaces rather than other bytes."""
    return all(letter.isascii() or letter in "ĠĊ" for letter in text)


def is_written(kind: int) -> bool:
    """Tell whether tokens of this type are text, not control or unused ones."""
    return kind == NORMAL
