"""What may be asked of /v1/responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, LiteralString

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from localspec.engine.settings import Settings
from localspec.grammar.grammar import Grammar
from localspec.runtime.prompting import Choice, Conversation
from localspec.sampling.parameters import Sampling
from localspec.server.faults import refused
from localspec.server.model_host import Served
from localspec.server.openai.responses_input import Item, Items, Transcript
from localspec.server.requests.asking import Prepared, prepared
from localspec.server.requests.chat_request import reasoning
from localspec.server.requests.fields import (
    Function,
    JsonSchema,
    Logprobs,
    Object,
    StreamOptions,
    Strict,
    Wished,
)
from localspec.server.requests.given import only
from localspec.templates.message import Message, Tool

Included = Literal["message.output_text.logprobs", "reasoning.encrypted_content"]
LOGPROBS: Included = "message.output_text.logprobs"
SEALED: Included = "reasoning.encrypted_content"
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


class FunctionGiven(Function):
    type: Literal["function"]
    defer_loading: Literal[False] = False
    async_: Literal[False] = Field(False, alias="async")
    allowed_callers: list[Literal["direct"]] | None = None
    output_schema: Object | None = None  # harmless: nothing is checked against it

    @property
    def tool(self) -> Tool:
        told = {"name", "description", "parameters", "strict"}
        function = self.model_dump(include=told, exclude_none=True)
        return {"type": "function", "function": function}


class Namespace(Strict):
    """Functions that belong together; the model is told of each."""

    type: Literal["namespace"]
    name: str
    description: str | None = None
    tools: list[Annotated[FunctionGiven, only("tool", "function")]]


class Search(BaseModel):
    """Of the web, by the server: Codex asks for it in any case. No model here is told of it."""

    model_config = ConfigDict(extra="allow")
    type: Literal["web_search", "web_search_preview"]


ToolGiven = Annotated[
    FunctionGiven | Namespace | Search,
    Field(discriminator="type"),
    only("tool", "function", "namespace", "web_search", "web_search_preview"),
]


class ToolChoice(Strict):
    type: Literal["auto", "none", "required", "function"]
    name: str | None = None

    def echo(self) -> object:
        return self.type if self.name is None else {"type": self.type, "name": self.name}

    @property
    def choice(self) -> Choice:
        return "auto" if self.type == "function" else self.type


class Format(JsonSchema):
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
                return Grammar("json_schema", json.dumps(self.schema_))


class Text(Strict):
    format: Format = Field(default_factory=lambda: Format(type="text"))
    verbosity: str | None = None  # harmless


class Reasoning(Strict):
    effort: str | None = None
    context: Literal["auto"] | None = None
    mode: Literal["standard"] | None = None
    # Harmless: the reasoning itself is told.
    summary: str | None = None
    generate_summary: str | None = None


def as_type(given: object) -> object:
    return {"type": given} if isinstance(given, str) else given


class ResponsesRequest(Wished):
    input: Items
    instructions: str | None = None
    max_output_tokens: int | None = Field(None, ge=1, le=1 << 31)
    tools: list[ToolGiven] | None = None
    tool_choice: Annotated[ToolChoice | None, BeforeValidator(as_type)] = None
    parallel_tool_calls: bool | None = None
    text: Text | None = None
    reasoning: Reasoning | None = None
    include: list[Included] | None = None
    top_logprobs: Logprobs | None = None
    truncation: Literal["disabled"] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    # These ask for what is not here: see below.
    conversation: str | Object | None = None
    prompt: Object | None = None
    background: bool | None = None
    # Harmless: they ask for nothing that a text could show.
    max_tool_calls: int | None = None  # of tools that a server has
    metadata: Object | None = None
    service_tier: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: Object | None = None
    client_metadata: Object | None = None

    @field_validator("conversation", "prompt", "background")
    @classmethod
    def not_here(cls, given: object, field: ValidationInfo) -> object:
        if given:
            raise PydanticCustomError("not_here", INSTEAD[field.field_name or ""])
        return given

    def wants(self, more: Included) -> bool:
        return more in (self.include or ())

    def talk(self, items: Sequence[Item] | None = None) -> Conversation:
        """What the model reads: these items, or the request's own."""
        choice = self.tool_choice or ToolChoice(type="auto")
        if (choice.type == "function") != (choice.name is not None):
            message = 'a tool_choice of type "function", and no other, has a name'
            raise refused(message, "tool_choice")
        spaces: dict[str, str] = {}
        for space, each in self.functions():
            if spaces.setdefault(each.name, space) != space:
                raise refused(f"two tools are called {each.name}, in different namespaces", "tools")
        transcript = Transcript()
        for item in self.input if items is None else items:
            transcript.add(item)
        rules: list[Message] = []
        if self.instructions:
            rules = [{"role": "system", "content": self.instructions}]
        return Conversation(
            messages=rules + transcript.messages,
            tools=[each.tool for _, each in self.functions()],
            choice=choice.choice,
            named=choice.name,
            parallel=self.parallel_tool_calls is not False,
            format=self.text.format.grammar if self.text else None,
            extra=reasoning(self.reasoning.effort if self.reasoning else None),
        )

    def functions(self) -> Iterator[tuple[str, FunctionGiven]]:
        """Each with its namespace, if it is in one."""
        for tool in self.tools or ():
            match tool:
                case FunctionGiven():
                    yield "", tool
                case Namespace():
                    yield from ((tool.name, each) for each in tool.tools)

    def settings(self, usual: Sampling) -> Settings:
        logprobs = (self.top_logprobs or 0) if self.wants(LOGPROBS) else None
        if self.top_logprobs is not None and logprobs is None:
            raise refused(f"top_logprobs need {LOGPROBS!r} in include", "top_logprobs")
        return self.wishes(usual, self.max_output_tokens, logprobs=logprobs)

    def prepared(self, items: Sequence[Item], served: Served) -> list[Prepared]:
        return [prepared(served, self.talk(items), self.settings(served.offer.usual))]

    def echo(self) -> Mapping[str, object]:
        """What a response repeats of its request, but for halves of characters."""
        given = self.model_dump(include=set(ECHOED), by_alias=True, exclude_unset=True)
        found = json.loads(json.dumps(given, ensure_ascii=False).encode("utf-8", "replace"))
        return {
            **dict.fromkeys(ECHOED),
            **found,
            "background": False,
            "metadata": found.get("metadata") or {},
            "parallel_tool_calls": self.parallel_tool_calls is not False,
            "previous_response_id": self.previous_response_id,
            "service_tier": "default",
            "store": self.store is not False,
            "text": {"format": {"type": "text"}} | (found.get("text") or {}),
            "tool_choice": self.tool_choice.echo() if self.tool_choice else "auto",
            "tools": found.get("tools") or [],
            "truncation": "disabled",
        }
