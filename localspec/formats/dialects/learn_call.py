"""Find a call in a reply to a probe, and take it apart."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from localspec.formats.dialects.layout import ID, NAME, PLAIN, Layout, ObjectStyle
from localspec.formats.dialects.learn_fields import TwoArguments, two_arguments
from localspec.formats.dialects.probe import ARGUMENTS, CONTENT, IDS, KEYS, NAMES
from localspec.formats.dialects.segments import common_start


@dataclass(frozen=True, slots=True)
class OneCall:
    """A call taken apart at its name and arguments."""

    head: str
    name_end: str
    arguments: TwoArguments | None  # None: one JSON object
    after: str  # all that follows
    style: ObjectStyle = PLAIN  # of that object


def spelled(text: str) -> str:
    """Return a text with `ID` in the place of each identifier."""
    for identity in IDS:
        text = text.replace(identity, ID)
    return text


def named_once(text: str) -> str:
    """Put `ID` where a name stands before it names the tool, and `NAME` where it stands later."""
    for name, arguments in zip(NAMES, ARGUMENTS, strict=True):
        at = max(map(text.rfind, arguments.values()))
        text = text[:at] + text[at:].replace(name, NAME) if at >= 0 else text
        before, last_name, after = text.rpartition(name)
        text = before.replace(name, ID) + last_name + after
    return text


def call_of(text: str, content_reply: str) -> OneCall | None:
    """Take the only call of a reply to a probe apart; None unless there is exactly one.

    `content_reply` is the same reply with content in place of the call, which begins where the two
    part.
    """
    text = spelled(text)
    start = len(common_start(text, content_reply))
    text = text[:start] + named_once(text[start:])
    if text.startswith(ID, start):  # whom a call is for, where content is for the user
        start -= len(re.split(r"[\s<>]", text[:start])[-1])
    at = text.find(NAMES[0], start)
    if CONTENT in text[:at]:
        start = max(start, text.index(CONTENT) + len(CONTENT))
    if at < 0 or NAMES[0] in text[start:at]:
        return None
    after = text[at + len(NAMES[0]) :]
    if NAMES[0] in after or KEYS[0] not in after:
        return None
    head = text[start:at].lstrip()
    if whole := object_in(after):
        style = _style(after[slice(*whole)])
        return OneCall(head, after[: whole[0]], None, after[whole[1] :], style)
    if two := two_arguments(after):
        return OneCall(head, two.before, two, two.after)
    return None


def _style(text: str) -> ObjectStyle:
    """Find what stands between the keys and values of an object."""
    between = re.split(r'"\w+"', text)  # keys and values
    if "\n" in text or len(between) < 4:
        return ObjectStyle(lines="\n" in text)
    return ObjectStyle(comma=between[2], colon=between[1])


def object_in(text: str) -> tuple[int, int] | None:
    """Find the arguments as a JSON object."""
    for opening in re.finditer(r"\{", text[: text.find(KEYS[0])]):
        try:
            value, end = json.JSONDecoder().raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            continue
        if value in ARGUMENTS:
            return opening.start(), end
    return None


def name_first(text: str) -> str:
    """Exchange each name with the object before it, so that names stand first."""
    turned = ""
    for name in NAMES:
        at, whole = text.find(name), object_in(text)
        if not whole or at < whole[1]:
            break
        start, end = whole
        turned += text[:start] + name + text[end:at] + text[start:end]
        text = text[at + len(name) :]
    return turned + text


def with_keys(layout: Layout, text: str) -> Layout:
    """Return the layout with the keys of calls that are JSON objects, if they are."""
    at = text.rfind(NAMES[0])
    braces = [match.start() for match in re.finditer(r"\{", text[: max(at, 0)])]
    for opening in reversed(braces):
        try:
            call, _ = json.JSONDecoder().raw_decode(text, opening)
        except (ValueError, RecursionError):
            continue
        match call:
            case dict():
                names = [key for key, value in call.items() if value == NAMES[0]]
                arguments = [key for key, value in call.items() if value in ARGUMENTS]
                if names and arguments:
                    return replace(layout, keys=(names[0], arguments[0]))
    return layout
