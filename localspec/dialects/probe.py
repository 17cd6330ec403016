"""Probes: a chat template's text of conversations whose words are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import NamedTuple

from localspec.errors import UsageError
from localspec.templates.adapt import REASONING
from localspec.templates.chat_template import ChatTemplate
from localspec.templates.message import Json, Message, Tool

QUESTION, CONTENT, THOUGHT = "zqasked", "zqsaid", "zqthought"
NAMES = ("zqfone", "zqftwo")
IDS = ("zqidaaaa1", "zqidaaaa2")
KEYS = ("zqka", "zqkb")
ARGUMENTS = ({"zqka": "zqva", "zqkb": "zqvb"}, {"zqka": "zqvc", "zqkb": "zqvd"})
# By their keys, in their order also where a template sorts them.
KINDS: Mapping[str, tuple[str, Json]] = {
    "zqka": ("string", "zqva"),
    "zqkb": ("number", 7419),
    "zqkc": ("boolean", True),
    "zqkd": ("null", None),
    "zqke": ("object", {"zqio": "zqvo", "zqin": "zqvi"}),
    "zqkf": ("array", ["zqvl", 7]),
    "zqkg": ("text", "zq<b>\nzqvt"),
    "zqkh": ("string", "zqvz"),
}
WITH_CONTENT: Message = {"content": CONTENT}
WITH_REASONING: Message = dict.fromkeys(REASONING, THOUGHT)
BOS, EOS = "<zqbos>", "<zqeos>"
SECONDS = 5.0  # of work in which a template has to answer all of it; 0.01 is usual
LONGEST = 1 << 13  # characters of a reply; those of families have less than 2,000

Parameters = Mapping[str, Json]


class Untokenized(NamedTuple):
    """A chat template without its vocabulary."""

    chat_template: str | None
    bos: int | None = 0
    eos: int | None = 1

    def token_text(self, token: int) -> str:
        return (BOS, EOS)[token]


class Probe:
    """Asks a template; an answer is empty where it refuses, or takes too long or too much."""

    def __init__(self, source: str) -> None:
        self._template = ChatTemplate(Untokenized(source))
        self.takes = self._template.takes
        self._deadline = self._template.worked_seconds + SECONDS
        self._tools = TOOLS
        self._rewrite: Callable[[str], str] = str
        self.prompt = self._prompt()  # what follows a question that is to be answered
        if not self.prompt:  # some read what not every schema says
            self._tools = [_tool(name, PLAIN) for name in NAMES]
            self.prompt = self._prompt()

    def seen_as(self, rewrite: Callable[[str], str]) -> Probe:
        """The same, with each reply put in another way."""
        other = copy(self)
        other._rewrite = rewrite
        return other

    def reply(self, message: Message) -> str:
        """Return what follows a question: a reply and its end."""
        return self._rewrite(self.written(message))

    def written(self, message: Message) -> str:
        """Return a reply as the template has it."""
        messages: list[Message] = [{"role": "user", "content": QUESTION}]
        messages.append({"role": "assistant", **message})
        # Some ask for another reply whether they are told to or not.
        return self._render(messages, asking=False).removesuffix(self.prompt or BOS)

    def _prompt(self) -> str:
        return self._render([{"role": "user", "content": QUESTION}], asking=True)

    def _render(self, messages: Sequence[Message], *, asking: bool) -> str:
        if self._template.worked_seconds > self._deadline:
            return ""
        try:
            text = self._template.written(messages, self._tools, {}, asking=asking)
        except UsageError:
            return ""
        _, _, reply = text.rpartition(QUESTION)
        return reply.replace(EOS, "").replace(BOS, "") if len(reply) < LONGEST else ""


def of_all_kinds() -> Message:
    """A message that makes a call with values of all kinds."""
    return calls({key: value for key, (_, value) in KINDS.items()})


def calls(*arguments: Parameters) -> Message:
    """A message that makes a call of each of these arguments."""
    return {"tool_calls": [_call(*call) for call in zip(IDS, NAMES, arguments, strict=False)]}


def _call(identity: str, name: str, arguments: Parameters) -> Json:
    function: Json = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def _tool(name: str, types: Mapping[str, str]) -> Tool:
    keys: Json = {key: {"type": kind, "description": ""} for key, kind in types.items()}
    schema: Json = {"type": "object", "properties": keys}
    function: Json = {"name": name, "description": "", "parameters": schema}
    return {"type": "function", "function": function}


TYPES = {key: "string" if kind == "text" else kind for key, (kind, _) in KINDS.items()}
PLAIN = dict.fromkeys(KINDS, "string")
TOOLS = [_tool(name, TYPES) for name in NAMES]
