"""Folders with small tokenizers of every family, written for the tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from gguf import GGUFReader
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

from tests.tiny_mlx import write_tokenizer

SHARED = Path(__file__).parents[3] / "shared" / "data"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPECIAL = ["<unk>", "<s>", "</s>"]
MERGES = [("t", "h"), ("th", "e"), ("▁", "the"), ("▁", "a"), ("c", "o"), ("▁", "co"), ("▁", "▁")]
NORMAL, UNKNOWN, CONTROL, WRITTEN = 1, 2, 3, 4  # token types as GGUF numbers them

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {
    "qwen2": _CONTRACTIONS + r"\p{N}" + _REST,
    "llama-bpe": _CONTRACTIONS + r"\p{N}{1,3}" + _REST,
}


def byte_level(folder: Path) -> Path:
    """384 tokens in GPT-2's letters; the last three of 368 are control tokens."""
    folder.mkdir()
    write_tokenizer(folder)
    return folder


def pieces(folder: Path, *, starts: bool = True) -> Path:
    """Merged pieces as sentencepiece writes them: ▁ for a space, bytes for what is unknown."""
    letters = ["▁", *"abcdefghijklmnopqrstuvwxyz"]
    texts = [*SPECIAL, *BYTES, *letters, *("".join(pair) for pair in MERGES)]
    made = _pieces({text: at for at, text in enumerate(texts)}, MERGES)
    if starts:
        made.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    return save(made, folder)


def _pieces(ids: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    made = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    spaces = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    made.normalizer = normalizers.Sequence(spaces)
    back = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*back, decoders.Strip(" ", 1, 0)])
    return made


def unigram(folder: Path) -> Path:
    """Pieces with scores, the likeliest cut wins."""
    scored = [("▁", -4.0), ("▁the", -2.0), ("th", -3.0), ("e", -3.5), ("▁code", -2.5), ("co", -4.0)]
    plain = [(text, 0.0) for text in SPECIAL] + [(text, -9.0) for text in BYTES]
    letters = [(letter, -6.0) for letter in "abcdfghijklmnopqrstuvwxyz"]
    made = Tokenizer(models.Unigram([*plain, *scored, *letters], 0, True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return save(made, folder)


def save(made: Tokenizer, folder: Path) -> Path:
    made.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    made.add_tokens([AddedToken("<think>", normalized=False)])
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    end = {"__type": "AddedToken", "content": "</s>"}
    put(folder, "tokenizer_config.json", {"bos_token": "<s>", "eos_token": end})
    return folder


def put(folder: Path, name: str, content: object) -> None:
    """Write a file: bytes and texts as they are, anything else as JSON."""
    content = content if isinstance(content, bytes | str) else json.dumps(content)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def change(folder: Path, name: str = "tokenizer.json", **changes: object) -> None:
    """Overwrite some of what a JSON file says."""
    path = folder / name
    before = json.loads(path.read_text()) if path.exists() else {}
    put(folder, name, {**before, **changes})


def add(folder: Path, *tokens: Mapping[str, object]) -> None:
    """Add tokens to a tokenizer.json, the next numbers to those that have none."""
    data = json.loads((folder / "tokenizer.json").read_text())
    for token in tokens:
        base = len(data["model"]["vocab"]) - 1
        last = max([base, *(each["id"] for each in data["added_tokens"])])
        form = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
        data["added_tokens"].append({"id": last + 1, **form, **token})
    put(folder, "tokenizer.json", data)


def from_gguf(path: Path, folder: Path) -> int:
    """Write the tokenizer.json of a vocabulary that is here as GGUF; return its size."""
    fields = GGUFReader(path).fields
    contents = {name.removeprefix("tokenizer.ggml."): fields[name].contents() for name in fields}
    texts, types = contents["tokens"], contents["token_type"]
    if contents["model"] == "llama":
        made = _scored(texts, types, contents["scores"])
    else:
        merges = [merge.split(" ") for merge in contents["merges"]]
        ids = {text: at for at, text in enumerate(texts)}
        name = contents.get("pre")
        made = Tokenizer(models.BPE(ids, [*map(tuple, merges)], ignore_merges=name == "llama-bpe"))
        made.pre_tokenizer = pre_tokenizers.Sequence(_cuts(name))
        made.decoder = decoders.ByteLevel()
    for text, kind in zip(texts, types, strict=True):
        if kind in (UNKNOWN, CONTROL, WRITTEN):
            made.add_tokens([AddedToken(text, special=kind != WRITTEN, normalized=False)])
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    return len(texts)


def _cuts(name: str | None) -> list[pre_tokenizers.PreTokenizer]:
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name not in SPLITS)
    if name in SPLITS:
        return [pre_tokenizers.Split(Regex(SPLITS[name]), "isolated"), letters]
    return (
        [pre_tokenizers.Digits(individual_digits=True), letters] if name == "smollm" else [letters]
    )


def _scored(texts: list[str], types: list[int], scores: list[float]) -> Tokenizer:
    """A merge makes the likeliest piece first, whatever two pieces it is made of."""
    ids = {text: at for at, text in enumerate(texts)}
    merges = [
        (-scores[at], ids[text[:cut]], ids[text[cut:]], (text[:cut], text[cut:]))
        for at, text in enumerate(texts)
        for cut in range(1, len(text))
        if types[at] == NORMAL and text[:cut] in ids and text[cut:] in ids
    ]
    return _pieces(ids, [pair for *_, pair in sorted(merges)])
