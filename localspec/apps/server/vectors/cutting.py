"""The fields that all requests for vectors and ranks have: the model, and how texts are cut."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from localspec.apps.server.faults import refused
from localspec.apps.server.requests.fields import as_name
from localspec.apps.server.requests.leniency import RequestPart

WORDS = {"none": False, "end": True, "right": True}


class CutFields(RequestPart):
    """A model, and how to cut, as Ollama, TEI, Cohere and vLLM call it."""

    cut_by_default: ClassVar[bool] = False
    model: Annotated[str, BeforeValidator(as_name)] = ""
    truncate: bool | str | None = None  # or a word: NONE, END
    truncation: bool | None = None  # as Jina and Voyage call it
    truncate_prompt_tokens: int | None = Field(None, ge=-1)  # -1: as many as the model reads

    def most_tokens(self, context: int) -> int | None:
        """Return to how many tokens a text is cut; None: it is refused if it is too long."""
        if self.truncate_prompt_tokens is not None:
            most = self.truncate_prompt_tokens
            return context if most == -1 else min(most, context)
        return context if self._cuts else None

    @property
    def _cuts(self) -> bool:
        if isinstance(self.truncate, str):
            word = self.truncate.lower()
            if word not in WORDS:
                words = ", ".join(map(str.upper, WORDS))
                raise refused(f"truncate is {self.truncate[:40]!r}; known: {words}", "truncate")
            return WORDS[word]
        chosen = [way for way in (self.truncate, self.truncation) if way is not None]
        return chosen[0] if chosen else self.cut_by_default
