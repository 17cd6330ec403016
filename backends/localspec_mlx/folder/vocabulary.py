"""The vocabulary of a model folder by its files, without building a tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from localspec.base.errors import ModelFileError
from localspec_mlx.folder.files import (
    AGAIN,
    TOKENIZER,
    Object,
    as_object,
    kind_of,
    read,
    read_object,
    read_text,
    refuse,
    refuse_pointer,
)

SETTINGS = "tokenizer_config.json"
ALGORITHMS = ("BPE", "Unigram", "WordLevel", "WordPiece")
# Files that can stand in for tokenizer.json, with what each is; the first that is there counts.
SOURCES = {
    "tokenizer.model": "sentencepiece",
    "tekken.json": "tiktoken",
    "tiktoken.model": "tiktoken",
    "vocab.json": "bpe",
}
WHOLE = "download the whole folder again"


@dataclass(frozen=True, slots=True)
class Added:
    """A token that is found in a text before any other, and how."""

    content: str
    special: bool = False
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False


def chat_template(folder: Path) -> str | None:
    """Read the jinja2 source; a file of its own takes precedence over the settings."""
    text = read_text(folder / "chat_template.jinja")
    if text is not None:
        return text
    for path in (folder / SETTINGS, folder / "chat_template.json"):
        template = read(path).get("chat_template")
        if template is not None:
            return _default(path, template)
    return None


def _default(path: Path, template: object) -> str:
    """Choose a template: a text, or the default of several that have names."""
    if isinstance(template, list):
        entries = [as_object(path, "a chat_template", entry) for entry in template]
        named = [entry for entry in entries if entry.get("name") == "default"]
        template = (named or entries or [{}])[0].get("template")
    if not isinstance(template, str):
        refuse(path, f"has {kind_of(template)} as its chat_template, not a text: {AGAIN}")
    return template


def kind(folder: Path) -> str:
    """Name the algorithm of tokenizer.json; without one, the format of the file that is there."""
    data = read_object(folder / TOKENIZER)
    return source(folder)[1] if data is None else algorithm(folder / TOKENIZER, data)


def algorithm(path: Path, data: Object) -> str:
    model = as_object(path, "its model", data.get("model"))
    name = model.get("type")
    if name is None:  # early files did not say
        name = "BPE" if "merges" in model else "Unigram"
    if name not in ALGORITHMS:
        refuse(path, f"has a model of type {name!r}; {', '.join(ALGORITHMS)} are known: {AGAIN}")
    return str(name).lower()


def source(folder: Path) -> tuple[Path, str]:
    """Find the file that stands in for tokenizer.json, and its format."""
    name = next((name for name in SOURCES if (folder / name).is_file()), None)
    if name is None:
        names = ", ".join((TOKENIZER, *SOURCES))
        raise ModelFileError(f"{folder.name} has none of {names}: {WHOLE}")
    path = folder / name
    if name == "vocab.json" and not (folder / "merges.txt").is_file():
        refuse(path, f"comes without merges.txt: {WHOLE}")
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except OSError as error:
        refuse(path, f"cannot be read: {error.strerror or error}")
    refuse_pointer(path, start)
    if name == "tokenizer.model" and not start.startswith(b"\n"):
        return path, "tiktoken"  # the same name, but lines of text
    return path, SOURCES[name]


def end_ids(folder: Path, vocabulary: int) -> frozenset[int]:
    """Read the tokens that generation_config.json and config.json name as the end of a reply."""
    ends: set[int] = set()
    for path in (folder / "generation_config.json", folder / "config.json"):
        data = read(path)
        for part in (data, as_object(path, "its text_config", data.get("text_config", {}))):
            ends.update(token_ids(path, part, "eos_token_id", vocabulary))
    return frozenset(ends)


def token_ids(path: Path, data: Object, name: str, vocabulary: int) -> Iterator[int]:
    """Read the tokens a setting names: none, one, or a list."""
    value = data.get(name)
    for token in value if isinstance(value, list) else [] if value is None else [value]:
        if not isinstance(token, int) or isinstance(token, bool):
            refuse(path, f"has {kind_of(token)} in {name}, not the number of a token: {AGAIN}")
        if not 0 <= token < vocabulary:
            refuse(
                path,
                f"has token {token:,} in {name}, but the model has {vocabulary:,} tokens, from 0: "
                "correct it, or take files that belong together",
            )
        yield token


def settings(folder: Path) -> Object:
    """Read tokenizer_config.json; where it lists no tokens, special_tokens_map.json too."""
    values = read(folder / SETTINGS)
    if "added_tokens_decoder" in values:
        return values
    return {**values, **read(folder / "special_tokens_map.json")}


def token_named(path: Path, data: Object, name: str) -> str | None:
    """Read the text of a token in the settings, given bare or with how it is found in a text."""
    text = data.get(name)
    if isinstance(text, dict):
        text = text.get("content")
    if text is not None and not isinstance(text, str):
        refuse(path, f"has {kind_of(text)} as its {name}, not a text: {AGAIN}")
    return text or None


def added_tokens(path: Path, data: Object) -> dict[int, Added]:
    """Read the tokens that a tokenizer.json adds to its model's, by id."""
    listed = data.get("added_tokens") or []
    if not isinstance(listed, list):
        refuse(path, f"has {kind_of(listed)} as added_tokens, not a list: {AGAIN}")
    entries = [as_object(path, "an added token", entry) for entry in listed]
    return {_id(path, entry.get("id")): added(path, entry) for entry in entries}


def listed_tokens(path: Path, data: Object) -> dict[int, Added]:
    """Read the settings' list of them; it has the last word on what is special."""
    listed = as_object(path, "added_tokens_decoder", data.get("added_tokens_decoder") or {})
    return {
        _id(path, token): added(path, as_object(path, f"token {token}", entry))
        for token, entry in listed.items()
    }


def _id(path: Path, value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        refuse(path, f"numbers an added token {value!r}: {AGAIN}")


def added(path: Path, entry: Object) -> Added:
    content = entry.get("content")
    if not isinstance(content, str):
        refuse(path, f"has {kind_of(content)} as the content of a token, not a text: {AGAIN}")
    special = bool(entry.get("special"))
    return Added(
        content,
        special,
        bool(entry.get("single_word")),
        bool(entry.get("lstrip")),
        bool(entry.get("rstrip")),
        bool(entry.get("normalized", not special)),
    )
