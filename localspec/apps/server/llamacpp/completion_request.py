"""The requests of /completion and /infill."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from localspec.apps.server.faults import refused
from localspec.apps.server.requests.completion_prompts import (
    MARKER,
    AnyPrompt,
    AnyPromptField,
    MediaPrompt,
    prompts,
    read,
    references_of,
    with_own_media,
)
from localspec.apps.server.requests.fields import MAX_TOKENS, Copies, Logprobs, Stops, TextRequest
from localspec.apps.server.requests.forms import FormatFields
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.media_parts import MediaReference
from localspec.apps.server.requests.prepared import Prepared, prepare_text, with_infill_ends
from localspec.apps.server.requests.sampling import NEVER
from localspec.apps.server.served import Served
from localspec.base.tokenizer import Tokenizer
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.formats.templates.fill_in_middle import middle
from localspec.interfaces.media import Medium

IMAGE = re.compile(r"\[img-(\d+)\]")


def without_ends(sampling: Sampling, tokenizer: Tokenizer) -> Sampling:
    """Forbid the tokens that end a text, as llama.cpp does; other APIs go on after them."""
    never = dict.fromkeys(tokenizer.ends, NEVER)
    return replace(sampling, bias={**sampling.bias, **never})


class NumberedImage(RequestPart):
    """A picture that stands in a prompt where its number does: [img-12]."""

    data: str
    id: int


class CompletionFields(FormatFields, TextRequest):
    """The fields that completions and middles share."""

    clamps: ClassVar[bool] = True
    n_predict: int | None = None
    max_tokens: int = -1  # as OpenAI calls it
    n_indent: int = 0  # of each line after the first
    t_max_predict_ms: float = -1  # after the first token, once a line is complete
    stop: Stops = Field(default_factory=list)
    stream: bool = False
    response_fields: list[str] = Field(default_factory=list)
    ignore_eos: bool = False
    n_probs: Logprobs = 0  # tokens with their log-probabilities, at each place the likeliest
    logprobs: Logprobs | None = None  # the same
    post_sampling_probs: bool = False  # probabilities as tokens were drawn, not the model's own
    return_tokens: bool = False
    image_data: list[NumberedImage] = Field(default_factory=list)

    @property
    def most(self) -> int:
        """The limit of tokens: below 0 none, and at 0 the prompt is only read."""
        return min(self.max_tokens if self.n_predict is None else self.n_predict, MAX_TOKENS)

    def settings(self, served: Served) -> Settings:
        most = self.most
        max_tokens = None if most < 0 else max(most, 1)
        logprobs = self.n_probs or self.logprobs or None
        settings = self.base_settings(served, max_tokens, tuple(self.stop), logprobs)
        sampling = settings.sampling
        if self.ignore_eos:
            sampling = without_ends(sampling, served.runtime.tokenizer)
        depth = settings.depth if most else 0
        settings = replace(settings, sampling=sampling, grammar=self.form, depth=depth)
        return replace(settings, sampled_logprobs=self.post_sampling_probs)


class LlamaCompletionRequest(CompletionFields):
    prompt: AnyPromptField
    n: Copies = 1  # replies to each prompt
    n_cmpl: Copies = 1  # the same

    @property
    def copies(self) -> int:
        return max(self.n, self.n_cmpl)

    @property
    def prompts(self) -> Sequence[AnyPrompt]:
        listed = prompts(self.prompt, self.copies)
        return [self._with_images(prompt) for prompt in listed] if self.image_data else listed

    def _with_images(self, prompt: AnyPrompt) -> MediaPrompt:
        """Put markers in place of the numbers of pictures in a text."""
        if not isinstance(prompt, str):
            raise refused("image_data goes with a prompt that is a text", "image_data")
        files = {str(image.id): image.data for image in self.image_data}
        text, *others = IMAGE.split(prompt)
        numbers = others[::2]
        if absent := files.keys() ^ set(numbers):
            at = min(absent)
            where = "image_data" if at in numbers else "the prompt"
            raise refused(f"there is no picture {at} in {where}: [img-{at}]", "image_data")
        return MediaPrompt(
            prompt_string=MARKER.join([text, *others[1::2]]),
            multimodal_data=[files[number] for number in numbers],
        )

    def references(self) -> list[MediaReference]:
        return references_of(list(self.prompts) if self.image_data else self.prompt)

    def prepare(self, served: Served, media: Sequence[Medium]) -> list[Prepared]:
        settings = self.settings(served)
        prepared = []
        for prompt, own in with_own_media(self.prompts, media):
            ids, runs = read(served, prompt, own)
            prepared.append(prepare_text(served, ids, replace(settings, media=runs)))
        return prepared


class Extra(RequestPart):
    """A piece of another file."""

    text: str = ""
    filename: str | None = None


class InfillRequest(CompletionFields):
    input_prefix: str = ""
    input_suffix: str = ""
    input_extra: Sequence[Extra] = ()
    prompt: str = ""

    def prepare(self, served: Served, media: Sequence[Medium]) -> list[Prepared]:
        if self.image_data:
            raise refused(
                "a middle is filled in between texts: leave the pictures out", "image_data"
            )
        context = served.runtime.context
        half = context // 2  # the most that a reply may take
        reply_tokens = half if self.most < 0 else min(max(self.most, 1), half)
        prompt = middle(
            served.runtime.tokenizer,
            self.input_prefix,
            self.input_suffix,
            [(extra.filename or "other", extra.text) for extra in self.input_extra],
            self.prompt,
            context - reply_tokens,
        )
        settings = with_infill_ends(served, self.settings(served))
        return [prepare_text(served, prompt, settings)]
