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
from localspec.dialects.probe import GIVEN, KEYS, NAMES, SAID, TALK, Probe, calls
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
    said = probe.reply(TALK)
    if re.search(r"""['"]role['"]:""", said):  # messages as they came are no way to write calls
        return NOTHING
    thought = thought_of(probe, said)
    layout, ending, around = (
        _any_layout(probe, said, thought) if probe.takes.calls else (None, "", None)
    )
    if layout and len(repr(layout)) > LONGEST:
        layout = None
    answer = answer_of(said, ending, probe.prompt, thought, layout) or around
    shown = (*(thought.marks if thought else ()), *marks(repr(layout)))
    begun = marks(probe.prompt)[-1:]
    closed = closing_of(begun[0], ending) if begun else ""
    return Learned(layout, thought, answer, _seen(ending, (*shown, closed)))


def _seen(ending: str, shown: Sequence[str]) -> str:
    """Find how a reply ends in marks that are not only there."""
    found = ""
    for each in segments(ending.strip()):
        if MARK.fullmatch(each) and each not in shown:
            break
        found += each
    return found.strip() if MARK.match(found) else ""


def _any_layout(
    probe: Probe, said: str, thought: Thought | None
) -> tuple[Layout | None, str, Around | None]:
    """Learn the layout of calls, whether their names stand first or last."""
    found, ending, around = _layout(probe, said, thought)
    if found:
        return found, ending, around
    found, ending, around = _layout(probe.seen_as(name_first), said, thought)
    return (replace(found, name_last=True) if found and found.keys else None), ending, around


def _layout(
    probe: Probe, said: str, thought: Thought | None
) -> tuple[Layout | None, str, Around | None]:
    """Learn how calls are written, what ends any reply, and what is around content beside calls."""
    alone = named_once(spelled(probe.reply(calls(*GIVEN[:1])))).removeprefix(probe.prompt)
    for beside in (TALK, {}):
        one = probe.reply({**calls(*GIVEN[:1]), **beside})
        call = call_of(one, said)
        if call is None or SAID in call.rest:
            continue
        head = call.head.rpartition(thought.close)[2] if thought else call.head
        if not beside:
            head = head or _mark_last(probe.prompt)  # a prompt may begin what calls begin with
        if not head or (call.head and MARK.search(common_start(head, said.lstrip()))):
            continue  # no beginning, or a turn of its own
        if beside and begins_amid(head, probe.prompt, alone):
            continue  # a turn whose beginning a prompt has, where no content is
        two = probe.reply({**calls(*GIVEN), **beside}) if probe.takes.parallel else ""
        layout, ending = _closed(call, head, two, said, probe.prompt)
        around = around_of(layout, one, said) if beside else None
        if around:  # content is closed here, rather than calls opened
            layout = replace(layout, head=layout.head[len(around[1]) :].lstrip())
        nothing = spelled(probe.reply({**calls({}), **beside}))
        layout = _opened(probe, layout, call, said, nothing)
        gap = gap_of(probe, call.head, said)
        if gap and layout.openings and head.startswith(layout.openings[0]):
            layout = replace(layout, openings=(*layout.openings, gap + layout.openings[0]))
        layout = replace(layout, blanks=blanks_of(probe, head, call.rest, ending))
        layout = bare(probe, layout, bool(beside)) if not layout.openings else layout
        one = probe.written({**calls(*GIVEN[:1]), **beside})
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
    found = MARK_LAST.search(prompt)
    return found[1] if found and prompt.endswith(found[1]) else ""


def _closed(call: OneCall, head: str, two: str, said: str, prompt: str) -> tuple[Layout, str]:
    """The layout of one call, and of a second one where a reply may have it."""
    after = _after(said, prompt)
    last, ending = _ended(call.rest, after)
    layout = Layout(head, call.name_end, last, style=call.style)
    second = _second(call, head, two) if two else None
    if second is None:
        return layout, ending
    between, rest, name_end = second
    last, _ = _ended(rest, after)
    end = common_start(between, last)
    first, again = _numbered(head, between[len(end) :])
    closes_one = end.rstrip() not in (layout.end.rstrip(), call.rest.rstrip())
    last = last[len(end) :]
    return Layout(first, name_end, end, again, last, closes_one, style=call.style), ending


