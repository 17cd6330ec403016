"""What may be asked of /v1/messages."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from localspec.grammar.grammar import Grammar
from localspec.runtime.prompting import Choice, Conversation
from localspec.server.anthropic.content import Given, Texts, joined, messages
from localspec.server.faults import refused
from localspec.server.model_host import Served
from localspec.server.requests.asking import Prepared, prepared
from localspec.server.requests.fields import Object, Stops, Strict, Wished
from localspec.server.requests.given import only
from localspec.templates.message import Json, Message, Tool

CHOICES: dict[str, Choice] = {"auto": "auto", "any": "required", "none": "none", "tool": "auto"}


class ToolGiven(Strict):
    type: Literal["custom"]
    name: str = Field(pattern=r"^[a-zA-Z0-9_.:/-]{1,128}$")
    description: str | None = None
    input_schema: Object
    defer_loading: Literal[False] = False
    allowed_callers: list[Literal["direct"]] | None = None
    # Harmless: calls always follow the schema, and stream as they come.
    strict: bool | None = None
    eager_input_streaming: bool | None = None
    cache_control: Object | None = None

    @property
    def tool(self) -> Tool:
        function: dict[str, Json] = {"name": self.name}
        if self.description is not None:
            function["description"] = self.description
        function["parameters"] = self.input_schema
        return {"type": "function", "function": function}


class ToolChoice(Strict):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class Thinking(Strict):
    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None  # harmless: thoughts count towards max_tokens
    display: Literal["summarized", "omitted"] | None = None  # the first shows all of them


class OutputFormat(Strict):
    type: Literal["json_schema"]
    schema_: Object = Field(alias="schema")


class Output(Strict):
    effort: str | None = None
    format: OutputFormat | None = None


class CountRequest(Wished):
    messages: list[Given] = Field(min_length=1)
    system: Texts = Field(default_factory=list)
    tools: list[Annotated[ToolGiven, only("tool", "custom")]] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: Output = Field(default_factory=Output)
    # Harmless: prefixes are kept anyway, nothing is cleared, and there is one speed.
    cache_control: Object | None = None
    context_management: Object | None = None
    speed: Literal["standard"] | None = None

    def conversation(self) -> Conversation:
        choice = self.tool_choice or ToolChoice(type="auto")
        if (choice.type == "tool") != (choice.name is not None):
            raise refused('a tool_choice of type "tool", and no other, has a name', "tool_choice")
        system: list[Message] = []
        if self.system:
            system = [{"role": "system", "content": joined(self.system)}]
        return Conversation(
            messages=[*system, *messages(self.messages)],
            tools=[each.tool for each in self.tools or ()],
            choice=CHOICES[choice.type],
            named=choice.name,
            parallel=not choice.disable_parallel_tool_use,
            format=self._format(),
            extra=self._extra(),
        )

    def _format(self) -> Grammar | None:
        form = self.output_config.format
        return Grammar("json_schema", json.dumps(form.schema_)) if form else None

    def _extra(self) -> dict[str, JsonValue]:
        """What is left open, the chat template decides."""
        effort, thinking = self.output_config.effort, self.thinking
        found: dict[str, JsonValue] = {} if effort is None else {"reasoning_effort": effort}
        if thinking and thinking.type != "adaptive":
            found["enable_thinking"] = thinking.type == "enabled"
        return found

    def prepared(self, served: Served) -> list[Prepared]:
        settings = self.wishes(served.offer.usual, None)
        return [prepared(served, self.conversation(), settings)]


class MessagesRequest(CountRequest):
    max_tokens: int = Field(ge=1, le=1 << 31)
    stop_sequences: Stops | None = None
    stream: bool = False
    thread: Object | None = None  # refused so that libraries go on without: see the routes
    # Harmless: they ask for nothing that a text could show.
    metadata: Object | None = None
    service_tier: str | None = None
    diagnostics: Object | None = None

    @property
    def hides_thoughts(self) -> bool:
        return self.thinking is not None and self.thinking.display == "omitted"

    def prepared(self, served: Served) -> list[Prepared]:
        stop = tuple(self.stop_sequences or ())
        settings = self.wishes(served.offer.usual, self.max_tokens, stop)
        return [prepared(served, self.conversation(), settings)]
