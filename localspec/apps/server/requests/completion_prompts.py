"""Prompts of completions: texts, tokens, both in turn, or texts with pictures and sounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from localspec.apps.server.faults import refused
from localspec.apps.server.requests.fields import MAX_CHOICES
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.media_parts import Images, MediaReference
from localspec.apps.server.requests.prompts import One, as_text, is_object, is_one, tokens
from localspec.apps.server.served import Served
from localspec.interfaces.media import Medium, Run
from localspec.running.runtime.media_text import MediaText

EMPTY = "the prompt is empty: give a text, or a token at least"
MARKER = "<__media__>"  # the place of a picture or a sound in a text, as libmtmd writes it


class MediaPrompt(RequestPart):
    """A text with a marker for each of its pictures and sounds."""

    prompt_string: str
    multimodal_data: Images

    @property
    def references(self) -> list[MediaReference]:
        """List its pictures and sounds, which only their files tell apart."""
        return [MediaReference(None, file, "multimodal_data") for file in self.multimodal_data]

    def text(self, media: Sequence[Medium]) -> MediaText:
        texts = self.prompt_string.split(MARKER)
        if len(texts) != len(media) + 1:
            raise refused(
                f"the prompt has {len(texts) - 1} markers {MARKER} for {len(media)} pictures and "
                "sounds: write one for each",
                "prompt",
            )
        return MediaText(texts, media)


AnyPrompt = One | MediaPrompt


def as_any_prompt(value: object) -> object:
    """Read a text that stands in an object without pictures."""
    if isinstance(value, list):
        return [as_any_prompt(prompt) for prompt in value] if any(map(is_object, value)) else value
    if isinstance(value, dict) and value.get("multimodal_data"):
        return value
    return as_text(value)


AnyPromptField = Annotated[
    AnyPrompt | Annotated[list[AnyPrompt], Field(fail_fast=True)], BeforeValidator(as_any_prompt)
]


def count(prompt: AnyPrompt | list[AnyPrompt], copies: int = 1) -> int:
    """Count the prompts, quickly where one has a million tokens; refuse too many."""
    if isinstance(prompt, str | MediaPrompt) or is_one(prompt):
        return 1
    if not prompt:
        raise refused(EMPTY, "prompt")
    if len(prompt) * copies > MAX_CHOICES:
        things, field = ("replies", "n") if copies > 1 else ("prompts", "prompt")
        raise refused(f"a request may have {MAX_CHOICES} {things}", field)
    return len(prompt)


def prompts(prompt: AnyPrompt | list[AnyPrompt], copies: int = 1) -> list[AnyPrompt]:
    """List the prompts; one may be tokens with texts between them."""
    count(prompt, copies)
    if isinstance(prompt, str | MediaPrompt):
        return [prompt]
    if [] in prompt:
        raise refused(EMPTY, "prompt")
    if is_one(prompt):
        return [[piece for piece in prompt if isinstance(piece, int | str)]]
    return [one for one in prompt if not isinstance(one, int)]


def references_of(prompt: AnyPrompt | list[AnyPrompt]) -> list[MediaReference]:
    """List the pictures and sounds, quickly where there are tokens only."""
    if isinstance(prompt, MediaPrompt):
        return prompt.references
    if isinstance(prompt, str) or is_one(prompt):
        return []
    with_files = (one for one in prompt if isinstance(one, MediaPrompt))
    return [reference for one in with_files for reference in one.references]


def with_own_media(
    prompts: Sequence[AnyPrompt], media: Sequence[Medium]
) -> list[tuple[AnyPrompt, Sequence[Medium]]]:
    """Put beside each prompt its own pictures and sounds, out of those of the request."""
    pairs: list[tuple[AnyPrompt, Sequence[Medium]]] = []
    for prompt in prompts:
        own = len(references_of(prompt))
        pairs.append((prompt, media[:own]))
        media = media[own:]
    return pairs


def read(
    served: Served, prompt: AnyPrompt, media: Sequence[Medium]
) -> tuple[Sequence[int], tuple[Run, ...]]:
    """Tokenise a prompt; return the runs of its pictures and sounds, too."""
    if isinstance(prompt, MediaPrompt):
        return prompt.text(media).read(served.runtime.text)
    return tokens(served, prompt), ()
