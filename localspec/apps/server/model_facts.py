"""Facts of a model for clients, read without its weights."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.base.errors import LocalSpecError
from localspec.base.tokenizer import Tokenizer
from localspec.formats.dialects import dialect_of
from localspec.formats.templates.capabilities import Takes
from localspec.formats.templates.chat_template import ChatTemplate


@dataclass(frozen=True, slots=True)
class ModelFacts:
    template: str
    takes: Takes | None  # what the template reads; None: there is none, or it is broken
    thinks: bool
    fills_in: bool  # what belongs between two texts
    bos: str
    eos: str

    @property
    def calls(self) -> bool:
        """Return whether its template knows tools."""
        return self.takes is not None and self.takes.tools


UNREAD = ModelFacts("", None, thinks=False, fills_in=False, bos="", eos="")


def facts(tokenizer: Tokenizer) -> ModelFacts:
    """Ask a tokenizer and its chat template; slow, so not on the event loop."""

    def spelt(token: int | None) -> str:
        return "" if token is None else tokenizer.token_text(token)

    return ModelFacts(
        tokenizer.chat_template or "",
        takes(tokenizer),
        dialect_of(tokenizer.chat_template).reasons,
        tokenizer.infill is not None,
        spelt(tokenizer.bos),
        spelt(tokenizer.eos),
    )


def takes(tokenizer: Tokenizer) -> Takes | None:
    if not tokenizer.chat_template:
        return None
    try:
        return ChatTemplate(tokenizer).takes
    except LocalSpecError:
        return None
