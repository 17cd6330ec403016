"""The tokenizers library behind a model folder: every call to it, its errors in our words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from localspec.base.errors import BackendError, one_line
from localspec_mlx.folder.files import AGAIN, refuse
from localspec_mlx.folder.vocabulary import Added


@dataclass(frozen=True, slots=True)
class TextEncoder:
    """Turns texts into tokens."""

    path: Path
    tokenizer: Tokenizer

    def ids(self, text: str) -> list[int]:
        try:  # as a batch: unlike `encode` it lets other threads run, and is twice as fast
            [encoding] = self.tokenizer.encode_batch_fast([text], add_special_tokens=False)
        except BaseException as error:
            if not _is_reported(error):
                raise
            fault = f"could not tokenise a text of {len(text):,} letters: {error}"
            raise BackendError(one_line(f"{self.path.name} {fault}")) from None
        ids: list[int] = encoding.ids
        return ids


class TokenizerLibrary:
    """A tokenizer.json as the library understands it."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        with refusing(path, "is no tokenizer"):
            self._loaded = Tokenizer.from_str(text)
            self._loaded.no_padding()
            if type(self._loaded.model).__name__ == "BPE":
                self._loaded.model.dropout = None
            self.ids: dict[str, int] = self._loaded.get_vocab(with_added_tokens=False)

    def starts_with(self, token: int) -> bool:
        """Return whether texts for training begin with a token."""
        with refusing(self._path, "could not tokenise an empty text"):
            return bool(self._loaded.encode("", add_special_tokens=True).ids[:1] == [token])

    def marks(self) -> tuple[Sequence[int], Sequence[int]]:
        """List the tokens that whole texts have before them and behind them."""
        with refusing(self._path, "could not tokenise a letter"):
            whole, bare = (
                self._loaded.encode("a", add_special_tokens=marked).ids for marked in (True, False)
            )
        spots = range(len(whole) - len(bare) + 1)
        at = next((at for at in spots if whole[at : at + len(bare)] == bare), len(whole))
        return whole[:at], whole[at + len(bare) :]

    def reader(self, added: Mapping[int, Added], *, special: bool) -> TextEncoder:
        """Make a second tokenizer on the same model; if not `special`, control tokens are text."""
        tokens = [(token, added[token]) for token in sorted(added)]
        with refusing(self._path, "has added tokens that cannot be"):
            made = Tokenizer(self._loaded.model)
            made.normalizer = self._loaded.normalizer
            made.pre_tokenizer = self._loaded.pre_tokenizer
            made.add_tokens([AddedToken(**asdict(token)) for _, token in tokens])
            made.encode_special_tokens = not special
            numbers = [made.token_to_id(token.content) for _, token in tokens]
        for (token, entry), number in zip(tokens, numbers, strict=True):
            if number != token:
                refuse(
                    self._path,
                    f"adds {entry.content!r} as token {token:,}, but it would be {number}: the "
                    "tokens before it are not all there; take files that belong together",
                )
        return TextEncoder(self._path, made)


@contextmanager
def refusing(path: Path, fault: str, then: str = AGAIN) -> Iterator[None]:
    """Report foreign code's complaints as errors of a file."""
    try:
        yield
    except BaseException as error:
        if not _is_reported(error):
            raise
        refuse(path, f"{fault} ({error}): {then}")


def _is_reported(error: BaseException) -> bool:
    """Return whether an error is the library's to report: a panic in it is no `Exception`."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
