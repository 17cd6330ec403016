"""Capabilities of a chat template, found out by showing it small conversations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from localspec.formats.templates.message import Json, Message, Tool

Absent = Literal["left out", "none", "empty"]
Render = Callable[[Sequence[Message], Sequence[Tool]], str]  # nothing where the template refuses


@dataclass(frozen=True, slots=True)
class Takes:
    """The parts of a conversation that a template writes into its text.

    A part that it does not take is refused by it, or left out.
    """

    text: bool = True  # content that is a text
    parts: bool = True  # content that is a list of texts
    system: bool = True  # a system message at the start
    systems: bool = True  # several, and anywhere
    alone: bool = True  # a system message and nothing else
    developer: bool = True  # that role as one of its own
    repeats: bool = True  # two messages of a role in a row
    tools: bool = True  # definitions of tools
    calls: bool = True  # calls of tools, and their results
    calls_without_tools: bool = True  # calls also where a request offers no tools
    parallel: bool = True  # several calls in a message
    written: bool = True  # arguments of a call as a JSON text
    objects: bool = True  # arguments of a call as an object
    ids: bool = True  # identifiers of calls that are longer than nine letters
    names: bool = True  # names of calls; without them, identifiers have to contain the names
    reasoning_beside_calls: bool = True  # together with content
    replies_without_reasoning: bool = True  # without even an empty field for it
    absent: Absent = "left out"  # the form of a call's content where there is none


SYSTEM, SYSTEM_2, SYSTEM_3 = "ruleone", "ruletwo", "rulethree"
ASK, MORE, AGAIN = "askone", "asktwo", "askthree"
TELL, RETELL = "tellone", "telltwo"
NAME, OTHER, VALUE = "nameone", "nametwo", "givenone"
RESULT, OTHER_RESULT = "foundone", "foundtwo"
TOOL_NAME = "toolone"
TOOL: Tool = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": "",
        "parameters": {
            "type": "object",
            "properties": {"k": {"type": "string", "description": ""}},
        },
    },
}
WRITTEN = json.dumps({"k": VALUE})
DEVELOPER = re.compile(r"""['"]developer['"]""")
THOUGHT = "reasoning_content"
SHORT, SECOND, LONG = "abcdef123", "abcdef456", "call_abcdefghijklmnopqrst"


def learn_capabilities(render: Render, source: str) -> Takes:
    """Learn the capabilities of a template; one that renders no question at all gets every one."""
    readers = [_Reader(render, typed, tools) for typed in (False, True) for tools in ((), (TOOL,))]
    for reader in readers:
        if reader.shows([_user(ASK)], ASK):
            reader = _thinking(reader)
            takes = _calling(reader, _talking(reader, source))
            if not takes.calls and not reader.tools:  # some write none where they list none
                with_tools = replace(reader, tools=(TOOL,))
                more = _calling(with_tools, replace(takes, calls=True, calls_without_tools=False))
                reader, takes = (with_tools, more) if more.calls else (reader, takes)
            takes = replace(takes, replies_without_reasoning=not reader.thinks)
            return replace(takes, parts=reader.typed or _takes_parts(reader, takes))
    return Takes()


def _thinking(reader: _Reader) -> _Reader:
    """Return the reader, with a field for reasoning in each reply if the template needs that."""
    thinks, talk = replace(reader, thinks=True), [_user(ASK), _tells(TELL), _user(MORE)]
    return thinks if not reader.shows(talk, MORE) and thinks.shows(talk, TELL, MORE) else reader


def thoughtful(messages: Sequence[Message]) -> list[Message]:
    """Add an empty field for reasoning to each reply that has none."""
    return [{THOUGHT: "", **m} if m.get("role") == "assistant" else m for m in messages]


def _takes_parts(reader: _Reader, takes: Takes) -> bool:
    opening = [_system(SYSTEM)] if takes.system else []
    arguments: Json = {"k": VALUE} if takes.objects else WRITTEN
    middle = _exchange(takes, arguments) if takes.calls else [_user(ASK)]
    talk = [*opening, *middle, _tells(TELL), _user(MORE)]
    text = reader.rendered(talk)
    return bool(text) and text == reader.rendered(as_parts(talk))


def identity(name: str, number: int) -> str:
    """Return an identifier that contains the name of a call, e.g. for templates of Kimi."""
    return f"functions.{name}:{number}"


def as_parts(messages: Sequence[Message]) -> list[Message]:
    """Put every text as a list of one part."""
    return [_as_part(message) for message in messages]


def _as_part(message: Message) -> Message:
    match message.get("content"):
        case str(text):
            return {**message, "content": [{"type": "text", "text": text}]}
    return message


