"""Learn what stands around calls: content, its marks, and blanks."""

from __future__ import annotations

from dataclasses import replace

from localspec.formats.dialects.layout import Layout
from localspec.formats.dialects.learn_call import named_once, spelled
from localspec.formats.dialects.probe import CONTENT, NAMES, ONE_CALL, WITH_CONTENT, Probe
from localspec.formats.dialects.segments import MARK, closing_of, marks

Around = tuple[str, str]


def bare(probe: Probe, layout: Layout, beside: bool) -> Layout:
    """Return the layout of calls without marks, with where content may stand beside them."""
    after_name = probe.reply({**ONE_CALL, **WITH_CONTENT}).partition(NAMES[0])[2]
    return replace(layout, after_content=beside, before_content=CONTENT in after_name)


def begins_amid(probe: Probe, head: str) -> bool:
    """Whether a prompt ends with a part of what begins a call, which then goes on."""
    alone = _alone(probe).removeprefix(probe.prompt)
    cuts = (at for at in range(len(head) - 1, 3, -1) if probe.prompt.endswith(head[:at]))
    return any(alone.startswith(head[at:]) for at in cuts)


def blanks_of(probe: Probe, head: str, after_call: str, ending: str) -> tuple[str, str]:
    """Return the blanks before calls that stand alone, and those after them."""
    alone = _alone(probe)
    before = alone.removeprefix(probe.prompt).partition(head)[0] if head in alone else ""
    last = after_call[: len(after_call) - len(ending)] if ending else after_call
    after = last[len(last.rstrip()) :] + ending[: len(ending) - len(ending.lstrip())]
    return before[len(before.rstrip()) :], after


def _alone(probe: Probe) -> str:
    """Return a reply with one call and no content."""
    return named_once(spelled(probe.reply(ONE_CALL)))


def content_closing(probe: Probe) -> str:
    """Find the mark that closes content, if one opened it and no prompt has that."""
    opening = marks(probe.before_content)[-1:]
    if not opening or opening[0] in probe.prompt:
        return ""
    return closing_of(opening[0], probe.after_content)


def around_of(probe: Probe, layout: Layout, reply: str) -> Around | None:
    """Find the marks around content that only has them where a call follows."""
    plain = probe.before_content.rstrip()
    before = reply.partition(CONTENT)[0]
    closing = MARK.match(layout.head)
    if not before.startswith(plain) or not closing or closing[0] in (layout.again or closing[0]):
        return None
    opening = before[len(plain) :].strip()
    follows = layout.head[closing.end() :].lstrip()[:1] in ("{", "[")
    return (opening, closing[0]) if follows and MARK.fullmatch(opening) else None


def gap_of(probe: Probe, head: str) -> str:
    """Find what ends content before a call, where it ends empty content or whole replies, too."""
    reply = spelled(probe.reply({**ONE_CALL, **WITH_CONTENT}))
    after_content = reply.partition(CONTENT)[2]
    gap = after_content.partition(head)[0].lstrip() if head and head in after_content else ""
    if not gap or probe.before_content.strip() != probe.prompt.strip():
        return ""
    alone = probe.reply(ONE_CALL).removeprefix(probe.before_content)
    return gap if alone.lstrip().startswith(gap + head) or _is_turn(probe, gap) else ""


def _is_turn(probe: Probe, gap: str) -> bool:
    """Whether a gap is the end of a reply and the beginning of another one."""
    ending = probe.after_content.strip()
    begun = gap[len(ending) :].strip()
    return bool(begun) and gap.startswith(ending) and probe.prompt.lstrip().startswith(begun)
