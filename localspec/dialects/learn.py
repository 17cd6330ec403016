"""Find out from a chat template how its model writes calls and reasoning."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from localspec.dialects.layout import INDEX, NAME, Layout
from localspec.dialects.learn_around import (
    Around,
    around_of,
    bare,
    begins_amid,
    blanks_of,
    gap_of,
)
from localspec.dialects.learn_call import (
    OneCall,
    call_of,
    name_first,
    named_once,
    object_in,
    spelled,
    with_keys,
)
from localspec.dialects.learn_fields import fields
from localspec.dialects.learn_thought import answer_of, thought_of
from localspec.dialects.probe import ARGUMENTS, CONTENT, KEYS, NAMES, WITH_CONTENT, Probe, calls
from localspec.dialects.segments import (
    MARK,
    MARK_LAST,
    closing_of,
    common_end,
    common_start,
    distinct,
    marks,
    pieces,
    segments,
)
from localspec.dialects.thought import Thought

LONGEST = 3000  # characters of a layout; those of families have less than 1,000
BLANK = r"\s*"
WORD_IN_BRACKETS = re.compile(r"\[/?\w[\w .-]*(?:\]|[=:]\s*)")  # may be no mark, but opens a call


class Learned(NamedTuple):
    """Findings about a template; None where it told nothing."""

    layout: Layout | None
    thought: Thought | None
    answer: tuple[str, str] | None  # what content stands between, where it is marked
    ending: str = ""  # of a reply, before the token that ends it, where the reader sees it


NOTHING = Learned(None, None, None)


def learned(probe: Probe) -> Learned:
    content_reply = probe.reply(WITH_CONTENT)
    # A template that shows messages as JSON has no way of its own to write calls.
    if re.search(r"""['"]role['"]:""", content_reply):
        return NOTHING
    thought = thought_of(probe, content_reply)
    layout, ending, around = (
        _any_layout(probe, content_reply, thought) if probe.takes.calls else (None, "", None)
    )
    if layout and len(repr(layout)) > LONGEST:
        layout = None
    answer = answer_of(content_reply, ending, probe.prompt, thought, layout) or around
    shown = (*(thought.marks if thought else ()), *marks(repr(layout)))
    begun = marks(probe.prompt)[-1:]
    closed = closing_of(begun[0], ending) if begun else ""
    return Learned(layout, thought, answer, _seen(ending, (*shown, closed)))


def _seen(ending: str, shown: Sequence[str]) -> str:
    """Find how a reply ends in marks that are not only there."""
    ending_seen = ""
    for segment in segments(ending.strip()):
        if MARK.fullmatch(segment) and segment not in shown:
            break
        ending_seen += segment
    return ending_seen.strip() if MARK.match(ending_seen) else ""


def _any_layout(
    probe: Probe, content_reply: str, thought: Thought | None
) -> tuple[Layout | None, str, Around | None]:
    """Learn the layout of calls, whether their names stand first or last."""
    layout, ending, around = _layout(probe, content_reply, thought)
    if layout:
        return layout, ending, around
    layout, ending, around = _layout(probe.seen_as(name_first), content_reply, thought)
    return (replace(layout, name_last=True) if layout and layout.keys else None), ending, around


def _layout(
    probe: Probe, content_reply: str, thought: Thought | None
) -> tuple[Layout | None, str, Around | None]:
    """Learn how calls are written, what ends any reply, and what is around content beside calls."""
    alone = named_once(spelled(probe.reply(calls(*ARGUMENTS[:1])))).removeprefix(probe.prompt)
    for beside in (WITH_CONTENT, {}):
        one = probe.reply({**calls(*ARGUMENTS[:1]), **beside})
        call = call_of(one, content_reply)
        if call is None or CONTENT in call.after:
            continue
        head = call.head.rpartition(thought.close)[2] if thought else call.head
        if not beside:
            head = head or _mark_last(probe.prompt)  # a prompt may begin what calls begin with
        if not head or (call.head and MARK.search(common_start(head, content_reply.lstrip()))):
            continue  # no beginning, or a turn of its own
        if beside and begins_amid(head, probe.prompt, alone):
            continue  # a turn whose beginning a prompt has, where no content is
        two = probe.reply({**calls(*ARGUMENTS), **beside}) if probe.takes.parallel else ""
        layout, ending = _closed(call, head, two, content_reply, probe.prompt)
        around = around_of(layout, one, content_reply) if beside else None
        if around:  # content is closed here, rather than calls opened
            layout = replace(layout, head=layout.head[len(around[1]) :].lstrip())
        nothing = spelled(probe.reply({**calls({}), **beside}))
        layout = _opened(probe, layout, call, content_reply, nothing)
        gap = gap_of(probe, call.head, content_reply)
        if gap and layout.openings and head.startswith(layout.openings[0]):
            layout = replace(layout, openings=(*layout.openings, gap + layout.openings[0]))
        layout = replace(layout, blanks=blanks_of(probe, head, call.after, ending))
        layout = bare(probe, layout, bool(beside)) if not layout.openings else layout
        one = probe.written({**calls(*ARGUMENTS[:1]), **beside})
        return _readable(with_keys(layout, one)), ending, around
    return None, "", None


def _readable(layout: Layout) -> Layout | None:
    """The layout, if it tells where each value ends, and all of them."""
    fields = layout.fields
    if fields is None:
        return layout
    closed = all(fields.quotes) if fields.quotes else fields.raw or fields.end.strip()
    return layout if closed and pieces(layout.end) else None


