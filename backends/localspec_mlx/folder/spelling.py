"""The steps of a tokenizer.json, and the bytes its tokens stand for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from localspec_mlx.folder.files import Object, as_object, refuse

# The parts of a tokenizer.json, and under what name a sequence of each holds its steps.
PARTS = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
DECODERS = ("ByteLevel", "ByteFallback", "Fuse", "Metaspace", "Replace", "Strip")
BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")

VISIBLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
HIDDEN = sorted(set(range(0x100)) - VISIBLE)
# From the letters of byte-level vocabularies to the bytes they stand for, as Latin-1; what is no
# such letter goes where Latin-1 cannot follow.
LETTERS = {0x100 + at: byte for at, byte in enumerate(HIDDEN)} | dict.fromkeys(HIDDEN, 0xFFFF)


@dataclass(frozen=True, slots=True)
class ByteSpelling:
    """The way in which a vocabulary spells bytes."""

    byte_level: bool  # a letter for each byte
    byte_tokens: bool  # <0x0A> is a byte
    replaced: tuple[tuple[str, str], ...]  # what stands for something else, such as a space

    def token_bytes(self, text: str) -> bytes:
        """Decode a token of the model's own to what it adds to a text."""
        if self.byte_level:
            try:
                return text.translate(LETTERS).encode("latin-1")
            except UnicodeEncodeError:
                return text.encode()
        if self.byte_tokens and (match := BYTE.fullmatch(text)):
            return bytes([int(match[1], 16)])
        for old, new in self.replaced:
            text = text.replace(old, new)
        return text.encode()

    def added_bytes(self, text: str) -> bytes:
        """Decode an added token, which is written as it is read."""
        return text.encode() if self.byte_level else self.token_bytes(text)


def spelling(path: Path, data: Object) -> ByteSpelling:
    """Find how the decoder makes text of tokens; without one, invert the other direction."""
    decoding = steps(path, data, "decoder") or [
        step
        for step in steps(path, data, "pre_tokenizer")
        if step.get("type") in ("ByteLevel", "Metaspace")
    ]
    kinds = [str(step.get("type")) for step in decoding]
    unknown = [kind for kind in kinds if kind not in DECODERS]
    if unknown or not kinds:
        fault = f"makes text of tokens by {unknown[0]}" if unknown else "has no decoder"
        refuse(path, f"{fault}; {', '.join(DECODERS)} are known: choose another model")
    replaced = []
    for step, kind in zip(decoding, kinds, strict=True):
        if kind == "Metaspace":
            replaced.append((str(step.get("replacement") or "▁"), " "))
        elif kind == "Replace":
            pattern, content = replacement(step)
            if not pattern:
                refuse(path, "makes text of tokens by a regular expression: choose another model")
            replaced.append((pattern, content))
    return ByteSpelling("ByteLevel" in kinds, "ByteFallback" in kinds, tuple(replaced))


def replacement(step: Object) -> tuple[str, str]:
    """Find what is replaced, empty if it is a regular expression; and by what."""
    pattern, content = step.get("pattern"), step.get("content")
    text = pattern.get("String") if isinstance(pattern, dict) else pattern
    return text if isinstance(text, str) else "", content if isinstance(content, str) else ""


def steps(path: Path, data: Object, part: str) -> list[Object]:
    """List the steps of a part in their order, sequences laid out flat."""
    flat, left = [], [data.get(part)]
    while left:
        value = left.pop()
        if value is None:
            continue
        step = as_object(path, f"its {part}", value)
        if step.get("type") != "Sequence":
            flat.append(step)
        inner = step.get(PARTS[part])
        if isinstance(inner, list):
            left.extend(reversed(inner))
    return flat