def without_content(message: Message, absent: Absent) -> Message:
    """Return a message with tool calls and no content, in the form that the template accepts."""
    if absent == "left out":
        return {name: value for name, value in message.items() if name != "content"}
    return {**message, "content": None if absent == "none" else ""}


@dataclass(frozen=True, slots=True)
class _Reader:
    render: Render
    typed: bool
    tools: Sequence[Tool]
    thinks: bool = False

    def shows_call(self, messages: Sequence[Message], *words: str) -> bool:
        """Whether a call is shown by its name, or at least by its identifier."""
        return self.shows(messages, NAME, *words) or self.shows(messages, SHORT, *words)

    def shows(self, messages: Sequence[Message], *words: str) -> bool:
        text = self.rendered(messages)
        return all(word in text for word in words)

    def rendered(self, messages: Sequence[Message]) -> str:
        put = thoughtful(messages) if self.thinks else messages
        return self.render(as_parts(put) if self.typed else put, self.tools)


def _talking(reader: _Reader, source: str) -> Takes:
    start = [_system(SYSTEM), _system(SYSTEM_2), _user(ASK)]
    systems = [*start, _tells(TELL), _system(SYSTEM_3), _user(MORE)]
    as_developer = [{"role": "developer", "content": SYSTEM}, _user(ASK)]
    rows = [_user(ASK), _user(MORE), _tells(TELL), _tells(RETELL), _user(AGAIN)]
    return Takes(
        text=not reader.typed,
        system=reader.shows([_system(SYSTEM), _user(ASK)], SYSTEM, ASK),
        alone=reader.shows(systems[:1], SYSTEM),
        systems=reader.shows(systems, SYSTEM, SYSTEM_2, ASK, TELL, SYSTEM_3, MORE),
        developer=bool(DEVELOPER.search(source)) and reader.shows(as_developer, SYSTEM, ASK),
        repeats=reader.shows(rows, ASK, MORE, TELL, RETELL, AGAIN),
        tools=replace(reader, tools=[TOOL]).shows([_user(ASK)], TOOL_NAME),
    )


def _calling(reader: _Reader, takes: Takes) -> Takes:
    choices: tuple[Absent, ...] = ("left out", "none", "empty")
    for absent in choices:
        candidate = replace(takes, absent=absent)
        written = reader.shows_call(_exchange(candidate, WRITTEN), WRITTEN, RESULT)
        exchange = _exchange(candidate, {"k": VALUE})
        objects = reader.shows_call(exchange, VALUE, RESULT)
        if written and objects:  # some write objects as Python has them, and texts as they are
            objects = not reader.shows(exchange, str({"k": VALUE}))
        if written or objects:
            return _counting(reader, replace(candidate, written=written, objects=objects))
    return replace(takes, calls=False)


def _counting(reader: _Reader, takes: Takes) -> Takes:
    arguments: Json = {"k": VALUE} if takes.objects else WRITTEN
    one, long = _call(NAME, SHORT, arguments), _call(NAME, LONG, arguments)
    call = [_user(ASK), _calls(takes, one)]
    names = reader.shows(call, NAME) or not reader.shows(call, SHORT)
    first, second = (SHORT, SECOND) if names else (identity(NAME, 0), identity(OTHER, 1))
    pair = _calls(takes, _call(NAME, first, arguments), _call(OTHER, second, arguments))
    both = [_user(ASK), pair, _result(RESULT, first), _result(OTHER_RESULT, second)]
    named = [_user(ASK), _calls(takes, long), _result(RESULT, LONG)]
    reasoning = {"thinking": RETELL, "reasoning_content": RETELL}
    beside = {**_calls(takes, one), "content": TELL, **reasoning}
    return replace(
        takes,
        parallel=reader.shows(both, NAME, OTHER, RESULT, OTHER_RESULT),
        ids=not names or reader.shows(named, NAME, RESULT),
        names=names,
        reasoning_beside_calls=reader.shows_call([_user(ASK), beside, _result(RESULT, SHORT)]),
    )


def _exchange(takes: Takes, arguments: Json) -> list[Message]:
    return [_user(ASK), _calls(takes, _call(NAME, SHORT, arguments)), _result(RESULT, SHORT)]


def _calls(takes: Takes, *calls: Json) -> Message:
    return without_content({"role": "assistant", "tool_calls": calls}, takes.absent)


def _call(name: str, identity: str, arguments: Json) -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def _result(text: str, identity: str) -> Message:
    return {"role": "tool", "name": NAME, "content": text, "tool_call_id": identity}


def _system(text: str) -> Message:
    return {"role": "system", "content": text}


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _tells(text: str) -> Message:
    return {"role": "assistant", "content": text}
