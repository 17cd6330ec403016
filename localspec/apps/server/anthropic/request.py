"""The request of /v1/messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import AliasChoices, BeforeValidator, Field, JsonValue, model_validator

from localspec.apps.server.conversation.entries import BREAK, Entry, Speech, joined, references
from localspec.apps.server.conversation.items import groups
from localspec.apps.server.conversation.messages import Message
from localspec.apps.server.conversation.parts import Part, Parts, paragraphs
from localspec.apps.server.conversation.transcript import messages_of
from localspec.apps.server.faults import refused
from localspec.apps.server.requests.fields import MAX_TOKENS, Object, Stops, TextRequest
from localspec.apps.server.requests.forms import JsonSchema, grammar_of_schema
from localspec.apps.server.requests.leniency import LeftOut, RequestPart
from localspec.apps.server.requests.media_parts import MediaReference
from localspec.apps.server.requests.prepared import Prepared, prepare_conversation
from localspec.apps.server.requests.sampling import ANTHROPIC, Bounds
from localspec.apps.server.requests.thinking import Thinking, ThoughtFields
from localspec.apps.server.requests.tools import Name, as_flat_function
from localspec.apps.server.requests.validators import ByType, as_type
from localspec.apps.server.served import Served
from localspec.formats.grammar.grammar import Grammar
from localspec.formats.templates.message import Json, Tool
from localspec.interfaces.media import Medium
from localspec.running.runtime.prompting import Choice, Conversation

BILLING = re.compile(r"\s*x-anthropic-billing-header:[^\n]*\n*")
CHOICES: dict[str, Choice] = {"auto": "auto", "any": "required", "none": "none", "tool": "auto"}
KINDS = {"required": "any", "validated": "auto"}


class AnthropicMessage(Message):
    role: Literal["system", "developer", "user", "assistant"]

    def entries(self) -> list[Entry]:
        return [
            joined_texts(entry) if isinstance(entry, Speech) else entry
            for entry in super().entries()
            if entry != Speech("user", [])
        ]


def joined_texts(entry: Speech) -> Speech:
    role = "system" if entry.role == "developer" else entry.role
    return Speech(role, joined(entry.content, "" if role == "assistant" else BREAK))


def with_system(system: Sequence[Part], messages: Sequence[AnthropicMessage]) -> list[list[Entry]]:
    """List the entries of a conversation, without the line that Claude Code changes every time.

    That line stands first, so no prefix of a conversation would stay cached.
    """
    rules = paragraphs(system)
    match rules:
        case [str(first), *others]:
            rules = [BILLING.sub("", first, count=1), *others]
    return [*([[Speech("system", rules)]] if any(rules) else ()), *groups(messages)]


class AnthropicTool(RequestPart):
    type: Literal["custom", "function"]
    name: Name
    description: str | None = None
    input_schema: Object = Field(
        default_factory=dict, validation_alias=AliasChoices("input_schema", "parameters")
    )

    @property
    def tool(self) -> Tool:
        function: dict[str, Json] = {"name": self.name}
        if self.description is not None:
            function["description"] = self.description
        function["parameters"] = self.input_schema
        return {"type": "function", "function": function}


ToolField = Annotated[AnthropicTool | LeftOut, ByType("custom"), BeforeValidator(as_flat_function)]


class AnthropicToolChoice(RequestPart):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def of_chat(cls, value: object) -> object:
        """Read a choice as OpenAI writes it."""
        if not isinstance(value, dict):
            return value
        kind, function = value.get("type"), value.get("function")
        if isinstance(function, dict):
            return {"type": "tool", "name": function.get("name")}
        return {**value, "type": KINDS.get(kind, kind) if isinstance(kind, str) else "auto"}


class AnthropicThinking(Thinking):
    display: str | None = None  # "omitted": thoughts are not shown


class OutputFormat(JsonSchema):
    type: Literal["json_schema"]


class Output(RequestPart):
    effort: str | None = None
    format: OutputFormat | None = None


class CountRequest(ThoughtFields, TextRequest):
    bounds: ClassVar[Bounds] = ANTHROPIC
    messages: list[AnthropicMessage] = Field(min_length=1)
    system: Parts = Field(default_factory=list)
    tools: list[ToolField] | None = None
    tool_choice: Annotated[AnthropicToolChoice | None, BeforeValidator(as_type)] = None
    thinking: Annotated[AnthropicThinking | None, BeforeValidator(as_type)] = None
    output_config: Output = Output()
    output_format: OutputFormat | None = None  # as it was called once

    @property
    def own_budget(self) -> int | None:
        budget = super().own_budget
        return self.thinking.budget if self.thinking and budget is None else budget

    def references(self) -> list[MediaReference]:
        return references(with_system(self.system, self.messages))

    def conversation(self, media: Sequence[Medium] = ()) -> Conversation:
        choice = self.tool_choice or AnthropicToolChoice(type="auto")
        named = choice.name if choice.type == "tool" else None
        single = choice.disable_parallel_tool_use
        if choice.type == "tool" and named is None:
            raise refused('a tool_choice of type "tool" has a name: say which', "tool_choice")
        return Conversation(
            messages=messages_of(with_system(self.system, self.messages), {}),
            tools=[tool.tool for tool in self.tools or () if isinstance(tool, AnthropicTool)],
            choice=CHOICES[choice.type],
            named=named,
            parallel=None if single is None else not single,
            format=self._format(),
            extra=self._template_variables(),
            media=media,
        )

    def _format(self) -> Grammar | None:
        form = self.output_config.format or self.output_format
        return grammar_of_schema(form.schema_) if form else None

    def _template_variables(self) -> dict[str, JsonValue]:
        """Pass on the choice about thinking; without one, the chat template decides."""
        effort, thinking = self.output_config.effort, self.thinking
        variables: dict[str, JsonValue] = {} if effort is None else {"reasoning_effort": effort}
        if thinking and thinking.enabled is not None:
            variables["enable_thinking"] = thinking.enabled
        return variables

    def prepare(self, served: Served, media: Sequence[Medium]) -> list[Prepared]:
        settings = self.with_own_budget(self.base_settings(served, None))
        return [prepare_conversation(served, self.conversation(media), settings)]


class MessagesRequest(CountRequest):
    max_tokens: int | None = Field(None, ge=0, le=MAX_TOKENS)  # 0: only hold the prompt
    stop_sequences: Stops = Field(default_factory=list)
    stream: bool = False
    thread: Object | None = None  # refused so that libraries go on without: see the routes

    @property
    def hides_thoughts(self) -> bool:
        return self.thinking is not None and self.thinking.display == "omitted"

    def prepare(self, served: Served, media: Sequence[Medium]) -> list[Prepared]:
        stop = tuple(self.stop_sequences)
        limit = None if self.max_tokens is None else max(self.max_tokens, 1)
        settings = self.with_own_budget(self.base_settings(served, limit, stop))
        return [prepare_conversation(served, self.conversation(media), settings)]