def _after(said: str, prompt: str) -> str:
    """Find what ends a reply, but for the mark that closes its content."""
    before, _, after = said.partition(SAID)
    opening = marks(before)[-1:]
    closing = closing_of(opening[0], after) if opening and opening[0] not in prompt else ""
    return after.lstrip().removeprefix(closing) if closing else after


def _ended(rest: str, after: str) -> tuple[str, str]:
    """Find what closes calls, and what ends the reply after them."""
    ending = common_end(rest, after)
    first = MARK.match(ending)
    before = rest[: len(rest) - len(ending)]
    if first and before[-1:].isalnum() and first[0] in before:  # the end of a longer mark
        ending = ending[first.end() :]
    last = rest[: len(rest) - len(ending)].rstrip()
    if after.strip() and not ending.strip():  # calls end a reply in a way of their own
        found = MARK_LAST.search(last)
        if found and not found[0].startswith("</"):
            return last[: found.start()].rstrip(), ending
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
    parts = [_arguments(each, call) for each in (one, other)]
    if parts[0] is None or parts[1] is None:
        return None
    name_end, _ = _numbered(parts[0][0], parts[1][0])
    return parts[0][1], parts[1][1], name_end


def _arguments(text: str, call: OneCall) -> tuple[str, str] | None:
    """Find what stands before and after the arguments."""
    if call.arguments is None:
        whole = object_in(text)
        return (text[: whole[0]], text[whole[1] :]) if whole else None
    found = fields(text)
    return (found.before, found.rest) if found else None


def _numbered(one: str, other: str) -> tuple[str, str]:
    """Two texts with a place for the number of a call where they end alike but for it."""
    first, second = segments(one), segments(other)
    for at in range(-1, -min(len(first), len(second)) - 1, -1):
        if first[at].isdecimal() and second[at].isdecimal() and first[at] != second[at]:
            first[at] = second[at] = INDEX
        elif first[at] != second[at]:
            break
    return "".join(first), "".join(second)


def _opened(probe: Probe, layout: Layout, call: OneCall, said: str, nothing: str) -> Layout:
    """The layout with the marks that begin calls, and the arguments as they are written."""
    found = layout
    if call.arguments is None:
        turned = probe.reply(calls(dict(reversed(GIVEN[0].items())))).partition(NAMES[0])[2]
        in_order = -1 < turned.find(KEYS[0]) < turned.find(KEYS[1])
        found = replace(found, style=replace(found.style, in_order=in_order))
    else:
        found = call.arguments.described(layout, probe)
        if found.empty is None and NAMES[0] in nothing:
            again = (found.name_end + found.end).count(NAME)
            after = NAME.join(nothing.rsplit(NAMES[0], again)).rpartition(NAMES[0])[2]
            usual = found.name_end + found.end
            whole = usual + found.close
            if not after.startswith(usual) and not after.startswith(whole):
                found = replace(found, empty=_empty(after, found))
    return replace(found, openings=_openings(found.head, said))


def _empty(after: str, layout: Layout) -> str | None:
    """Find what follows a name without arguments, if it differs by blanks alone."""
    usual = layout.name_end + layout.end
    pattern = BLANK.join(re.escape(each) for each in segments(usual) if not each.isspace())
    found = re.match(rf"\s*{pattern}{'' if usual == usual.rstrip() else BLANK}", after)
    return found[0] if found else None


def _openings(head: str, said: str) -> tuple[str, ...]:
    if not MARK.match(head):
        if found := WORD_IN_BRACKETS.match(head):
            return (found[0],)
        if head[:1] in ("{", "["):
            return ()
        opening = re.split(r"[{\[]|\ue000|\ue001", head)[0].strip()
        return (opening,) if len(opening) > 1 or not opening.isascii() else ()
    first = distinct(head, [said])
    more = MARK.search(head[len(first) :]) or re.search(r"<\S+", head[len(first) :])
    second = distinct(head[len(first) + more.start() :], [said, first]) if more else ""
    return (first, second) if second else (first,)