def _mark_last(prompt: str) -> str:
    """Find the mark with which a prompt ends, if it ends with one."""
    mark = MARK_LAST.search(prompt)
    return mark[1] if mark and prompt.endswith(mark[1]) else ""


def _closed(
    call: OneCall, head: str, two: str, content_reply: str, prompt: str
) -> tuple[Layout, str]:
    """The layout of one call, and of a second one where a reply may have it."""
    after = _after(content_reply, prompt)
    last, ending = _ended(call.after, after)
    layout = Layout(head, call.name_end, last, style=call.style)
    second = _second(call, head, two) if two else None
    if second is None:
        return layout, ending
    between, after_second, name_end = second
    last, _ = _ended(after_second, after)
    end = common_start(between, last)
    first, again = _numbered(head, between[len(end) :])
    closes_one = end.rstrip() not in (layout.end.rstrip(), call.after.rstrip())
    last = last[len(end) :]
    return Layout(first, name_end, end, again, last, closes_one, style=call.style), ending


def _after(content_reply: str, prompt: str) -> str:
    """Find what ends a reply, but for the mark that closes its content."""
    before, _, after = content_reply.partition(CONTENT)
    opening = marks(before)[-1:]
    closing = closing_of(opening[0], after) if opening and opening[0] not in prompt else ""
    return after.lstrip().removeprefix(closing) if closing else after


def _ended(after_call: str, after: str) -> tuple[str, str]:
    """Find what closes calls, and what ends the reply after them."""
    ending = common_end(after_call, after)
    first = MARK.match(ending)
    before = after_call[: len(after_call) - len(ending)]
    if first and before[-1:].isalnum() and first[0] in before:  # the end of a longer mark
        ending = ending[first.end() :]
    last = after_call[: len(after_call) - len(ending)].rstrip()
    if after.strip() and not ending.strip():  # calls end a reply in a way of their own
        mark = MARK_LAST.search(last)
        if mark and not mark[0].startswith("</"):
            return last[: mark.start()].rstrip(), ending
    return last, ending


def _second(call: OneCall, head: str, two: str) -> tuple[str, str, str] | None:
    """Find what stands between two calls, what follows them, and what follows a name."""
    two = named_once(spelled(two))
    start = two.find(head + NAMES[0])
    first = two[start + len(head) + len(NAMES[0]) :]
    at = first.find(NAMES[1])
    if start < 0 or at < 0:
        return None
    one, other = first[:at], first[at + len(NAMES[1]) :]
    parts = [_arguments(text_after_name, call) for text_after_name in (one, other)]
    if parts[0] is None or parts[1] is None:
        return None
    name_end, _ = _numbered(parts[0][0], parts[1][0])
    return parts[0][1], parts[1][1], name_end


def _arguments(text: str, call: OneCall) -> tuple[str, str] | None:
    """Find what stands before and after the arguments."""
    if call.arguments is None:
        whole = object_in(text)
        return (text[: whole[0]], text[whole[1] :]) if whole else None
    two = fields(text)
    return (two.before, two.after) if two else None


def _numbered(one: str, other: str) -> tuple[str, str]:
    """Two texts with a place for the number of a call where they end alike but for it."""
    first, second = segments(one), segments(other)
    for at in range(-1, -min(len(first), len(second)) - 1, -1):
        if first[at].isdecimal() and second[at].isdecimal() and first[at] != second[at]:
            first[at] = second[at] = INDEX
        elif first[at] != second[at]:
            break
    return "".join(first), "".join(second)


def _opened(
    probe: Probe, layout: Layout, call: OneCall, content_reply: str, nothing: str
) -> Layout:
    """The layout with the marks that begin calls, and the arguments as they are written."""
    opened = layout
    if call.arguments is None:
        turned = probe.reply(calls(dict(reversed(ARGUMENTS[0].items())))).partition(NAMES[0])[2]
        in_order = -1 < turned.find(KEYS[0]) < turned.find(KEYS[1])
        opened = replace(opened, style=replace(opened.style, in_order=in_order))
    else:
        opened = call.arguments.described(layout, probe)
        if opened.empty is None and NAMES[0] in nothing:
            again = (opened.name_end + opened.end).count(NAME)
            after = NAME.join(nothing.rsplit(NAMES[0], again)).rpartition(NAMES[0])[2]
            usual = opened.name_end + opened.end
            whole = usual + opened.close
            if not after.startswith(usual) and not after.startswith(whole):
                opened = replace(opened, empty=_empty(after, opened))
    return replace(opened, openings=_openings(opened.head, content_reply))


def _empty(after: str, layout: Layout) -> str | None:
    """Find what follows a name without arguments, if it differs by blanks alone."""
    usual = layout.name_end + layout.end
    pattern = BLANK.join(re.escape(segment) for segment in segments(usual) if not segment.isspace())
    match = re.match(rf"\s*{pattern}{'' if usual == usual.rstrip() else BLANK}", after)
    return match[0] if match else None


def _openings(head: str, content_reply: str) -> tuple[str, ...]:
    if not MARK.match(head):
        if match := WORD_IN_BRACKETS.match(head):
            return (match[0],)
        if head[:1] in ("{", "["):
            return ()
        opening = re.split(r"[{\[]|\ue000|\ue001", head)[0].strip()
        return (opening,) if len(opening) > 1 or not opening.isascii() else ()
    first = distinct(head, [content_reply])
    more = MARK.search(head[len(first) :]) or re.search(r"<\S+", head[len(first) :])
    second = distinct(head[len(first) + more.start() :], [content_reply, first]) if more else ""
    return (first, second) if second else (first,)
