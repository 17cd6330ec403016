"""Small vocabularies, trained on a few sentences, as each family lays its own out."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import sentencepiece.sentencepiece_model_pb2 as pieces
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import LlamaTokenizer, PreTrainedTokenizerFast

from architectures.recipe import Recipe

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHAT = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# The converter of GLM asks for these by name.
GLM = ["[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
GEMMA = ["<pad>", "<eos>", "<bos>", "<unk>", *CHAT[1:], "<|turn>", "<turn|>"]
PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXT = (
    "The quick brown fox jumps over the lazy dog. Hello there, how are you today? I am fine.\n"
    "def main(x):\n    return [i for i in range(x) if i % 2 == 0]\n"
    "Speculative decoding guesses a few tokens ahead and the model checks them at once. "
)
UNUSED = 4  # SentencePiece's number for pieces that the user defined
Ids = Mapping[str, Any]


def save(folder: Path, recipe: Recipe, size: int) -> None:
    """Write the vocabulary that a recipe asks for."""
    more = recipe.vision.tokens if recipe.vision else ()
    if recipe.vocabulary == "gemma":
        save_gemma(folder, size, more)
    elif recipe.vocabulary == "bytes":
        save_bytes(folder, size, more)
    else:
        ids = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}
        if recipe.values.get("bos_token_id") == 2:
            ids = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3}
        save_sentencepiece(folder, train_sentencepiece(size, ids, more), ids)
    if recipe.tokenizer_says:
        amend(folder / "tokenizer_config.json", recipe.tokenizer_says)


def sentences(count: int) -> list[str]:
    rng = random.Random(1)
    words = TEXT.split(" ")
    return [" ".join(rng.choices(words, k=20)) for _ in range(count)]


def save_bytes(folder: Path, size: int, more: Sequence[str]) -> None:
    """Save BPE over bytes, as GPT-2 began it."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[*CHAT, *GLM, *more],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    made.train_from_iterator(sentences(400), trainer)
    made.add_special_tokens([f"<|extra_{at}|>" for at in range(size - made.get_vocab_size())])
    save_fast(folder, made, TEMPLATE, bos_token=CHAT[0], eos_token=CHAT[2], pad_token=CHAT[0])


def save_gemma(folder: Path, size: int, more: Sequence[str]) -> None:
    """Save Gemma 4's: BPE over raw text with ▁ for a space and bytes to fall back on."""
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    special = [*GEMMA, *more, *(f"<0x{at:02X}>" for at in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special)
    made.train_from_iterator(sentences(400), trainer)
    made.add_special_tokens([f"<unused{at}>" for at in range(size - made.get_vocab_size())])
    names = {f"{name}_token": f"<{name}>" for name in ("bos", "eos", "pad", "unk")}
    save_fast(folder, made, "{{ bos_token }}" + TEMPLATE, **names)


def save_fast(folder: Path, made: Tokenizer, template: str, **names: str) -> None:
    fast = PreTrainedTokenizerFast(tokenizer_object=made, **names)
    fast.chat_template = template
    fast.save_pretrained(folder)


def save_sentencepiece(folder: Path, model: pieces.ModelProto, ids: Ids) -> None:
    """Save SentencePiece's BPE, as llama.cpp's converter and transformers read it."""
    (folder / "tokenizer.model").write_bytes(model.SerializeToString())
    fast = LlamaTokenizer.from_pretrained(folder)
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    names = {f"{name}_token": model.pieces[ids[f"{name}_id"]].piece for name in ("bos", "eos")}
    fields = {"tokenizer_class": "LlamaTokenizer"}
    amend(
        folder / "tokenizer_config.json",
        {**names, "chat_template": TEMPLATE, "add_bos_token": True},
        fields,
    )


def train_sentencepiece(size: int, ids: Ids, more: Sequence[str]) -> pieces.ModelProto:
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences(400)),
        model_writer=out,
        vocab_size=size,
        model_type="bpe",
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        user_defined_symbols=[*CHAT, *more],
        **ids,
    )
    model = pieces.ModelProto()
    model.ParseFromString(out.getvalue())
    for at in range(len(model.pieces), size):
        model.pieces.add(piece=f"<unused{at}>", score=-1000.0 - at, type=UNUSED)
    return model


def amend(
    file: Path, more: Mapping[str, object], usual: Mapping[str, object] | None = None
) -> None:
    """Add to a JSON file: always `more`, and `usual` where it has no such key."""
    values = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.write_text(json.dumps({**(usual or {}), **values, **more}, indent=1), encoding="utf-8")
