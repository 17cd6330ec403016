"""The tokenizer.json of a model folder: checked, and made from other files where there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from localspec_mlx.folder.files import (
    MOST_TOKENIZER_BYTES,
    TOKENIZER,
    Object,
    as_object,
    check_size,
    parse,
    read_text,
    refuse,
)
from localspec_mlx.folder.library import refusing
from localspec_mlx.folder.limits import check
from localspec_mlx.folder.vocabulary import Added, added_tokens, algorithm, settings, source

KINDS = ("bpe", "unigram")
READ_BY_TRANSFORMERS = (".json", ".model", ".tiktoken", ".txt")


@dataclass(frozen=True, slots=True)
class Definition:
    path: Path  # of the file it comes from
    text: str
    data: Object
    kind: str
    added: Mapping[int, Added]
    settings: Object  # of the folder


def definition(folder: Path) -> Definition:
    path = folder / TOKENIZER
    text = read_text(path)
    if text is None:
        return _converted(folder, source(folder)[0])
    return _checked(path, text, settings(folder))


def _checked(path: Path, text: str, named: Object) -> Definition:
    data = parse(path, text)
    kind = algorithm(path, data)
    if kind not in KINDS:
        refuse(path, f"is of kind {kind}; {', '.join(KINDS)} are read: choose another model")
    added = added_tokens(path, data)
    check(path, data, added)
    return Definition(path, text, data, kind, added, named)


def without(definition: Definition, control: Set[str]) -> str | None:
    """Make a tokenizer.json that cuts no text into these tokens; None if it does not already.

    A unigram model has them among its pieces, a merged one may come to them by merges.
    """
    model = as_object(definition.path, "its model", definition.data.get("model"))
    pieces, merges = model.get("vocab"), model.get("merges")
    changed: Object = {}
    if isinstance(pieces, list):
        unheard = token_hex()
        renamed = ([unheard + text if text in control else text, score] for text, score in pieces)
        changed = {"vocab": list(renamed)}
    elif isinstance(merges, list):
        kept = [merge for merge in merges if _made(merge) not in control]
        changed = {"merges": kept} if len(kept) < len(merges) else {}
    return json.dumps({**definition.data, "model": {**model, **changed}}) if changed else None


def _made(merge: object) -> str:
    """Read what a merge makes: its parts are a list, or a text with a space between."""
    return "".join(merge) if isinstance(merge, list) else str(merge).replace(" ", "", 1)


def _converted(folder: Path, path: Path) -> Definition:
    """Let transformers read the formats of old; importing it takes a second."""
    named = settings(folder)
    for file in folder.iterdir():
        if file.suffix in READ_BY_TRANSFORMERS and file.is_file():
            check_size(file, MOST_TOKENIZER_BYTES)
    with refusing(path, "could not be made a tokenizer.json", "take a folder that has one"):
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=False, local_files_only=True
        )
        text = tokenizer.backend_tokenizer.to_str()
        names = {"bos_token": tokenizer.bos_token, "eos_token": tokenizer.eos_token}
    return _checked(path, text, {**named, **names})
