"""The items of /v1/responses, and the messages that chat templates read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from localspec.apps.server.faults import refused
from localspec.apps.server.openai.responses_tools import ModelTool, Tools, model_tools
from localspec.apps.server.replies.blocks import SEAL
from localspec.apps.server.requests.chat_messages import Parts, Role, message_content
from localspec.apps.server.requests.fields import Object
from localspec.apps.server.requests.leniency import LeftOut, RequestPart
from localspec.apps.server.requests.media_parts import IMAGES, SOUNDS, MediaReference, references_in
from localspec.apps.server.requests.validators import ByType
from localspec.formats.templates.message import Json, Message


class ThoughtPart(RequestPart):
    type: str = ""
    text: str


class MessageItem(RequestPart):
    type: Literal["message"]
    role: Role
    content: Parts = Field(default_factory=list)


class ReasoningItem(RequestPart):
    type: Literal["reasoning"]
    summary: list[ThoughtPart] = Field(default_factory=list)  # the whole is there
    content: list[ThoughtPart] | None = None
    encrypted_content: str | None = None

    @property
    def text(self) -> str:
        sealed = self.encrypted_content or ""
        thought = "".join(part.text for part in self.content or ())
        return thought or (sealed.removeprefix(SEAL) if sealed.startswith(SEAL) else "")


class CallItem(RequestPart):
    type: Literal["function_call"]
    id: str = ""
    call_id: str = ""
    name: str
    namespace: str = ""
    arguments: str | Object = "{}"


class CustomCallItem(RequestPart):
    type: Literal["custom_tool_call"]
    id: str = ""
    call_id: str = ""
    name: str
    namespace: str = ""
    input: str


class ShellCallItem(RequestPart):
    type: Literal["local_shell_call"]
    id: str = ""
    call_id: str = ""
    action: Object


class SearchCallItem(RequestPart):
    type: Literal["tool_search_call"]
    call_id: str = ""  # none of a search that a server ran
    arguments: JsonValue = None


class OutputItem(RequestPart):
    type: Literal["function_call_output", "custom_tool_call_output", "local_shell_call_output"]
    id: str = ""
    call_id: str = ""
    output: Parts = Field(default_factory=list)
    name: str | None = None


class SearchOutputItem(RequestPart):
    """Tools that a search of the client found, callable from here on."""

    type: Literal["tool_search_output"]
    call_id: str = ""
    tools: Tools = Field(default_factory=list)


class ToolsItem(RequestPart):
    type: Literal["additional_tools"]
    tools: Tools = Field(default_factory=list)


class ReferenceItem(RequestPart):
    """A reference to an item of a kept response; the paths put the item in its place."""

    type: Literal["item_reference"]
    id: str


PARTS = ("text", "input_text", "input_file", *IMAGES, *SOUNDS)

Item = Annotated[
    MessageItem
    | ReasoningItem
    | CallItem
    | CustomCallItem
    | ShellCallItem
    | SearchCallItem
    | OutputItem
    | SearchOutputItem
    | ToolsItem
    | ReferenceItem
    | LeftOut,
    ByType("message"),
]


def as_items(value: object) -> object:
    """Read items; a text is a message of the user, and messages of chats may stand among them."""
    items = value if isinstance(value, list) else [value]
    if items and all(is_part(item) for item in items):
        items = [{"role": "user", "content": items}]
    return [item for message in items for item in items_of_message(message)]


def is_part(item: object) -> bool:
    """Return whether an item is a part of a message, without the message around it."""
    return isinstance(item, dict) and item.get("type") in PARTS


def items_of_message(message: object) -> Iterator[object]:
    """Split a message of a chat into items."""
    if isinstance(message, str):
        yield {"role": "user", "content": message}
        return
    if not isinstance(message, dict) or message.get("type", "message") != "message":
        yield message
        return
    calls, result = message.get("tool_calls"), message.get("role") in ("tool", "function")
    if result and "tool_call_id" in message:
        output = {"call_id": message["tool_call_id"], "output": message.get("content")}
        yield {"type": "function_call_output", **output}
        return
    if message.get("content") or not isinstance(calls, list):
        yield {name: value for name, value in message.items() if name != "tool_calls"}
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(function, dict):
            yield {"type": "function_call", "call_id": call.get("id"), **function}


Items = Annotated[list[Item], BeforeValidator(as_items)]

THINKS, SAYS, CALLS, ENDED = range(4)  # a reply goes through them in this order


class Transcript:
    """Joins items of one reply into a message again."""

    def __init__(self, names: Mapping[tuple[str, str], str]) -> None:
        self.messages: list[Message] = []
        self._model_names = names  # what the model calls a tool, by its namespace and its own name
        self._reply: dict[str, Json] = {}  # the newest, which may still grow
        self._calls: list[Json] = []  # of it
        self._stage = ENDED
        self._names: dict[str, str] = {}

    def add(self, item: Item) -> None:
        match item:
            case ReasoningItem(text=text):
                if text:
                    self._go_on(THINKS)["reasoning_content"] = text
            case MessageItem(role="assistant"):
                self._go_on(SAYS)["content"] = message_content(item.content)
            case MessageItem():
                self._put({"role": item.role, "content": message_content(item.content)})
            case CallItem() | CustomCallItem():
                name = self._model_names.get((item.namespace, item.name), item.name)
                self._add_call(item.call_id or item.id, name, arguments(item))
            case ShellCallItem():
                self._add_call(item.call_id or item.id, "local_shell", arguments(item))
            case SearchCallItem(call_id=call_id):
                if call_id:
                    self._add_call(call_id, "tool_search", arguments(item))
            case OutputItem():
                self._result(item.call_id or item.id, message_content(item.output), item.name)
            case SearchOutputItem(call_id=call_id):
                if call_id:
                    names = ", ".join(model_tools([item.tools]))
                    self._result(call_id, f"These tools can be called now: {names}")
            case ReferenceItem():
                raise refused(f"there is no item {item.id[:80]!r} here: send it whole", "input")

    def _put(self, message: Message) -> None:
        self.messages.append(message)
        self._stage = ENDED

    def _go_on(self, stage: int) -> dict[str, Json]:
        if stage < self._stage or stage == self._stage != CALLS:
            self._reply, self._calls = {"role": "assistant"}, []
            self.messages.append(self._reply)
        self._stage = stage
        return self._reply

    def _add_call(self, call_id: str, name: str, arguments: Json) -> None:
        self._names[call_id] = name
        reply = self._go_on(CALLS)
        function = {"name": name, "arguments": arguments}
        self._calls.append({"id": call_id, "type": "function", "function": function})
        reply["tool_calls"] = self._calls

    def _result(self, call_id: str, output: Json, name: str | None = None) -> None:
        name = name or self._names.get(call_id)
        message: Message = {"tool_call_id": call_id, "content": output}
        self._put({"role": "tool", **message, **({"name": name} if name else {})})


def arguments(item: CallItem | CustomCallItem | ShellCallItem | SearchCallItem) -> Json:
    """Return the arguments of a call, under the names of the tool's parameters."""
    match item:
        case CustomCallItem(input=text):
            return json.dumps({"input": text}, ensure_ascii=False)
        case ShellCallItem(action=action):
            return json.dumps({name: value for name, value in action.items() if name != "type"})
        case SearchCallItem(arguments=search) if not isinstance(search, str):
            return json.dumps(search or {})
        case _:
            return item.arguments


def names_of(tools: Mapping[str, ModelTool]) -> Mapping[tuple[str, str], str]:
    return {(tool.space, tool.called): name for name, tool in tools.items()}


def references_of(items: Iterable[Item]) -> Iterator[MediaReference]:
    """Yield the pictures and sounds among items, in the order of their messages."""
    for item in items:
        match item:
            case MessageItem(content=parts) | OutputItem(output=parts):
                yield from references_in(parts)


def tools_in(items: Sequence[Item]) -> list[Tools]:
    """List the tools that stand among items."""
    return [item.tools for item in items if isinstance(item, SearchOutputItem | ToolsItem)]
