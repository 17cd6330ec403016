"""The request of /v1/responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Annotated, ClassVar, Literal, LiteralString

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from localspec.apps.server.conversation.entries import Entry, Speech, references
from localspec.apps.server.conversation.items import groups
from localspec.apps.server.conversation.transcript import messages_of
from localspec.apps.server.faults import refused
from localspec.apps.server.openai.responses_input import Item, Items, names_of, tools_in
from localspec.apps.server.openai.responses_tools import ModelTool, Tools, model_tools
from localspec.apps.server.requests.fields import (
    Logprobs,
    MaxTokens,
    Object,
    StreamOptions,
    TextRequest,
)
from localspec.apps.server.requests.forms import JsonSchema, grammar_of_schema
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.media_parts import MediaReference
from localspec.apps.server.requests.prepared import Prepared, prepare_conversation
from localspec.apps.server.requests.sampling import OPENAI, Bounds
from localspec.apps.server.requests.thinking import Reasoning, ThoughtFields, as_effort, reasoning
from localspec.apps.server.requests.tools import ALLOWED, tool_name
from localspec.apps.server.requests.validators import as_listed, as_type
from localspec.apps.server.served import Served
from localspec.core.requests.settings import Settings
from localspec.formats.grammar.grammar import Grammar
from localspec.interfaces.media import Medium
from localspec.running.runtime.prompting import Choice, Conversation

LOGPROBS = "message.output_text.logprobs"
SEALED = "reasoning.encrypted_content"
INSTEAD: Mapping[str, LiteralString] = {
    "conversation": "there are no conversations here: go on from a response by "
    "previous_response_id, or send all items as input",
    "prompt": "there are no stored prompts here: send instructions and input",
    "background": "there are no answers in the background here: set stream, and read the answer "
    "as it comes",
}
ECHOED = (
    *("instructions", "max_output_tokens", "max_tool_calls", "metadata", "prompt_cache_key"),
    *("reasoning", "safety_identifier", "temperature", "text", "tools", "top_logprobs"),
    *("top_p", "user"),
)
LIMITS = ("max_output_tokens", "max_completion_tokens", "max_tokens")  # the latter as in chats
MODES: Mapping[str, Choice] = {"none": "none", "required": "required", "any": "required"}


class ResponseToolChoice(RequestPart):
    """A mode, or the kind of tool that has to be called, with a name if it has one."""

    type: str
    name: str | None = None
    mode: str | None = None  # of the tools that are allowed
    tools: list[Object] = Field(default_factory=list)

    def echo(self) -> object:
        if self.type == ALLOWED:
            return {"type": self.type, "mode": self.mode or "auto", "tools": self.tools}
        return self.type if self.name is None else {"type": self.type, "name": self.name}

    @property
    def choice(self) -> Choice:
        return MODES.get(self.mode or self.type, "auto")

    def required_tool(self, tools: Mapping[str, ModelTool]) -> str | None:
        """Return the name, as the model knows it, of the one tool that has to be called."""
        if self.type in (*MODES, "auto", ALLOWED):
            return None
        called = self.name or self.type
        return next((name for name, tool in tools.items() if tool.called == called), called)

    def allowed_tools(self, tools: Mapping[str, ModelTool]) -> Set[str] | None:
        """Return the names, as the model knows them, of the tools that may be called; None: all."""
        if self.type != ALLOWED:
            return None
        listed = {str(tool_name(tool)) for tool in self.tools}
        return {name for name, tool in tools.items() if tool.called in listed} or listed


class ResponseFormat(JsonSchema):
    type: Literal["text", "json_object", "json_schema"]

    @property
    def grammar(self) -> Grammar | None:
        match self.type:
            case "text":
                return None
            case "json_object":
                return Grammar("json_object")
            case "json_schema":
                if "schema_" not in self.model_fields_set:
                    raise refused("a json_schema needs the schema", "text.format.schema")
                return grammar_of_schema(self.schema_)


def as_flat(value: object) -> object:
    """Take a schema out of the object that chat requests have around it."""
    within = value.get("json_schema") if isinstance(value, dict) else None
    return {**within, "type": "json_schema"} if isinstance(within, dict) else as_type(value)


def as_choice(value: object) -> object:
    """Take a name out of the object that chat requests have around it."""
    if value in ("", {}):
        return None
    if not isinstance(value, dict):
        return as_type(value)
    kind = ALLOWED if value.get("type") == ALLOWED else "function"
    within = value.get(kind)
    return {"type": kind, **within} if isinstance(within, dict) else value


class Text(RequestPart):
    format: Annotated[ResponseFormat, BeforeValidator(as_flat)] = ResponseFormat(type="text")


class ResponsesRequest(ThoughtFields, TextRequest):
    bounds: ClassVar[Bounds] = OPENAI
    input: Items
    instructions: str | Items | None = None
    max_output_tokens: MaxTokens = Field(None, validation_alias=AliasChoices(*LIMITS))
    tools: Tools = Field(default_factory=list)
    tool_choice: Annotated[ResponseToolChoice | None, BeforeValidator(as_choice)] = None
    parallel_tool_calls: bool | None = None
    text: Text | None = None
    reasoning: Annotated[Reasoning | None, BeforeValidator(as_effort)] = None
    include: Annotated[list[str], BeforeValidator(as_listed)] = Field(default_factory=list)
    top_logprobs: Logprobs | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    chat_template_kwargs: Object = Field(default_factory=dict)
    previous_response_id: str | None = None
    store: bool | None = None
    # These ask for what is not here: see below.
    conversation: str | Object | None = None
    prompt: Object | None = None
    background: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def of_chat(cls, body: object) -> object:
        """Take the messages of a chat for items; a request that continues a response needs none."""
        if not isinstance(body, dict) or body.get("input"):
            return body
        fields = {name: value for name, value in body.items() if name != "messages"}
        if body.get("messages"):
            return {**fields, "input": body["messages"]}
        return {**fields, "input": []} if body.get("previous_response_id") else body

    @field_validator("conversation", "prompt", "background")
    @classmethod
    def not_here(cls, value: object, field: ValidationInfo) -> object:
        if value:
            raise PydanticCustomError("not_here", INSTEAD[field.field_name or ""])
        return value

    def wants(self, more: str) -> bool:
        return more in self.include

    def model_tools(self, items: Sequence[Item]) -> Mapping[str, ModelTool]:
        """Return the tools by the names that the model gets, those among the items included."""
        return model_tools([self.tools, *tools_in(items)])

    def references_among(self, items: Sequence[Item]) -> list[MediaReference]:
        """List the pictures and sounds of a conversation of these items."""
        return references(self._groups(items))

    def _groups(self, items: Sequence[Item]) -> list[list[Entry]]:
        rules = self.instructions
        if isinstance(rules, str):
            return [*([[Speech("system", [rules])]] if rules else ()), *groups(items)]
        return groups([*(rules or ()), *items])

    def as_conversation(self, items: Sequence[Item], media: Sequence[Medium]) -> Conversation:
        choice, tools = self.tool_choice or ResponseToolChoice(type="auto"), self.model_tools(items)
        if choice.type == "function" and choice.name is None:
            raise refused('a tool_choice of type "function" has a name: say which', "tool_choice")
        messages = messages_of(self._groups(items), names_of(tools))
        if not messages:
            raise refused("there is nothing to answer: give a text, or items", "input")
        extra = reasoning(self.reasoning.effort if self.reasoning else None)
        return Conversation(
            messages=messages,
            tools=[tool.tool for tool in tools.values()],
            choice=choice.choice,
            named=choice.required_tool(tools),
            allowed=choice.allowed_tools(tools),
            parallel=self.parallel_tool_calls,
            format=self.text.format.grammar if self.text else None,
            extra=extra | self.chat_template_kwargs,
            media=media,
        )

    def engine_settings(self, served: Served) -> Settings:
        logprobs = (self.top_logprobs or 0) if self.wants(LOGPROBS) else None
        settings = self.base_settings(served, self.max_output_tokens, logprobs=logprobs)
        return self.with_own_budget(settings)

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        yield from (f"include.{part}" for part in self.include if part not in (LOGPROBS, SEALED))
        if self.max_output_tokens == 0:
            yield "max_output_tokens"  # which is one at least
        if self.top_logprobs and not self.wants(LOGPROBS):
            yield "top_logprobs"

    def prepare(
        self, items: Sequence[Item], served: Served, media: Sequence[Medium]
    ) -> list[Prepared]:
        conversation = self.as_conversation(items, media)
        return [prepare_conversation(served, conversation, self.engine_settings(served))]

    def echo(self) -> Mapping[str, object]:
        """Return the fields of the request that a response repeats, null for NaN."""
        fields = self.model_dump(include=set(ECHOED), by_alias=True, exclude_unset=True)
        text = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
        fields = json.loads(text, parse_constant=lambda _: None)
        return {
            **dict.fromkeys(ECHOED),
            **fields,
            "background": False,
            "metadata": fields.get("metadata") or {},
            "parallel_tool_calls": self.parallel_tool_calls is not False,
            "previous_response_id": self.previous_response_id,
            "service_tier": "default",
            "store": self.store is not False,
            "text": {"format": {"type": "text"}} | (fields.get("text") or {}),
            "tool_choice": self.tool_choice.echo() if self.tool_choice else "auto",
            "tools": fields.get("tools") or [],
            "truncation": "disabled",
        }
