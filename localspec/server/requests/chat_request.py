"""What may be asked of /v1/chat/completions."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import BeforeValidator, Field, JsonValue

from localspec.engine.settings import Settings
from localspec.grammar.grammar import Grammar
from localspec.runtime.prompting import Choice, Conversation
from localspec.sampling.parameters import Sampling
from localspec.server.faults import refused
from localspec.server.model_host import Served
from localspec.server.requests.asking import Prepared, prepared
from localspec.server.requests.fields import (
    Asked,
    Format,
    Logprobs,
    MessageGiven,
    Object,
    ToolGiven,
    ToolNamed,
    Traced,
)
from localspec.server.requests.samplers import Undrawn
from localspec.templates.message import Message

# -1 is as many as there is room for.
Most = Annotated[int | None, BeforeValidator(lambda given: None if given == -1 else given)]


class ChatRequest(Undrawn, Asked):
    """As OpenAI has it; editors that were written for llama.cpp's server add what that knows."""

    messages: list[MessageGiven] = Field(min_length=1)
    localspec: Traced = Traced(depth=None)
    return_progress: bool = False  # while the prompt is read, as llama.cpp's server has it
    max_tokens: Most = Field(None, ge=1, le=1 << 31)
    max_completion_tokens: Most = Field(None, ge=1, le=1 << 31)
    tools: list[ToolGiven] | None = None
    tool_choice: Choice | ToolNamed | None = None
    parallel_tool_calls: bool = True
    response_format: Format | None = None
    logprobs: bool | None = None
    top_logprobs: Logprobs | None = None
    reasoning_effort: str | None = None
    chat_template_kwargs: Object = Field(default_factory=dict)
    modalities: list[str] | None = None
    verbosity: str | None = None  # harmless

    def conversation(self) -> Conversation:
        choice = self.tool_choice or "auto"
        named = choice.function.name if isinstance(choice, ToolNamed) else None
        if self.modalities not in (None, ["text"]):
            raise refused("modalities other than text are not here", "modalities")
        return Conversation(
            messages=[message_of(each) for each in self.messages],
            tools=[each.model_dump(exclude_none=True) for each in self.tools or ()],
            choice="auto" if isinstance(choice, ToolNamed) else choice,
            named=named,
            parallel=self.parallel_tool_calls,
            format=format_of(self.response_format),
            extra=reasoning(self.reasoning_effort) | self.chat_template_kwargs,
        )

    def prepared(self, served: Served) -> list[Prepared]:
        return [prepared(served, self.conversation(), self.settings(served.offer.usual))]

    def settings(self, usual: Sampling) -> Settings:
        if self.top_logprobs is not None and not self.logprobs:
            raise refused("top_logprobs need logprobs: set it to true", "top_logprobs")
        if self.localspec.trace and not self.stream:
            raise refused("a trace is told in streams only: set stream", "localspec.trace")
        if self.return_progress and not self.stream:
            raise refused("progress is told in streams only: set stream", "return_progress")
        return self.settings_with(
            usual,
            self.max_completion_tokens or self.max_tokens,
            (self.top_logprobs or 0) if self.logprobs else None,
        )


def message_of(given: MessageGiven) -> Message:
    return given.model_dump(exclude_none=True, exclude={"refusal", "annotations"})


def reasoning(effort: str | None) -> dict[str, JsonValue]:
    """What chat templates know of it: gpt-oss the effort, Qwen and others whether at all."""
    if effort is None:
        return {}
    return {"reasoning_effort": effort, "enable_thinking": effort not in ("none", "minimal")}


def format_of(wished: Format | None) -> Grammar | None:
    if wished is None or wished.type == "text":
        return None
    if wished.type == "json_object":
        return Grammar("json_object")
    if wished.json_schema is None:
        raise refused("a response_format json_schema needs the schema", "response_format")
    return Grammar("json_schema", json.dumps(wished.json_schema.schema_))
