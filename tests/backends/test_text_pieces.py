"""A text is tokenised in pieces, and has the tokens that llama.cpp gives the whole of it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from localspec.base.interruption import Interrupted, Patience
from localspec_llamacpp.bindings.placement import HOST
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.text_pieces import PIECE_BYTES, TextPieces
from localspec_llamacpp.tokenizer import GgufTokenizer
from tests import engines
from tests.backends.gguf_copies import copied, numbers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
# Some are a part of others, begin in others, end in a blank, or are nothing but blanks.
SPECIAL = {
    "<unk>": UNKNOWN,
    "<s>": CONTROL,
    "</s>": CONTROL,
    "<mask>": CONTROL,
    "<|endoftext|>": CONTROL,
    "<|user|>": CONTROL,
    "<|user|><|end|>": CONTROL,
    "<|end|>": CONTROL,
    "|><|": CONTROL,
    "d|>\n": CONTROL,
    "<|im_end|>": USER_DEFINED,  # which llama.cpp takes for one of control
    "<tool>": USER_DEFINED,
    "<tool><": USER_DEFINED,
    "l><|user|>": USER_DEFINED,
    "\n": USER_DEFINED,
    "\n\n": USER_DEFINED,
    "\n" * 5: USER_DEFINED,
    "  ": USER_DEFINED,
    " a": USER_DEFINED,
}
BYTES = {f"<0x{byte:02X}>": BYTE for byte in range(256)}
PIECES = ["▁", "a", "b", "▁a", "ab", "▁ab", "aa", "▁b"]
TEXTS = [
    *SPECIAL,
    "\n" * 41,
    " " * 40,
    "<",
    "|",
    ">",
    "a",
    "b",
    "ab",
    " ",
    "   ",
    "\t",
    "\r\n",
    "é",
    "漢",
    "<|",
    "<to",
    "d|",
]
# Algorithms and settings of vocabularies, and names by which llama.cpp strips blanks.
KINDS = {
    "spm": {"model": "llama"},
    "spm without a first space": {"model": "llama", "add_space_prefix": False},
    "spm that strips to the right": {"model": "llama", "name": "phi-3"},
    "bpe": {"model": "gpt2", "pre": "qwen2"},
    "bpe by a general expression": {"model": "gpt2", "pre": "tekken"},
    "bpe that strips to the left": {"model": "gpt2", "pre": "jina-v2-code"},
    "ugm": {"model": "t5"},
}


@cache
def weights(kind: str) -> ModelWeights:
    """A tiny model with such a vocabulary."""
    settings = dict(KINDS[kind])
    types = SPECIAL | BYTES | dict.fromkeys(PIECES, NORMAL)
    keys: dict[str, object] = {"general.name": settings.pop("name", "tiny")}
    keys |= {f"tokenizer.ggml.{name}": value for name, value in settings.items()}
    keys |= {
        "tokenizer.ggml.pre": settings.get("pre"),
        "tokenizer.ggml.tokens": list(types),
        "tokenizer.ggml.token_type": list(types.values()),
        "tokenizer.ggml.scores": [-float(at) for at in range(len(types))],
        "tokenizer.ggml.merges": ["a b", "a a"],
        **{f"tokenizer.ggml.{role}_token_id": 1 for role in ("bos", "eos", "seperator", "padding")},
        "tokenizer.ggml.unknown_token_id": 0,
    }
    tensors = {name: numbers(len(types), 64) for name in ("token_embd.weight", "output.weight")}
    path = engines.folder() / f"pieces of {kind}.gguf"
    return ModelWeights(copied(engines.tiny("llama"), path, keys, tensors), HOST)


@cache
def short_pieces(kind: str, special: bool) -> TextPieces:
    return TextPieces(weights(kind).special_tokens(special), piece_bytes=1)


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@example(parts=["ab  ", "<mask>"])
@example(parts=["ab", "<tool>", "<|user|>"])
@example(parts=["d|>", "\n" * 41])
@example(parts=["\n" * 41, "|", "\n" * 41])
@example(parts=["\n" * 41, "\n<|end|>"])
@example(parts=["<s>", " " * 40])
@given(parts=some.lists(some.sampled_from(TEXTS), max_size=30))
def test_the_tokens_of_the_pieces_are_those_of_the_whole(kind, special, parts):
    model, text = weights(kind), "".join(parts).encode()
    pieces = list(short_pieces(kind, special).of(text))
    assert b"".join(pieces) == text
    tokens = [token for piece in pieces for token in model.tokenize(piece, special)]
    assert tokens == model.tokenize(text, special).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_is_parted_at_its_turns(kind):
    turns = b"<|user|>ab<|end|>\n<s>aab</s>\n" * 2000
    pieces = list(TextPieces(weights(kind).special_tokens(True)).of(turns))
    assert max(map(len, pieces)) < 2 * PIECE_BYTES


@pytest.mark.parametrize("kind", ["spm", "bpe", "ugm"])
@pytest.mark.parametrize("blank", [b" ", b"\n"])
def test_a_long_run_of_blanks_is_parted_too(kind, blank):
    pieces = list(TextPieces(weights(kind).special_tokens(False)).of(b"ab" + blank * 30_000))
    assert max(map(len, pieces)) < 2 * PIECE_BYTES


@pytest.fixture
def tokenizer():
    model = ModelWeights(engines.tiny("llama"), HOST)
    with closing(model):
        yield GgufTokenizer(model, "bpe", None)


LONG_WORD = """
import sys
from pathlib import Path
from localspec_llamacpp.bindings.placement import HOST
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.tokenizer import GgufTokenizer

tokenizer = GgufTokenizer(ModelWeights(Path(sys.argv[1]), HOST), "bpe", None)
print(len(tokenizer.encode("b" * 300_000)), flush=True)
"""


def test_a_word_of_any_length_does_not_end_the_process():
    path = weights("bpe by a general expression").path
    command = [sys.executable, "-c", LONG_WORD, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "300000\n")


TURN = "<|im_start|>user\nx<|im_end|>\n"


def test_a_conversation_has_the_tokens_of_its_messages(tokenizer):
    tokens = tokenizer.encode(TURN * 1000, special=True)
    assert tokens.tolist() == tokenizer.encode(TURN, special=True).tolist() * 1000
    plain = tokenizer.encode("<|im_start|> as the code " * 1000)
    assert np.array_equal(
        plain, tokenizer._weights.tokenize(b"<|im_start|> as the code " * 1000, False)
    )


def test_a_text_that_nobody_waits_for_is_not_tokenised_to_its_end(tokenizer):
    patience, asked = Patience(), []
    whole = tokenizer._weights.tokenize

    def tokenize(text, special):
        asked.append(text)
        patience.over = len(asked) == 3
        return whole(text, special)

    tokenizer._weights.tokenize = tokenize
    with patience.lent(), pytest.raises(Interrupted):
        tokenizer.encode(TURN * 10_000, special=True)
    assert len(asked) == 3
