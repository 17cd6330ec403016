"""A server on loopback whose model goes on with texts, and fills in middles, as written down."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from localspec.base.tokenizer import Infill
from localspec.interfaces.testing import Alphabet, ScriptedModel
from tests.apps.server.scripted import Server

END, PREFIX, SUFFIX, MIDDLE, FILE, PAD = range(256, 262)
NAMES = ("<end>", "<prefix>", "<suffix>", "<middle>", "<file>", "<pad>")
MARKS = Infill(PREFIX, SUFFIX, MIDDLE, separator=FILE, ends=frozenset(range(PREFIX, PAD + 1)))


class Code(Alphabet):
    """Every byte is a token; it knows no conversations."""

    def __init__(self) -> None:
        pieces = [bytes([byte]) for byte in range(256)] + [b""] * len(NAMES)
        super().__init__(pieces, ends=(END,), infill=MARKS)

    def token_text(self, token: int) -> str:
        return NAMES[token - 256] if token >= 256 else bytes([token]).decode("latin-1")

    def encode(self, text: str, *, special: bool = False):
        pieces = re.split(f"({'|'.join(NAMES)})", text) if special else [text]
        tokens: list[int] = []
        for piece in pieces:
            is_mark = special and piece in NAMES
            tokens += [256 + NAMES.index(piece)] if is_mark else piece.encode("utf-8", "replace")
        return np.array(tokens, np.int32)


def spelled(tokens: Sequence[int]) -> str:
    return bytes(token for token in tokens if token < 256).decode("utf-8", "replace")


def script(texts: Mapping[str, str]):
    """Answer each of these texts, or a middle behind one, by the text written for it."""

    def logits(context: Sequence[int]):
        tokens = list(context)
        end = END
        before, written = spelled(tokens), []
        if MIDDLE in tokens:
            end = PAD
            middle = tokens.index(MIDDLE)
            before = spelled(tokens[tokens.index(PREFIX) : tokens.index(SUFFIX)])
            written = tokens[middle + 1 :]
        begun = max((text for text in texts if before.startswith(text)), key=len, default="")
        written = written or list(before[len(begun) :].encode())
        reply = list(texts.get(begun, "").encode())
        array = np.zeros(len(NAMES) + 256, np.float32)
        array[reply[len(written)] if len(written) < len(reply) else end] = 20.0
        return array

    return logits


@dataclass
class Coder:
    texts: dict[str, str] = field(default_factory=dict)
    server: Server = field(default_factory=Server)

    def __post_init__(self) -> None:
        self.server.model = ScriptedModel(script(self.texts), Code())
        self.server.model.context = 8192

    def asked(self) -> str:
        """The newest prompt that was read, control tokens by their names."""
        held = max(self.server.model.held.values(), key=len)
        return "".join(NAMES[t - 256] if t >= 256 else chr(t) for t in held)
