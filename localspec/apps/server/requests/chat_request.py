"""The request of /v1/chat/completions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from localspec.apps.server.conversation.entries import references
from localspec.apps.server.conversation.items import MessagesOrItems, groups
from localspec.apps.server.conversation.transcript import messages_of
from localspec.apps.server.faults import refused
from localspec.apps.server.requests.completion_prompts import MARKER
from localspec.apps.server.requests.fields import Drafting, Logprobs, Object, OpenAiRequest
from localspec.apps.server.requests.media_parts import MediaReference
from localspec.apps.server.requests.prepared import Prepared, prepare_conversation
from localspec.apps.server.requests.thinking import (
    Reasoning,
    Thinking,
    ThoughtFields,
    as_effort,
    as_word,
    reasoning,
    with_budget,
)
from localspec.apps.server.requests.tools import (
    Function,
    ToolChoice,
    ToolChoiceField,
    ToolsField,
    function_tools,
)
from localspec.apps.server.requests.validators import as_listed, as_object, as_type
from localspec.apps.server.served import Served
from localspec.core.requests.settings import Settings
from localspec.interfaces.media import Medium
from localspec.running.runtime.media_text import split_at_marks
from localspec.running.runtime.prompting import Conversation, render_prompt

ITEM_FIELDS = ("input", "instructions", "text")  # of /v1/responses
TEXT_FIELDS = {"format": "response_format"}  # of a text there, by their names in chats


class Traced(Drafting):
    trace: bool = False  # whether a stream names the proposer of each character


def as_switch(value: object) -> object:
    return bool(value) if isinstance(value, int) else value


class ChatRequest(ThoughtFields, OpenAiRequest):
    """OpenAI's fields, and those that editors for llama.cpp's server add."""

    messages: MessagesOrItems = Field(min_length=1)
    localspec: Traced = Traced(depth=None)
    return_progress: bool = False  # while the prompt is read, as llama.cpp's server has it
    tools: ToolsField = None
    tool_choice: ToolChoiceField = ToolChoice()
    parallel_tool_calls: bool | None = None
    logprobs: Annotated[bool | None, BeforeValidator(as_switch)] = None
    top_logprobs: Logprobs | None = None
    reasoning_effort: Annotated[str | None, BeforeValidator(as_word)] = None
    reasoning: Annotated[Reasoning, BeforeValidator(as_effort)] = Reasoning()
    enable_thinking: bool | None = None  # as Qwen's own service calls it
    think: Annotated[Reasoning, BeforeValidator(as_effort)] = Reasoning()  # as Ollama does
    thinking: Annotated[Thinking, BeforeValidator(as_type)] = Thinking()
    chat_template_kwargs: Annotated[Object, BeforeValidator(as_object)] = Field(
        default_factory=dict
    )
    modalities: Annotated[list[str] | None, BeforeValidator(as_listed)] = None
    functions: list[Function] | None = None  # as tools were given once
    function_call: ToolChoiceField = ToolChoice()

    @property
    def own_budget(self) -> int | None:
        budgets = (super().own_budget, self.thinking.budget, self.reasoning.max_tokens)
        return next((budget for budget in budgets if budget is not None), None)

    @model_validator(mode="before")
    @classmethod
    def of_items(cls, body: object) -> object:
        """Read the fields of a request for a response: Cursor sends them for some models."""
        if not isinstance(body, dict) or body.get("messages") or not body.get("input"):
            return body
        rules = body.get("instructions")
        first = [{"role": "system", "content": rules}] if isinstance(rules, str) and rules else []
        items = body["input"] if isinstance(body["input"], list) else [body["input"]]
        fields = {name: value for name, value in body.items() if name not in ITEM_FIELDS}
        text = body["text"] if isinstance(body.get("text"), dict) else {}
        fields = {TEXT_FIELDS.get(name, name): value for name, value in text.items()} | fields
        return {**fields, "messages": [*first, *items]}

    def references(self) -> list[MediaReference]:
        return references(groups(self.messages))

    def conversation(self, media: Sequence[Medium]) -> Conversation:
        if self.modalities and "text" not in self.modalities:
            raise refused(
                "only text output is supported: remove the other modalities", "modalities"
            )
        choice = self.function_call if self.functions else self.tool_choice
        return Conversation(
            messages=messages_of(groups(self.messages)),
            tools=[
                *function_tools(self.tools),
                *(function.tool for function in self.functions or ()),
            ],
            choice=choice.mode,
            named=choice.name,
            allowed=choice.allowed,
            parallel=False if self.functions else self.parallel_tool_calls,
            format=self.form,
            extra=self._template_variables(),
            media=media,
        )

    def _template_variables(self) -> dict[str, JsonValue]:
        variables = reasoning(self.reasoning_effort or self.reasoning.effort or self.think.effort)
        switches = (self.reasoning, self.thinking, self.think)
        for enabled in (*(switch.enabled for switch in switches), self.enable_thinking):
            if enabled is not None:
                variables["enable_thinking"] = enabled
        return variables | self.chat_template_kwargs

    def prepare(self, served: Served, media: Sequence[Medium]) -> list[Prepared]:
        conversation = self.conversation(media)
        return [prepare_conversation(served, conversation, self.engine_settings(served))]

    def rendered(self, served: Served, media: Sequence[Medium]) -> str:
        """Render the conversation by the model's template, with a marker for each medium."""
        asked = self.conversation(media)
        settings = with_budget(served, asked.extra, self.engine_settings(served))
        text = render_prompt(served.runtime.text, asked, settings)
        return MARKER.join(split_at_marks(text, media).texts)

    @property
    def alternatives(self) -> int | None:
        """Return how many tokens are reported at each place; None: no log-probabilities."""
        likeliest = self.top_logprobs or self.n_probs
        return likeliest if self.logprobs or self.n_probs else None

    def engine_settings(self, served: Served) -> Settings:
        settings = self.settings_with(served, self.token_limit, self.alternatives)
        return self.with_own_budget(settings)

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if self.top_logprobs and self.alternatives is None:
            yield "top_logprobs"
        if self.post_sampling_probs and self.alternatives is None:
            yield "post_sampling_probs"
        if not self.stream:
            yield from ("localspec.trace",) if self.localspec.trace else ()
            yield from ("return_progress",) if self.return_progress else ()
        others = (kind for kind in self.modalities or () if kind != "text")
        yield from (f"modalities.{kind}" for kind in others)
