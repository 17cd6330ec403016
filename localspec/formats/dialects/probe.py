"""Probes: messages of known words, and the text that a chat template makes of them.

No word of a probe occurs in a template, so that whatever else stands in its text is the
template's own. `docs/dialects.md` shows each probe's text for one template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple

from localspec.base.errors import UsageError
from localspec.formats.templates.adapt import REASONING
from localspec.formats.templates.chat_template import ChatTemplate
from localspec.formats.templates.message import Json, Message, Tool

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
BOS, EOS = "<zqbos>", "<zqeos>"
MAX_SECONDS = 5.0  # of work for all probes of a template; 0.01 is usual
MAX_REPLY = 1 << 13  # characters; replies of families have less than 2,000

Parameters = Mapping[str, Json]


class Untokenized(NamedTuple):
    """A chat template without its vocabulary."""

    chat_template: str | None
    bos: int | None = 0
    eos: int | None = 1

    def token_text(self, token: int) -> str:
        return (BOS, EOS)[token]


class Probe:
    """Renders an assistant's message by a chat template, and returns the text of the reply.

    That text begins where the question ends, so a prompt's end (`prompt`) belongs to it. It is
    empty where the template refuses the message, or takes too long or writes too much.
    """

    def __init__(self, source: str) -> None:
        self._template = ChatTemplate(Untokenized(source))
        self.takes = self._template.takes
        self._deadline = self._template.worked_seconds + MAX_SECONDS
        self._tools = TOOLS
        self._rewrite: Callable[[str], str] = str
        self.prompt = self._prompt()  # what follows a question that is to be answered
        if not self.prompt:  # some templates read of a schema what not every schema has
            self._tools = [_tool(name, STRINGS) for name in NAMES]
            self.prompt = self._prompt()

    def rewritten(self, rewrite: Callable[[str], str]) -> Probe:
        """Return the same probe, each of whose replies is put in another form."""
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
        # Some templates ask for the next reply whether or not they should.
        return self._render(messages, asking=False).removesuffix(self.prompt or BOS)

    @cached_property
    def content_reply(self) -> str:
        """A reply that is content alone."""
        return self.reply(WITH_CONTENT)

    @property
    def before_content(self) -> str:
        return self.content_reply.partition(CONTENT)[0]

    @property
    def after_content(self) -> str:
        return self.content_reply.partition(CONTENT)[2]

    @property
    def sorts_keys(self) -> bool:
        """Whether arguments are written in the order of their keys."""
        after_name = self.reply(REVERSED_CALL).partition(NAMES[0])[2]
        return -1 < after_name.find(KEYS[0]) < after_name.find(KEYS[1])

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
        return reply.replace(EOS, "").replace(BOS, "") if len(reply) < MAX_REPLY else ""


def _calls(*arguments: Parameters) -> Message:
    """A message with a call for each of these objects of arguments."""
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
STRINGS = dict.fromkeys(KINDS, "string")
TOOLS = [_tool(name, TYPES) for name in NAMES]

# The probes. Two of them make one where a reply has content, reasoning or both beside its calls.
WITH_CONTENT: Message = {"content": CONTENT}
WITH_REASONING: Message = dict.fromkeys(REASONING, THOUGHT)
ONE_CALL = _calls(ARGUMENTS[0])
TWO_CALLS = _calls(*ARGUMENTS)
EMPTY_CALL = _calls({})
REVERSED_CALL = _calls(dict(reversed(ARGUMENTS[0].items())))
ALL_KINDS_CALL = _calls({key: value for key, (_, value) in KINDS.items()})
