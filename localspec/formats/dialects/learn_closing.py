"""Learn what closes a call, what stands between two calls, and what ends a reply."""

from __future__ import annotations

from localspec.formats.dialects.layout import INDEX, Layout
from localspec.formats.dialects.learn_around import content_closing
from localspec.formats.dialects.learn_call import OneCall, named_once, object_in, spelled
from localspec.formats.dialects.learn_fields import two_arguments
from localspec.formats.dialects.probe import NAMES, TWO_CALLS, Probe
from localspec.formats.dialects.segments import MARK, MARK_LAST, common_end, common_start, segments
from localspec.formats.templates.message import Message


def closed(probe: Probe, call: OneCall, head: str, beside: Message) -> tuple[Layout, str]:
    """Return the layout of calls with what closes them, and what ends any reply.

    `beside` is what the message has beside its calls. A second call shows what stands between two.
    """
    after = _after_content(probe)
    close, ending = _ended(call.after, after)
    one = Layout(head, call.name_end, close, style=call.style)
    two = probe.reply({**TWO_CALLS, **beside}) if probe.takes.parallel else ""
    second = _second(call, head, two)
    if second is None:
        return one, ending
    between, after_second, name_end = second
    last, _ = _ended(after_second, after)
    end = common_start(between, last)
    head, again = _numbered(head, between[len(end) :])
    closes_one = end.rstrip() not in (close.rstrip(), call.after.rstrip())
    several = Layout(head, name_end, end, again, last[len(end) :], closes_one, style=call.style)
    return several, ending


def _after_content(probe: Probe) -> str:
    """Find what ends a reply, but for the mark that closes its content."""
    closing, after = content_closing(probe), probe.after_content
    return after.lstrip().removeprefix(closing) if closing else after


def _ended(after_call: str, after_content: str) -> tuple[str, str]:
    """Return what closes calls, and what ends the reply after them."""
    ending = common_end(after_call, after_content)
    first = MARK.match(ending)
    before = after_call[: len(after_call) - len(ending)]
    if first and before[-1:].isalnum() and first[0] in before:  # the end of a longer mark
        ending = ending[first.end() :]
    close = after_call[: len(after_call) - len(ending)].rstrip()
    if after_content.strip() and not ending.strip():  # calls end a reply in a way of their own
        mark = MARK_LAST.search(close)
        if mark and not mark[0].startswith("</"):
            return close[: mark.start()].rstrip(), ending
    return close, ending


def _second(call: OneCall, head: str, reply: str) -> tuple[str, str, str] | None:
    """Read a reply with two calls: what stands between them, after them, and after their names."""
    reply = named_once(spelled(reply))
    _, first_name, after_first_name = reply.partition(head + NAMES[0])
    at = after_first_name.find(NAMES[1])
    if not first_name or at < 0:
        return None
    first = _around_arguments(after_first_name[:at], call)
    second = _around_arguments(after_first_name[at + len(NAMES[1]) :], call)
    if first is None or second is None:
        return None
    name_end, _ = _numbered(first[0], second[0])
    return first[1], second[1], name_end


def _around_arguments(text: str, call: OneCall) -> tuple[str, str] | None:
    """Return the texts before and after the arguments, which are written as those of `call`."""
    if call.arguments is None:
        whole = object_in(text)
        return (text[: whole[0]], text[whole[1] :]) if whole else None
    two = two_arguments(text)
    return (two.before, two.after) if two else None


def _numbered(one: str, other: str) -> tuple[str, str]:
    """Return two texts with a place for the number of a call, if they end alike but for it."""
    first, second = segments(one), segments(other)
    for at in range(-1, -min(len(first), len(second)) - 1, -1):
        if first[at].isdecimal() and second[at].isdecimal() and first[at] != second[at]:
            first[at] = second[at] = INDEX
        elif first[at] != second[at]:
            break
    return "".join(first), "".join(second)
