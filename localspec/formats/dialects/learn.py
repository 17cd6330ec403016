"""Learn from a chat template how its model writes calls and reasoning.

Each step compares replies to `probe`s. `docs/dialects.md` walks through one template.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from localspec.formats.dialects.layout import NAME, Layout
from localspec.formats.dialects.learn_around import (
    Around,
    around_of,
    bare,
    begins_amid,
    blanks_of,
    gap_of,
)
from localspec.formats.dialects.learn_call import OneCall, call_of, name_first, spelled, with_keys
from localspec.formats.dialects.learn_closing import closed
from localspec.formats.dialects.learn_fields import with_fields
from localspec.formats.dialects.learn_thought import answer_of, thought_of
from localspec.formats.dialects.probe import (
    CONTENT,
    EMPTY_CALL,
    NAMES,
    ONE_CALL,
    WITH_CONTENT,
    Probe,
)
from localspec.formats.dialects.segments import (
    MARK,
    MARK_LAST,
    closing_of,
    common_start,
    distinct,
    marks,
    pieces,
    segments,
)
from localspec.formats.dialects.thought import Thought
from localspec.formats.templates.message import Message

MAX_LAYOUT = 3000  # characters; layouts of families have less than 1,000
BLANK = r"\s*"
WORD_IN_BRACKETS = re.compile(r"\[/?\w[\w .-]*(?:\]|[=:]\s*)")  # may be no mark, but opens a call


class Learned(NamedTuple):
    """Findings about a template; None where it shows nothing."""

    layout: Layout | None
    thought: Thought | None
    answer: tuple[str, str] | None  # what content stands between, where it is marked
    ending: str = ""  # of a reply, before the token that ends it, where the reader sees it


class Calls(NamedTuple):
    """Findings from replies with calls."""

    layout: Layout | None
    ending: str  # of any reply
    around: Around | None  # marks around content that stands beside calls


NOTHING = Learned(None, None, None)
NO_CALLS = Calls(None, "", None)


def learned(probe: Probe) -> Learned:
    """Learn how a template writes calls, thoughts and content, and how its replies end."""
    # A template that shows messages as JSON has no way of its own to write calls.
    if re.search(r"""['"]role['"]:""", probe.content_reply):
        return NOTHING
    thought = thought_of(probe)
    layout, ending, around = _any_calls(probe, thought) if probe.takes.calls else NO_CALLS
    if layout and len(repr(layout)) > MAX_LAYOUT:
        layout = None
    answer = answer_of(probe, ending, thought, layout) or around
    shown = (*(thought.marks if thought else ()), *marks(repr(layout)))
    begun = marks(probe.prompt)[-1:]
    closing = closing_of(begun[0], ending) if begun else ""
    return Learned(layout, thought, answer, _unseen(ending, (*shown, closing)))


def _unseen(ending: str, shown: Sequence[str]) -> str:
    """Return an ending up to its first mark that is not among those `shown`."""
    seen = ""
    for segment in segments(ending.strip()):
        if MARK.fullmatch(segment) and segment not in shown:
            break
        seen += segment
    return seen.strip() if MARK.match(seen) else ""


def _any_calls(probe: Probe, thought: Thought | None) -> Calls:
    """Learn the layout of calls, whether their names stand before or after the arguments."""
    calls = _calls(probe, thought)
    if calls.layout:
        return calls
    calls = _calls(probe.rewritten(name_first), thought)
    if calls.layout and calls.layout.keys:
        return calls._replace(layout=replace(calls.layout, name_last=True))
    return calls._replace(layout=None)


@dataclass(frozen=True, slots=True)
class Sample:
    """A reply with one call, and what it was made of."""

    probe: Probe
    beside: Message  # what the message has beside the call: content, or nothing
    reply: str
    call: OneCall
    head: str = ""  # what begins calls: `call.head` without reasoning, or with a prompt's end


def _calls(probe: Probe, thought: Thought | None) -> Calls:
    """Learn from a call beside content; where that shows none, from a call alone."""
    for beside in (WITH_CONTENT, {}):
        reply = probe.reply({**ONE_CALL, **beside})
        call = call_of(reply, probe.content_reply)
        if call is None or CONTENT in call.after:
            continue
        sample = Sample(probe, beside, reply, call)
        if head := _head(sample, thought):
            return _calls_of(replace(sample, head=head))
    return NO_CALLS


