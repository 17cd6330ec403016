"""The channels of gpt-oss: analysis is reasoning, final is content, commentary carries calls."""

from __future__ import annotations

import re
from collections.abc import Sequence

from localspec.dialects.bounds import Bounds
from localspec.dialects.envelope import arguments
from localspec.dialects.lark import Lark, choice, json_reply, json_value, quoted
from localspec.dialects.offered_tools import OfferedTool, offered_tools
from localspec.dialects.parts import Parts
from localspec.dialects.reader import Reader
from localspec.dialects.tape import Reading, Tape
from localspec.templates.message import Tool

START, CHANNEL, CONSTRAIN = "<|start|>", "<|channel|>", "<|constrain|>"
MESSAGE, END, CALL, RETURN = "<|message|>", "<|end|>", "<|call|>", "<|return|>"
ENDS = (END, CALL, RETURN)
TURN = f"{START}assistant"
RECIPIENT = re.compile(r"\bto=(?:functions\.)?([^\s<]+)")
ANALYSIS = re.compile(r"<\|channel\|>\s*analysis\b")


class Harmony:
    marks = (START, CHANNEL, CONSTRAIN, MESSAGE, *ENDS)
    reasons = True

    def reader(self, tools: Sequence[Tool], prompt_end: str) -> Reader:
        tape, parts = Tape(), Parts()
        header, message, _ = prompt_end.rpartition(TURN)[2].partition(MESSAGE)
        if TURN in prompt_end:
            tape.feed((header + message).strip())
        return Reader(tape, parts, _reply(tape, parts, bool(offered_tools(tools))))

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


def _reply(tape: Tape, parts: Parts, may_call: bool) -> Reading[None]:
    """Read one message after another; text outside of messages is content."""
    mark = ""
    while mark or (yield from tape.ahead()):
        tape.begin(mark)
        if not mark:
            yield from tape.blank()
            mark = yield from tape.starts(START, CHANNEL, MESSAGE, "to=")
        if not mark:
            parts.say(tape.written())
            mark = yield from tape.until((START, CHANNEL), parts.say)
            continue
        pieces, message = [mark], mark
        if mark != MESSAGE:
            message = yield from tape.until((MESSAGE, *ENDS), pieces.append)
        if message == MESSAGE:
            mark = yield from _body(tape, parts, "".join(pieces), may_call)
        else:
            parts.say(tape.written())
            mark = ""


def _body(tape: Tape, parts: Parts, header: str, may_call: bool) -> Reading[str]:
    """Read the body of a message; return the mark that begins the next one, if there is one."""
    recipient = RECIPIENT.search(header)
    if recipient:
        yield from tape.blank()
        called = may_call and (yield from arguments(tape, parts, recipient[1]))
        parts.say(tape.written())
        if called and not parts.complete:
            return (yield from tape.until((), parts.say))
    thinks = ANALYSIS.search(header) and not recipient
    say = parts.think if thinks else parts.say
    mark = yield from tape.until((*ENDS, START, CHANNEL), say)
    return "" if mark in ENDS else mark
