"""Check a vocabulary before the engine builds a tokenizer from it, or dies of it."""

from __future__ import annotations

import re
from collections import Counter

from localspec_llamacpp.headers.hyperparameters import REDO
from localspec_llamacpp.headers.metadata import ARRAY, BOOL, FLOAT32, INT32, Header

PREFIX = "tokenizer.ggml."
MODEL = PREFIX + "model"
TOKENS = PREFIX + "tokens"
MOST_TOKENS = 1 << 20
NOWHERE = 0xFFFFFFFF  # what -1 becomes where an id is not signed

# The ids of the tokens that begin and end a text, where the file names none. Vocabularies of
# models that embed text, bert and t5, are left out: the engine aborts on some of their texts.
DEFAULTS = {
    "gemma4": (NOWHERE, NOWHERE),
    "gpt2": (11, 11),
    "hybriddna": (11, 11),
    "llama": (1, 2),
    "plamo2": (1, 2),
    "rwkv": (0, 0),
    "test": (0, 0),
    "whitespace": (11, 11),
}
BEGINLESS = ("chatglm-bpe", "glm4", "glm5")  # pre-tokenizers that begin with nothing
ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.DOTALL)
CONTROLS = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}


def check_vocabulary(header: Header) -> int:
    """The number of tokens, once nothing is left that the engine would assert on."""
    model = header.text(MODEL)
    if model is None:
        header.refuse(f"has no {MODEL}, so no vocabulary: {REDO}")
    if model not in DEFAULTS:
        header.refuse(f"has a vocabulary of kind {model!r}; {', '.join(DEFAULTS)} are read: {REDO}")
    tokens = header.texts(TOKENS, MOST_TOKENS)
    if not tokens:
        header.refuse(f"has 0 tokens in {TOKENS}; a model needs some: {REDO}")
    check_types(header, model, len(tokens))
    check_texts(header, model, tokens)
    check_ids(header, model, len(tokens))
    check_embedding(header, len(tokens))
    return len(tokens)


def check_types(header: Header, model: str, count: int) -> None:
    for key, *kinds in (("scores", FLOAT32, INT32), ("token_type", INT32)):
        array = header.place(PREFIX + key, *kinds)
        if array is not None and array.count != count:
            header.refuse(f"has {count:,} tokens, but {array.count:,} {PREFIX}{key}: {REDO}")
    if model in ("gpt2", "gemma4", "hybriddna", "whitespace"):
        pre = header.text(PREFIX + "pre")
        if header.find(PREFIX + "merges", ARRAY) is None and pre != "kimi-k2":
            header.refuse(f"has no {PREFIX}merges, which a {model} vocabulary needs: {REDO}")


def check_texts(header: Header, model: str, tokens: list[bytes]) -> None:
    """Tokens must differ in what the engine sees of them: what precedes a zero byte."""
    if not all(tokens) or b"\0" in b"".join(tokens):
        tokens = [text.partition(b"\0")[0] or b"[EMPTY_%d]" % i for i, text in enumerate(tokens)]
    known = set(tokens)
    if len(known) != len(tokens):
        text, times = Counter(tokens).most_common(1)[0]
        header.refuse(
            f"has the token {text.decode(errors='replace')!r} {times} times, not once: {REDO}"
        )
    if model == "llama":
        check_bytes(header, known)
    if model == "rwkv":
        check_prefixes(header, known)


def check_bytes(header: Header, known: set[bytes]) -> None:
    """Text that no other token covers is spelt in bytes; lacking one, the engine ends."""
    lacking = [
        byte
        for byte in range(256)
        if b"<0x%02X>" % byte not in known and bytes([byte]) not in known
    ]
    if lacking:
        header.refuse(f"lacks the tokens of {len(lacking)} of the 256 bytes: {REDO}")


def check_prefixes(header: Header, known: set[bytes]) -> None:
    """Where a token begins with a byte that is none itself, the engine matches it forever."""
    plain = {unescaped(text) for text in known}
    alone = {text[:1] for text in plain if text} | {b"\n"}
    if not alone <= plain:
        header.refuse(f"has no token for {min(alone - plain)!r} alone: {REDO}")


def unescaped(text: bytes) -> bytes:
    def plain(match: re.Match[bytes]) -> bytes:
        found = match[1]
        return bytes([int(found[1:], 16)]) if len(found) == 3 else CONTROLS.get(found, found)

    return ESCAPE.sub(plain, text) if b"\\" in text else text


def check_ids(header: Header, model: str, count: int) -> None:
    for name in ("bos", "eos", "eot", "eom"):
        token = header.number(f"{PREFIX}{name}_token_id", NOWHERE)
        if count <= token < NOWHERE:
            header.refuse(f"has {PREFIX}{name}_token_id {token:,} of {count:,} tokens: {REDO}")
    first, last = DEFAULTS[model]
    if header.text(PREFIX + "pre") in BEGINLESS:
        first = NOWHERE
    for name, default in (("bos", first), ("eos", last)):
        wish = header.find(f"{PREFIX}add_{name}_token", BOOL)
        wished = (model == "gemma4" and name == "bos") or bool(wish and wish.number)
        tokens = header.number(f"{PREFIX}{name}_token_id", NOWHERE), default
        if wished and min(tokens) >= count:
            header.refuse(f"wants each text to have a token for {name}, but names none: {REDO}")


def check_embedding(header: Header, count: int) -> None:
    for tensor in header.tensors:
        if tensor.name == "token_embd.weight" and tensor.shape[1:] != (count,):
            rows = tensor.shape[1] if len(tensor.shape) > 1 else 1
            header.refuse(f"has {count:,} tokens, but {rows:,} rows in {tensor.name}: {REDO}")
