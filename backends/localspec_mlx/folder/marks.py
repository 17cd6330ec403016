"""The tokens at the start and at the end of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localspec.base.tokenizer import Infill
from localspec.formats.templates.fill_in_middle import infill_tokens
from localspec_mlx.folder.files import AGAIN, Object, kind_of, read, refuse
from localspec_mlx.folder.library import TokenizerLibrary
from localspec_mlx.folder.vocabulary import SETTINGS, Added, end_ids, token_ids, token_named

# Control tokens after which a model has said what it had to say, whatever its settings name:
# those llama.cpp knows. `</s>` is left to the settings: it also ends what is struck through.
_ENDS = """
<|im_end|> <|eot_id|> <|eom_id|> <|end|> <|return|> <|call|> <|flush|> <|calls|>
<end_of_turn> <turn|> <|tool_response> <|endoftext|> <|end_of_text|> <eos> <EOT> _<EOT>
[EOT] [EOS] [e~[ <end_of_utterance> <\uff5cend▁of▁sentence\uff5c>
"""
ENDS = frozenset(_ENDS.split())
# Where both of a pair are there, <|end|> ends a thought, not the reply.
PAIRS = ({"<|return|>", "<|call|>"}, {"<|calls|>", "<|flush|>"})
# After these another file begins, where code is filled in. Some vocabularies call them text.
_SEPARATORS = """
<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD]
<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame> <|file_sep|>
"""
SEPARATORS = frozenset(_SEPARATORS.split())


@dataclass(frozen=True, slots=True)
class Marks:
    bos: int | None
    starts: bool  # whether a text should begin with it
    eos: int | None
    ends: frozenset[int]
    infill: Infill | None
    before: Sequence[int]  # a text that is read as a whole
    behind: Sequence[int]


@dataclass(frozen=True, slots=True)
class Naming:
    """Finds the tokens that a folder's settings name."""

    folder: Path
    settings: Object
    ids: Mapping[str, int]
    vocabulary: int

    def marks(self, library: TokenizerLibrary, added: Mapping[int, Added]) -> Marks:
        bos, eos = self._token("bos"), self._token("eos")
        starts = bos is not None and (library.starts_with(bos) or self._setting("add_bos_token"))
        named = end_ids(self.folder, self.vocabulary) | known_ends(added)
        ends = named if eos is None else named | {eos}
        before, behind = library.marks()
        if starts and bos is not None:
            before = before or (bos,)
        if self._setting("add_eos_token") and eos is not None:
            behind = behind or (eos,)
        infill = infill_tokens(by_text(added).get, {})
        return Marks(bos, starts, eos, ends, infill, before, behind)

    def _token(self, name: str) -> int | None:
        """Find a token by its text in the settings; where they do not have it, by its number."""
        path = self.folder / SETTINGS
        text = token_named(path, self.settings, f"{name}_token")
        if text is not None:
            if text not in self.ids:
                refuse(
                    path,
                    f"has {text!r} as its {name}_token, which is none of the {len(self.ids):,} "
                    "tokens there are: correct it, or take files that belong together",
                )
            return self.ids[text]
        if f"{name}_token" in self.settings:
            return None
        path = self.folder / "config.json"
        return next(token_ids(path, read(path), f"{name}_token_id", self.vocabulary), None)

    def _setting(self, name: str) -> bool:
        value = self.settings.get(name)
        if value is not None and not isinstance(value, bool):
            path = self.folder / SETTINGS
            refuse(path, f"has {kind_of(value)} as {name}, not true or false: {AGAIN}")
        return bool(value)


def known_ends(added: Mapping[int, Added]) -> frozenset[int]:
    """Find the tokens whose texts alone show that a reply is over."""
    named = {
        text: token
        for text, token in by_text(added).items()
        if text in SEPARATORS or (added[token].special and text in ENDS)
    }
    if any(pair <= named.keys() for pair in PAIRS):
        named.pop("<|end|>", None)
    return frozenset(named.values())


def by_text(added: Mapping[int, Added]) -> dict[str, int]:
    return {entry.content: token for token, entry in added.items()}
