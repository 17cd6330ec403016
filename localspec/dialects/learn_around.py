"""Find out what stands around calls: content, its marks, and blanks."""

from __future__ import annotations

from dataclasses import replace

from localspec.dialects.layout import Layout
from localspec.dialects.learn_call import named_once, spelled
from localspec.dialects.probe import ARGUMENTS, CONTENT, NAMES, WITH_CONTENT, Probe, calls
from localspec.dialects.segments import MARK

Around = tuple[str, str]


def bare(probe: Probe, layout: Layout, beside: bool) -> Layout:
    """The layout of calls without marks, told whether content is before them or after them."""
    _, _, after = probe.reply({**calls(*ARGUMENTS[:1]), **WITH_CONTENT}).partition(NAMES[0])
    return replace(layout, within=beside, followed=CONTENT in after)


def begins_amid(head: str, prompt: str, alone: str) -> bool:
    """Whether a prompt ends with a part of what begins a call, which then goes on."""
    starts = (at for at in range(len(head) - 1, 3, -1) if prompt.endswith(head[:at]))
    return any(alone.startswith(head[at:]) for at in starts)


def blanks_of(probe: Probe, head: str, after_call: str, ending: str) -> tuple[str, str]:
    """Find the blanks before calls that stand alone, and those after them."""
    alone = named_once(spelled(probe.reply(calls(*ARGUMENTS[:1]))))
    before = alone.removeprefix(probe.prompt).partition(head)[0] if head in alone else ""
    last = after_call[: len(after_call) - len(ending)] if ending else after_call
    after = last[len(last.rstrip()) :] + ending[: len(ending) - len(ending.lstrip())]
    return before[len(before.rstrip()) :], after


def around_of(layout: Layout, one: str, content_reply: str) -> Around | None:
    """Find the marks around content that only has them where a call follows."""
    plain = content_reply.partition(CONTENT)[0].rstrip()
    before = one.partition(CONTENT)[0]
    closing = MARK.match(layout.head)
    if not before.startswith(plain) or not closing or closing[0] in (layout.again or closing[0]):
        return None
    opening = before[len(plain) :].strip()
    follows = layout.head[closing.end() :].lstrip()[:1] in ("{", "[")
    return (opening, closing[0]) if follows and MARK.fullmatch(opening) else None


def gap_of(probe: Probe, head: str, content_reply: str) -> str:
    """Find what ends content before a call, where an empty one or a whole reply is ended too."""
    plain = content_reply.partition(CONTENT)[0].strip() == probe.prompt.strip()
    _, _, one = spelled(probe.reply({**calls(*ARGUMENTS[:1]), **WITH_CONTENT})).partition(CONTENT)
    gap = one.partition(head)[0].lstrip() if head and head in one else ""
    alone = probe.reply(calls(*ARGUMENTS[:1])).removeprefix(content_reply.partition(CONTENT)[0])
    ended = alone.lstrip().startswith(gap + head) or _turn(gap, content_reply, probe.prompt)
    return gap if plain and gap and ended else ""


def _turn(gap: str, content_reply: str, prompt: str) -> bool:
    """Whether a gap is the end of a reply and the beginning of another one."""
    ending = content_reply.partition(CONTENT)[2].strip()
    begun = gap[len(ending) :].strip()
    return bool(begun) and gap.startswith(ending) and prompt.lstrip().startswith(begun)
