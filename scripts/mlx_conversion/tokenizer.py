"""Rebuild a GGUF's tokenizer as the tokenizer.json that goes with an MLX model."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from mlx_conversion.gguf_file import GgufFile
from mlx_conversion.splits import SPLITS, Split
from mlx_conversion.vocabulary import PREFIX, Vocabulary, read_vocabulary

MOST_MERGES = 1 << 21
MOST_ADDED = 1 << 14  # adding one takes a look at all others; the largest seen has 6,414
SPACE = "▁"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]

Pair = tuple[str, str]


def write_tokenizer(file: GgufFile, folder: Path) -> None:
    """Write the files that turn text into tokens and back, and name the end tokens."""
    kind = file.text(PREFIX + "model")
    if kind not in ("gpt2", "llama"):
        file.refuse(f"has a vocabulary of kind {kind!r}; gpt2 and llama can be converted")
    vocabulary = read_vocabulary(file)
    if kind == "gpt2":
        split = split_of(file)
        tokenizer, begins = byte_level(file, vocabulary, split), split.begins
    else:
        tokenizer, begins = sentence_pieces(file, vocabulary), True
    begins = file.flag(PREFIX + "add_bos_token", begins)
    add_tokens(file, tokenizer, vocabulary)
    if begins:
        add_start(file, tokenizer, vocabulary)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    write_json(folder / "tokenizer_config.json", settings(file, vocabulary, begins))
    write_json(folder / "generation_config.json", generation(vocabulary))


def split_of(file: GgufFile) -> Split:
    name = file.text(PREFIX + "pre") or "default"
    if name not in SPLITS:
        known = ", ".join(sorted(SPLITS))
        file.refuse(f"splits text by {name!r}; what can be converted is {known}")
    return SPLITS[name]


def byte_level(file: GgufFile, vocabulary: Vocabulary, split: Split) -> Tokenizer:
    """Build a tokenizer of bytes, each written as a letter, that merge within words."""
    ids = {text: at for at, text in enumerate(vocabulary.tokens)}
    merges = read_merges(file, ids)
    tokenizer = Tokenizer(models.BPE(ids, merges, ignore_merges=split.whole_words))
    to_letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    steps = [*split.steps(), to_letters]
    lacking = [re.escape(letter) for letter in to_letters.alphabet() if letter not in ids]
    if lacking:  # such a byte is lost, but what stood on its two sides does not merge
        steps.append(pre_tokenizers.Split(Regex("|".join(lacking)), "removed"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def read_merges(file: GgufFile, ids: Mapping[str, int]) -> list[Pair]:
    lines = file.text_list(PREFIX + "merges")
    if len(lines) > MOST_MERGES:
        file.refuse(f"has {len(lines):,} merges; at most {MOST_MERGES:,} can be converted")
    pairs: dict[Pair, None] = {}  # of two that are the same, the first one counts
    for line in lines:
        left, right = line[:1] + line[1:].partition(" ")[0], line[1:].partition(" ")[2]
        if not (left in ids and right in ids and left + right in ids):
            file.refuse(f"merges {left!r} and {right!r}, but lacks a token of the three")
        pairs[left, right] = None
    return list(pairs)


def sentence_pieces(file: GgufFile, vocabulary: Vocabulary) -> Tokenizer:
    """Build one of characters that merge by score; others are spelt in bytes."""
    tokens = vocabulary.tokens
    scores = file.number_list(PREFIX + "scores")
    if len(scores) != len(tokens) or not all(map(math.isfinite, scores)):
        file.refuse(f"has {len(tokens):,} tokens, but {len(scores):,} scores or some not finite")
    lacking = set(BYTES).difference(tokens)
    if lacking:
        file.refuse(f"lacks the tokens of {len(lacking)} of the 256 bytes")
    model = models.BPE(
        {text: at for at, text in enumerate(tokens)},
        merges_by_score(file, tokens, scores),
        unk_token=vocabulary.text_of("unknown"),
        fuse_unk=True,
        byte_fallback=True,
    )
    return with_spaces(Tokenizer(model), file.flag(PREFIX + "add_space_prefix", True))


def with_spaces(tokenizer: Tokenizer, indented: bool) -> Tokenizer:
    """Write spaces as another sign, and put one before every text if `indented`."""
    spaces = normalizers.Replace(" ", SPACE)
    start = [normalizers.Prepend(SPACE)] * indented
    tokenizer.normalizer = normalizers.Sequence([*start, spaces])
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, *[decoders.Strip(" ", 1, 0)] * indented])
    return tokenizer


def merges_by_score(file: GgufFile, tokens: tuple[str, ...], scores: list[float]) -> list[Pair]:
    """List every way to make a token of two others, the highest score first.

    Of equal scores the pair that stands further left goes first, which no order of merges can say
    in general. It can for runs of one letter: they grow from the left, so the longest goes first.
    """
    known, merges = set(tokens), []
    last: tuple[float, str] = (math.inf, "")
    for score, text in sorted(
        zip(scores, tokens, strict=True), key=lambda pair: (-pair[0], -len(pair[1]))
    ):
        cuts = [(text[:at], text[at:]) for at in range(len(text) - 1, 0, -1)]
        pairs = [(left, right) for left, right in cuts if left in known and right in known]
        if pairs and score == last[0] and len({*text, *last[1]}) > 1:
            file.refuse(f"has the same score for {last[1]!r} and {text!r}, so neither goes first")
        if pairs:
            last = score, text
        merges += pairs
    return merges


def add_tokens(file: GgufFile, tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
    count = len(vocabulary.control) + len(vocabulary.whole)
    if count > MOST_ADDED:
        file.refuse(f"has {count:,} control and user-defined tokens; at most {MOST_ADDED:,} fit")
    for ids, special in ((vocabulary.control, True), (vocabulary.whole, False)):
        texts = [vocabulary.tokens[at] for at in sorted(ids)]
        tokenizer.add_tokens([AddedToken(t, special=special, normalized=False) for t in texts])


def add_start(file: GgufFile, tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
    text = vocabulary.text_of("bos")
    if text is None:
        file.refuse(f"wants each text to begin with a token, but has no {PREFIX}bos_token_id")
    name = "start"  # in the template only, which the token's own text could upset
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[name, "$A"],
        pair=[name, "$A", "$B"],
        special_tokens=[{"id": name, "ids": [vocabulary.roles["bos"]], "tokens": [text]}],
    )


def settings(file: GgufFile, vocabulary: Vocabulary, begins: bool) -> dict[str, object]:
    names = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": begins,
        "clean_up_tokenization_spaces": False,
        **{name: vocabulary.text_of(role) for role, name in names.items()},
        "chat_template": file.text("tokenizer.chat_template"),
    }


def generation(vocabulary: Vocabulary) -> dict[str, object]:
    found: dict[str, object] = {"eos_token_id": list(vocabulary.ends)}
    return found | {"bos_token_id": vocabulary.roles.get("bos")}


def write_json(path: Path, content: Mapping[str, object]) -> None:
    given = {key: value for key, value in content.items() if value is not None}
    path.write_text(json.dumps(given, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
