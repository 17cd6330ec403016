"""The requests of /api/chat and /api/generate."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from localspec.engine.settings import Settings
from localspec.grammar.grammar import Grammar
from localspec.runtime.prompting import Conversation
from localspec.server.faults import refused
from localspec.server.model_host import Served
from localspec.server.ollama.options import OllamaOptions
from localspec.server.requests.asking import Prepared, filling, plain, prepared
from localspec.server.requests.chat_messages import Parts, Role, said
from localspec.server.requests.chat_request import reasoning
from localspec.server.requests.fields import Logprobs, Object
from localspec.server.requests.given import as_object
from localspec.server.requests.leniency import RequestPart
from localspec.server.requests.tools import ToolGiven, tools_of
from localspec.templates.fill_in_middle import middle
from localspec.templates.message import Json, Message

CALLS = 128  # most in a message
PROMPT = ("{{ .Prompt }}", "{{.Prompt}}")  # templates that add nothing to a prompt


class OllamaRequest(RequestPart):
    model: str = Field(min_length=1)
    stream: bool = True
    format: Literal["", "json"] | Object | None = None
    options: OllamaOptions = OllamaOptions()
    think: bool | str | None = None  # a text is how much
    keep_alive: JsonValue = None
    logprobs: bool = False
    top_logprobs: Logprobs = 0

    @property
    def grammar(self) -> Grammar | None:
        if isinstance(self.format, dict):
            return Grammar("json_schema", json.dumps(self.format))
        return Grammar("json_object") if self.format else None

    @property
    def extra(self) -> dict[str, JsonValue]:
        """Set the variable by which chat templates turn thinking on or off."""
        if self.think is None or self.think == "":
            return {}
        if isinstance(self.think, bool):
            return {"enable_thinking": self.think, "thinking": self.think}
        return {**reasoning(self.think), "thinking": True}

    def settings(self, served: Served, grammar: Grammar | None = None) -> Settings:
        found = self.options.settings(served, grammar)
        return replace(found, logprobs=self.top_logprobs) if self.logprobs else found

    def answering(self, served: Served, conversation: Conversation) -> list[Prepared]:
        return [prepared(served, conversation, self.settings(served))]

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if self.top_logprobs and not self.logprobs:
            yield "top_logprobs"


class FunctionCalled(RequestPart):
    name: str
    arguments: Annotated[Object, BeforeValidator(as_object)] = Field(default_factory=dict)


class OllamaCall(RequestPart):
    function: FunctionCalled
    id: str | None = None


class OllamaMessage(RequestPart):
    role: Role
    content: Parts = Field(default_factory=list)
    thinking: str | None = None
    images: list[JsonValue] | None = None
    tool_calls: list[OllamaCall] | None = Field(None, max_length=CALLS)
    tool_name: str | None = None
    tool_call_id: str | None = None


class OllamaChatRequest(OllamaRequest):
    messages: list[OllamaMessage] = Field(default_factory=list)
    tools: list[ToolGiven] | None = None

    @property
    def loads(self) -> bool:
        """Tell whether the request only loads the model."""
        return not self.messages

    def prepared(self, served: Served) -> list[Prepared]:
        conversation = Conversation(
            messages=messages_of(self.messages),
            tools=tools_of(self.tools),
            format=self.grammar,
            extra=self.extra,
        )
        return self.answering(served, conversation)


def messages_of(given: Iterable[OllamaMessage]) -> list[Message]:
    """Turn messages into those of templates, with identifiers for calls and their results."""
    found: list[Message] = []
    waiting: list[tuple[str, str]] = []  # calls without results: name and identifier
    for number, each in enumerate(given):
        check_images(each.images)
        message: dict[str, Json] = {"role": each.role, "content": ""}
        if each.content:
            message["content"] = said(each.content)
        if each.thinking:
            message["reasoning_content"] = each.thinking
        if each.tool_calls:
            waiting = [
                (call.function.name, call.id or f"call_{number}_{at}")
                for at, call in enumerate(each.tool_calls)
            ]
            message["tool_calls"] = [
                called(call, identity)
                for call, (_, identity) in zip(each.tool_calls, waiting, strict=True)
            ]
        if each.role == "tool":
            message |= answering(each, waiting)
        found.append(message)
    return found


def called(call: OllamaCall, identity: str) -> JsonValue:
    function: JsonValue = {"name": call.function.name, "arguments": call.function.arguments}
    return {"id": identity, "type": "function", "function": function}


def answering(result: OllamaMessage, waiting: list[tuple[str, str]]) -> dict[str, JsonValue]:
    """Find the call a result belongs to: the one it names, else the first that has none."""
    same = [call for call in waiting if call[1] == result.tool_call_id]
    named = [call for call in waiting if call[0] == result.tool_name]
    call = next(iter(same or named or waiting), None)
    if call:
        waiting.remove(call)
    name, identity = call or ("", "")
    return {"name": result.tool_name or name, "tool_call_id": result.tool_call_id or identity}


def check_images(images: list[JsonValue] | None) -> None:
    if images:
        raise refused("this server reads text only, no images", "images")


class GenerateRequest(OllamaRequest):
    prompt: str = ""
    suffix: str = ""
    system: str = ""
    raw: bool = False
    images: list[JsonValue] | None = None
    template: str = ""
    context: list[int] | None = None

    @property
    def loads(self) -> bool:
        return not self.prompt and not self.suffix

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if self.template and self.template not in PROMPT:
            yield "template"
        if self.suffix and self.system:
            yield "system"

    def prepared(self, served: Served) -> list[Prepared]:
        check_images(self.images)
        if self.context:
            raise refused("context is not here: send the conversation to /api/chat", "context")
        if self.suffix:
            return [self._filling(served)]
        if self.raw or self.template in PROMPT or not served.runtime.tokenizer.chat_template:
            return [self._raw(served)]
        messages = [
            {"role": role, "content": text}
            for role, text in (("system", self.system), ("user", self.prompt))
            if text
        ]
        conversation = Conversation(messages, format=self.grammar, extra=self.extra)
        return self.answering(served, conversation)

    def _raw(self, served: Served) -> Prepared:
        if self.system:
            raise refused("a raw prompt has no system message: write it into the prompt", "system")
        settings = self.settings(served, self.grammar)
        return plain(served, served.runtime.read(self.prompt), settings)

    def _filling(self, served: Served) -> Prepared:
        settings = self.settings(served, self.grammar)
        context = served.runtime.context
        wanted = min(settings.max_tokens or context, context // 2)
        tokens = middle(served.runtime.tokenizer, self.prompt, self.suffix, limit=context - wanted)
        return plain(served, tokens, filling(served, settings))
