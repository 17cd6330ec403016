"""Comparison of a folder's tokenizer with llama.cpp's, token by token, and on hard texts."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

from localspec.backend import Options
from localspec.errors import ModelFileError
from localspec.tokenizer import Tokenizer
from localspec_llamacpp import backend as llamacpp
from localspec_mlx.folder.tokenizer import load_tokenizer

JOINED = 4000  # texts of several pieces
AT_ONCE = 16  # tokens that are read in one text
VOCABULARY_ONLY = Options(context=64, batch=16, threads=1, gpu_layers=0)

# Where tokenizers differ: signs that are case, space, number or letter to one and not to the next.
BLANK = " \t\n\r\v\x85\xa0\u2028\u3000"
HIDDEN = "\0\x04\x1f\x7f\u0301\u200b\u200d\ufeff\ufffd\U000f0000"
SIGNS = """
    's 'S 't 'll 'LL 'Ve 're '\u017f ' '' " ` a b The the THE camelCase HTTPServer É é e\u0301 ß İ ǅ
    \u0131 \u212a 漢字 かな カナ 한국어 العربية עברית हिन्दी ไทย 😀 🇵🇹 \U0001f468\u200d\U0001f467 € ▁
    1 12 123 1234567 3.14 ½ ² ٣ Ⅷ ① ! !! !?... _ __ - -- = == => / // \\ ( ) [ ] { } < > <| |> $ + ^
    ~ | & % @ # 、 。 ¿ Ġ Ċ <0x0A> <s> </s> <|im_end|> <|endoftext|>
"""
PIECES = ("", "  ", "\n\n", "\r\n", *BLANK, *HIDDEN, *SIGNS.split(), "def f(x):\n    return x\n")
RUNS = (" ", "▁", "\n", "\t", "=", "-", "a", "ab", "aba", " a", "1", "é")


def compare(source: Path, folder: Path) -> None:
    """Refuse a folder whose tokenizer is not llama.cpp's in all but name."""
    with closing(llamacpp.load(source, VOCABULARY_ONLY)) as model:
        theirs = model.tokenizer
        ours = load_tokenizer(folder, theirs.size)
        agree(source, "begins and ends texts by", marks(theirs), marks(ours))
        for token in range(theirs.size):
            compare_token(source, token, theirs, ours)
        for text in samples(theirs):
            for special in (False, True):
                expected, found = (
                    tokenizer.encode(text, special=special).tolist() for tokenizer in (theirs, ours)
                )
                agree(source, f"reads {text[:40]!r} as", expected, found)


def compare_token(source: Path, token: int, theirs: Tokenizer, ours: Tokenizer) -> None:
    text, expected = theirs.token_text(token), theirs.token_bytes(token)
    agree(source, f"spells token {token} as", text, ours.token_text(token))
    # Of a token that it does not use, llama.cpp shows nothing; a folder has no word for such.
    if expected or theirs.encode(text, special=True).tolist() == [token]:
        agree(source, f"writes token {token} as", expected, ours.token_bytes(token))


def marks(tokenizer: Tokenizer) -> tuple[object, ...]:
    bos = tokenizer.bos if tokenizer.starts else None
    return tokenizer.starts, bos, tokenizer.eos, sorted(tokenizer.ends)


def agree(source: Path, does: str, expected: object, found: object) -> None:
    if expected != found:
        raise ModelFileError(
            f"{source.name} cannot be converted exactly: llama.cpp {does} "
            f"{str(expected)[:80]}, the folder {str(found)[:80]}"
        )


def samples(tokenizer: Tokenizer) -> list[str]:
    """Make texts: every token as spelt and as written, hard pieces, and all joined at random."""
    ids = range(tokenizer.size)
    spelt = [tokenizer.token_text(token) for token in ids]
    written = [tokenizer.token_bytes(token).decode(errors="replace") for token in ids]
    tokens = list(dict.fromkeys((*spelt, *written)))
    lines = ["\n".join(tokens[start : start + AT_ONCE]) for start in range(0, len(tokens), AT_ONCE)]
    control = [text for text, shown in zip(spelt, written, strict=True) if not shown]
    around = [f"a {text} b{text}{text}\n{text}" for text in control]
    runs = [f"{run * count}{end}" for run in RUNS for count in range(1, 40) for end in ("", "b")]
    dice = random.Random(0)
    joined = [
        "".join(dice.choice(dice.choice((PIECES, PIECES, written, spelt))) for _ in range(length))
        for length in range(2, 10)
        for _ in range(JOINED // 8)
    ]
    return [*PIECES, *lines, *around, *runs, *joined]