def _head(sample: Sample, thought: Thought | None) -> str:
    """Find what begins calls; return nothing where this reply does not show it."""
    probe, whole = sample.probe, sample.call.head
    head = whole.rpartition(thought.close)[2] if thought else whole
    if not sample.beside:
        head = head or _mark_last(probe.prompt)  # a prompt may begin what calls begin with
    own_turn = whole and MARK.search(common_start(head, probe.content_reply.lstrip()))
    # Beside content, a call may be a turn of its own, whose beginning a prompt has otherwise.
    amid = sample.beside and begins_amid(probe, head)
    return "" if own_turn or amid else head


def _mark_last(prompt: str) -> str:
    """Return the mark with which a prompt ends, if it ends with one."""
    mark = MARK_LAST.search(prompt)
    return mark[1] if mark and prompt.endswith(mark[1]) else ""


def _calls_of(sample: Sample) -> Calls:
    """Learn the layout step by step: the texts around arguments, these, then what begins calls."""
    probe, call, head = sample.probe, sample.call, sample.head
    layout, ending = closed(probe, call, head, sample.beside)
    around = around_of(probe, layout, sample.reply) if sample.beside else None
    if around:  # what seems to open calls closes content
        layout = replace(layout, head=layout.head[len(around[1]) :].lstrip())
    layout = _with_arguments(layout, sample)
    layout = replace(layout, openings=_openings(layout.head, probe.content_reply))
    gap = gap_of(probe, call.head)
    if gap and layout.openings and head.startswith(layout.openings[0]):
        layout = replace(layout, openings=(*layout.openings, gap + layout.openings[0]))
    layout = replace(layout, blanks=blanks_of(probe, head, call.after, ending))
    if not layout.openings:
        layout = bare(probe, layout, bool(sample.beside))
    layout = with_keys(layout, probe.written({**ONE_CALL, **sample.beside}))
    return Calls(_readable(layout), ending, around)


def _with_arguments(layout: Layout, sample: Sample) -> Layout:
    """Add how arguments are written: as one JSON object, or one by one."""
    probe, arguments = sample.probe, sample.call.arguments
    if arguments is None:
        return replace(layout, style=replace(layout.style, in_order=probe.sorts_keys))
    layout = with_fields(layout, arguments, probe)
    without = spelled(probe.reply({**EMPTY_CALL, **sample.beside}))
    return replace(layout, empty=_empty(layout, without))


def _empty(layout: Layout, reply: str) -> str | None:
    """Find what follows a name without arguments, if it differs from the usual by blanks alone."""
    if NAMES[0] not in reply:
        return None
    usual = layout.name_end + layout.end
    after = NAME.join(reply.rsplit(NAMES[0], usual.count(NAME))).rpartition(NAMES[0])[2]
    if after.startswith(usual):
        return None
    pattern = BLANK.join(re.escape(part) for part in segments(usual) if not part.isspace())
    match = re.match(rf"\s*{pattern}{'' if usual == usual.rstrip() else BLANK}", after)
    return match[0] if match else None


def _openings(head: str, content_reply: str) -> tuple[str, ...]:
    """Find the marks with which a head begins, the first of which no reply without calls has."""
    if MARK.match(head):
        first = distinct(head, [content_reply])
        after = head[len(first) :]
        more = MARK.search(after) or re.search(r"<\S+", after)
        second = distinct(after[more.start() :], [content_reply, first]) if more else ""
        return (first, second) if second else (first,)
    if match := WORD_IN_BRACKETS.match(head):
        return (match[0],)
    if head[:1] in ("{", "["):  # JSON or Python, which content may begin with
        return ()
    word = re.split(r"[{\[]|\ue000|\ue001", head)[0].strip()
    return (word,) if len(word) > 1 or not word.isascii() else ()


def _readable(layout: Layout) -> Layout | None:
    """Return the layout if it shows where each value ends, and where all of them do."""
    fields = layout.fields
    if fields is None:
        return layout
    closed = all(fields.quotes) if fields.quotes else fields.raw or fields.end.strip()
    return layout if closed and pieces(layout.end) else None
