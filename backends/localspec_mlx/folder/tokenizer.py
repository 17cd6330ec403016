"""The tokenizer of a model folder behind the core's protocol."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from localspec.base.tokens import Tokens, tokens_of
from localspec_mlx.folder.definition import definition
from localspec_mlx.folder.library import TokenizerLibrary
from localspec_mlx.folder.marks import Marks, Naming
from localspec_mlx.folder.vocabulary import SETTINGS, chat_template
from localspec_mlx.folder.words import TokenTable, all_added, check_width, words_of


class FolderTokenizer:
    def __init__(
        self, kind: str, words: TokenTable, marks: Marks, chat_template: str | None
    ) -> None:
        self.kind = kind
        self.chat_template = chat_template
        self.size = len(words.texts)
        self.bos, self.eos = marks.bos, marks.eos
        self.starts = marks.starts
        self.ends, self.infill = marks.ends, marks.infill
        self.around = tokens_of(marks.before), tokens_of(marks.behind)  # a whole text
        self.token_bytes = cache(words.token_bytes)
        self.token_text = words.texts.__getitem__
        self._words = words

    def encode(self, text: str, *, special: bool = False) -> Tokens:
        reader = self._words.special if special else self._words.plain
        return tokens_of(reader.ids(text.encode("utf-8", "replace").decode()))


def load_tokenizer(folder: Path, vocabulary: int) -> FolderTokenizer:
    """Build the tokenizer of a model that has logits for `vocabulary` tokens."""
    parsed = definition(folder)
    library = TokenizerLibrary(parsed.path, parsed.text)
    check_width(parsed.path, library, vocabulary)
    added = all_added(parsed, folder / SETTINGS, library, vocabulary)
    ids = library.ids | {entry.content: token for token, entry in added.items()}
    marks = Naming(folder, parsed.settings, ids, vocabulary).marks(library, added)
    words = words_of(parsed, library, added, marks, vocabulary)
    return FolderTokenizer(parsed.kind, words, marks, chat_template(folder))
