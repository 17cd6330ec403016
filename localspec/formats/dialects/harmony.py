"""The channels of gpt-oss: analysis is reasoning, final is content, commentary carries calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from localspec.formats.dialects.bounds import Bounds
from localspec.formats.dialects.envelope import arguments
from localspec.formats.dialects.lark import Lark, choice, json_reply, json_value, quoted
from localspec.formats.dialects.offered_tools import OfferedTool, offered_tools
from localspec.formats.dialects.parts import Parts
from localspec.formats.dialects.reader import Reader
from localspec.formats.dialects.text_stream import Reading, TextStream
from localspec.formats.templates.message import Tool
from localspec.formats.thought.form import Place, ThoughtMarks

START, CHANNEL, CONSTRAIN = "<|start|>", "<|channel|>", "<|constrain|>"
MESSAGE, END, CALL, RETURN = "<|message|>", "<|end|>", "<|call|>", "<|return|>"
ENDS = (END, CALL, RETURN)
TURN = f"{START}assistant"
RECIPIENT = re.compile(r"\bto=(?:functions\.)?([^\s<]+)")
ANALYSIS = re.compile(r"<\|channel\|>\s*analysis\b")
NEXT = f"{END}{TURN}"  # ends a message, and begins another
FINAL = f"{CHANNEL}final{MESSAGE}"
MAX_HEADER = 256  # bytes of what stands before a message
MESSAGE_MARK = re.compile(re.escape(MESSAGE.encode()))
BODY_END = re.compile("|".join(map(re.escape, (*ENDS, START, CHANNEL))).encode())
BEFORE_HEADER = re.compile("|".join(map(re.escape, (*ENDS, START))))


class Harmony:
    marks = (START, CHANNEL, CONSTRAIN, MESSAGE, *ENDS)
    reasons = True

    def reader(self, tools: Sequence[Tool], prompt_end: str) -> Reader:
        stream, parts = TextStream(), Parts()
        stream.feed(_begun(prompt_end))
        return Reader(stream, parts, _reply(stream, parts, bool(offered_tools(tools))))

    def thoughts(self, tools: Sequence[Tool], prompt_end: str) -> ThoughtMarks:
        """After a thought comes the answer or, if there are tools, perhaps a call."""
        start = _place(Place(), _begun(prompt_end).encode())
        closing = NEXT if offered_tools(tools) else NEXT + FINAL
        return ThoughtMarks(ChannelThoughts(start), closing, "analysis")

    def grammar(self, bounds: Bounds) -> str | None:
        if bounds.form is None and not bounds.offered:
            return None
        lark = bounds.lark()
        thinking = _message_rule(lark, "analysis")
        calls = [_call_rule(lark, bounds.offered)] if bounds.offered else []
        if bounds.required:
            return lark.source(f"({thinking})* {choice(calls)}")
        final = f'{lark.mark(CHANNEL)} "final" {lark.mark(MESSAGE)}'
        if bounds.form is not None:
            return lark.source(
                f"({thinking})* {choice([f'{final} {json_reply(bounds.form)}', *calls])}"
            )
        preamble = _message_rule(lark, "commentary")
        return lark.source(f"({thinking} | {preamble})* {choice([*calls, f'{final} TEXT'])}")


@dataclass(frozen=True, slots=True)
class ChannelThoughts:
    """Follows the messages of a reply, of which those on the channel of analysis are thoughts."""

    start: Place

    def read(self, place: Place, piece: bytes) -> Place:
        return _place(place, piece)


def _place(place: Place, piece: bytes) -> Place:
    thinks, text = place.thinks, place.tail + piece
    while mark := (BODY_END if thinks else MESSAGE_MARK).search(text):
        if thinks:
            thinks, text = False, text[mark.start() :]  # the mark may begin a header
        else:
            header = BEFORE_HEADER.split(text[: mark.end()].decode("utf-8", "replace"))[-1]
            thinks, text = _thinks(header), text[mark.end() :]
    chooses = not thinks and text.endswith(CHANNEL.encode())
    return Place(thinks, text[-MAX_HEADER:], chooses=chooses)


def _thinks(header: str) -> bool:
    """Whether a message with this header is a thought; one to somebody is a call."""
    return bool(ANALYSIS.search(header)) and not RECIPIENT.search(header)


def _begun(prompt_end: str) -> str:
    """Return what a prompt has begun of the reply."""
    header, message, _ = prompt_end.rpartition(TURN)[2].partition(MESSAGE)
    return (header + message).strip() if TURN in prompt_end else ""


def _message_rule(lark: Lark, channel: str) -> str:
    """Return an expression for a message that is followed by another one."""
    head = f"{lark.mark(CHANNEL)} {quoted(channel)} {lark.mark(MESSAGE)}"
    return f'{head} {lark.upto(END)} {lark.mark(START)} "assistant"'


def _call_rule(lark: Lark, offered: Sequence[OfferedTool]) -> str:
    """Return an expression for a call, whose recipient stands before or after the channel."""
    json, message, channel = lark.mark(CONSTRAIN), lark.mark(MESSAGE), lark.mark(CHANNEL)
    calls = []
    for tool in offered:
        whom, arguments = f" to=functions.{tool.name}", json_value(tool.schema, tool)
        kind = f'{json} ("json" | " json")'
        inside = f"{channel} {quoted(f'commentary{whom} ')} {kind}"
        before = f'{quoted(whom)} {channel} ("commentary json" | "commentary " {kind})'
        calls.append(f"{choice([inside, before])} {message} {arguments}")
    return choice(calls)


def _reply(stream: TextStream, parts: Parts, may_call: bool) -> Reading[None]:
    """Read one message after another; text outside of messages is content."""
    mark = ""
    while mark or (yield from stream.ahead()):
        stream.begin(mark)
        if not mark:
            yield from stream.blank()
            mark = yield from stream.starts(START, CHANNEL, MESSAGE, "to=")
        if not mark:
            parts.say(stream.written())
            mark = yield from stream.until((START, CHANNEL), parts.say)
            continue
        pieces, message = [mark], mark
        if mark != MESSAGE:
            message = yield from stream.until((MESSAGE, *ENDS), pieces.append)
        if message == MESSAGE:
            mark = yield from _body(stream, parts, "".join(pieces), may_call)
        else:
            parts.say(stream.written())
            mark = ""


def _body(stream: TextStream, parts: Parts, header: str, may_call: bool) -> Reading[str]:
    """Read the body of a message; return the mark that begins the next one, if there is one."""
    if recipient := RECIPIENT.search(header):
        yield from stream.blank()
        called = may_call and (yield from arguments(stream, parts, recipient[1]))
        parts.say(stream.written())
        if called and not parts.complete:
            return (yield from stream.until((), parts.say))
    say = parts.think if _thinks(header) else parts.say
    mark = yield from stream.until((*ENDS, START, CHANNEL), say)
    return "" if mark in ENDS else mark
