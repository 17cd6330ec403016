"""A prediction that an SDK asks for, as a request for a chat or for a text to go on with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from pydantic import Field, JsonValue

from localspec.server.faults import refused
from localspec.server.lmstudio.wire import ANY, ConfigStack, Specifier
from localspec.server.model_host import Served
from localspec.server.requests.chat_request import ChatRequest
from localspec.server.requests.leniency import RequestPart
from localspec.server.requests.prepared import Prepared, prepare_text

SCOPE = "llm.prediction."
COMPLETING = "completeModeFormatting"  # a layer in which a prompt has no chat template
NAMES = {
    "temperature": "temperature",
    "topKSampling": "top_k",
    "topPSampling": "top_p",
    "minPSampling": "min_p",
    "repeatPenalty": "repeat_penalty",
    "maxPredictedTokens": "max_tokens",
    "stopStrings": "stop",
    "seed": "seed",
}
Object = dict[str, JsonValue]


class LmStudioChat(ChatRequest):
    clamps: ClassVar[bool] = True


class Part(RequestPart):
    type: str = "text"
    text: str = ""
    name: str = ""
    content: str = ""  # of a result
    call_id: str | None = Field(None, alias="toolCallId")
    call: Object = Field(default_factory=dict, alias="toolCallRequest")


class HistoryMessage(RequestPart):
    role: str = "user"
    content: list[Part] = Field(default_factory=list)

    def messages(self) -> Iterator[Object]:
        """Yield it as chats have it; each result is a message."""
        results = [part for part in self.content if part.type == "toolCallResult"]
        for part in results:
            identity: Object = {} if part.call_id is None else {"tool_call_id": part.call_id}
            yield {"role": "tool", "content": part.content, **identity}
        if results:
            return
        for part in self.content:
            if part.type == "file":
                raise refused(f"the file {part.name[:80]!r} cannot be read: send its words")
        calls: list[JsonValue] = [
            called(part.call) for part in self.content if part.type == "toolCallRequest"
        ]
        text = "".join(part.text for part in self.content if part.type == "text")
        yield {"role": self.role, "content": text, **({"tool_calls": calls} if calls else {})}


def called(call: Object) -> Object:
    arguments = call.get("arguments")
    function: Object = {"name": call.get("name"), "arguments": arguments or {}}
    return {"id": call.get("id"), "type": "function", "function": function}


class History(RequestPart):
    messages: list[HistoryMessage] = Field(default_factory=list)

    def told(self) -> list[JsonValue]:
        return [message for each in self.messages for message in each.messages()]


class PredictRequest(RequestPart):
    specifier: Specifier = Field(ANY, alias="modelSpecifier")
    history: History = History()
    raw: str | None = Field(None, alias="rawPrompt")  # a text to go on with
    stack: ConfigStack = Field(ConfigStack(), alias="predictionConfigStack")

    @property
    def completes(self) -> bool:
        return self.raw is not None or any(layer.name == COMPLETING for layer in self.stack.layers)

    @property
    def structured(self) -> bool:
        kind = self.stack.settings(SCOPE).get("structured")
        return isinstance(kind, dict) and kind.get("type") in ("json", "gbnf")

    def chat(self) -> LmStudioChat:
        """Write it as a request for a chat."""
        settings = self.stack.settings(SCOPE)
        found: Object = {NAMES[key]: each for key, each in settings.items() if key in NAMES}
        rules = settings.get("systemPrompt")
        first: list[JsonValue] = [{"role": "system", "content": rules}] if rules else []
        told = self.history.told() if self.raw is None else [{"role": "user", "content": self.raw}]
        found["messages"] = [*first, *told]
        return LmStudioChat.model_validate(
            found | tools(settings.get("tools")) | form(settings.get("structured"))
        )

    def prepare(self, chat: LmStudioChat, served: Served) -> list[Prepared]:
        if not self.completes:
            return chat.prepare(served)
        parts = [part.text for each in self.history.messages for part in each.content]
        text = "".join(parts) if self.raw is None else self.raw
        settings = replace(chat.settings(served), grammar=chat.form)
        return [prepare_text(served, served.runtime.encode(text), settings)]


def tools(given: JsonValue) -> Object:
    if not isinstance(given, dict) or not given.get("tools"):
        return {}
    return {"tools": given["tools"], "tool_choice": "required" if given.get("force") else "auto"}


def form(given: JsonValue) -> Object:
    match given:
        case {"type": "json", "jsonSchema": dict(schema)}:
            return {"json_schema": schema}
        case {"type": "json"}:
            return {"response_format": {"type": "json_object"}}
        case {"type": "gbnf", "gbnfGrammar": str(text)}:
            return {"grammar": text}
    return {}


def config(fields: Mapping[str, JsonValue], scope: str = SCOPE) -> Mapping[str, object]:
    """Tell settings as clients read them."""
    return {"fields": [{"key": f"{scope}{key}", "value": each} for key, each in fields.items()]}
