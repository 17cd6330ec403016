"""Every token of a folder's vocabulary, its text, and the tokens a text is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from localspec_mlx.folder.definition import Definition, without
from localspec_mlx.folder.files import refuse
from localspec_mlx.folder.library import TextEncoder, TokenizerLibrary
from localspec_mlx.folder.limits import check_added
from localspec_mlx.folder.marks import Marks
from localspec_mlx.folder.spelling import ByteSpelling, spelling
from localspec_mlx.folder.vocabulary import Added, listed_tokens


@dataclass(frozen=True, slots=True)
class TokenTable:
    texts: list[str]
    added: Mapping[int, Added]
    silent: frozenset[int]  # control tokens, and numbers that no token has
    spelling: ByteSpelling
    plain: TextEncoder
    special: TextEncoder  # finds control tokens by their texts; two, as threads may ask at once

    def token_bytes(self, token: int) -> bytes:
        if token in self.silent:
            return b""
        if token in self.added:
            return self.spelling.added_bytes(self.texts[token])
        return self.spelling.token_bytes(self.texts[token])


def check_width(path: Path, library: TokenizerLibrary, vocabulary: int) -> None:
    most = max(library.ids.values(), default=-1)
    if not 0 <= most < vocabulary:
        refuse(
            path,
            f"numbers its tokens up to {most:,}, but the model has {vocabulary:,}, from 0: take "
            "files that belong together",
        )


def all_added(
    definition: Definition, settings: Path, library: TokenizerLibrary, vocabulary: int
) -> dict[int, Added]:
    """Collect the added tokens that the model has logits for, by id.

    The settings may name more of them, and have the last word on how one is found; what
    contradicts the tokens that are there is left out.
    """
    ids = library.ids | {entry.content: token for token, entry in definition.added.items()}
    taken = set(ids.values())
    listed = {
        token: entry
        for token, entry in listed_tokens(settings, definition.settings).items()
        if ids.get(entry.content) == token or not (entry.content in ids or token in taken)
    }
    check_added(settings, listed)
    tokens = {**definition.added, **listed}
    return {token: entry for token, entry in tokens.items() if token < vocabulary}


def words_of(
    definition: Definition,
    library: TokenizerLibrary,
    added: Mapping[int, Added],
    marks: Marks,
    vocabulary: int,
) -> TokenTable:
    texts = [""] * vocabulary
    for text, token in library.ids.items():
        texts[token] = text
    for token, entry in added.items():
        texts[token] = entry.content
    missing = [token for token, text in enumerate(texts) if not text]
    for token in missing:
        texts[token] = f"<unused {token}>"
    added = controlled(added, texts, marks)
    silent = {token for token, entry in added.items() if entry.special}.union(missing)
    return TokenTable(
        texts,
        added,
        frozenset(silent),
        spelling(definition.path, definition.data),
        plain(definition, library, added),
        library.reader(added, special=True),
    )


def plain(
    definition: Definition, library: TokenizerLibrary, added: Mapping[int, Added]
) -> TextEncoder:
    """Make an encoder that never yields a control token."""
    own = {
        token: entry for token, entry in added.items() if library.ids.get(entry.content) == token
    }
    control = {entry.content for entry in own.values() if entry.special}
    changed = without(definition, control) if control else None
    if changed is None:
        return library.reader(added, special=False)
    others = {
        token: entry for token, entry in added.items() if not (token in own and entry.special)
    }
    return TokenizerLibrary(definition.path, changed).reader(others, special=False)


def controlled(added: Mapping[int, Added], texts: list[str], marks: Marks) -> dict[int, Added]:
    """Collect the added tokens, and those that begin, part or end a text, which are no text."""
    tokens = dict(added)
    filling = marks.infill.ends if marks.infill else frozenset()
    for token in (marks.ends | filling) & added.keys():
        tokens[token] = replace(tokens[token], special=True)
    for mark in (marks.bos, marks.eos):
        if mark is not None:
            tokens[mark] = replace(tokens.get(mark, Added(texts[mark])), special=True)
    return tokens
