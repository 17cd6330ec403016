"""Find out what reasoning and content stand between."""

from __future__ import annotations

import re

from localspec.dialects.layout import Layout
from localspec.dialects.probe import (
    ARGUMENTS,
    CONTENT,
    THOUGHT,
    WITH_CONTENT,
    WITH_REASONING,
    Probe,
    calls,
)
from localspec.dialects.segments import MARK, MARK_LAST, closing_of, common_start, marks
from localspec.dialects.thought import Thought

LONGEST = 200  # characters of both marks of reasoning
MOST = 4  # marks that make one


def thought_of(probe: Probe, content_reply: str) -> Thought | None:
    """Learn the marks of reasoning, where it is shown at all."""
    prompt = probe.prompt
    for message in (
        {**WITH_CONTENT, **WITH_REASONING},
        {**calls(*ARGUMENTS[:1]), **WITH_CONTENT, **WITH_REASONING},
    ):
        before, shown, after = probe.reply(message).partition(THOUGHT)
        last, count = _last_mark(before, content_reply.partition(CONTENT)[2])
        opening = _begun(before, content_reply.partition(CONTENT)[0], prompt) or last
        closing = re.match(rf"\s*(({MARK.pattern})([^<>\[\]]*({MARK.pattern})){{{count}}})", after)
        if shown and opening and closing and CONTENT not in before:
            learnt = Thought(opening, closing[1] + _header(after[closing.end() :], prompt))
            return learnt if len(learnt.open + learnt.close) < LONGEST else None
    return _in_words(probe, content_reply)


def _in_words(probe: Probe, content_reply: str) -> Thought | None:
    """Learn what is before and after reasoning where that is no mark."""
    before, _, after = probe.reply({**WITH_CONTENT, **WITH_REASONING}).partition(THOUGHT)
    closing, shown, _ = after.partition(CONTENT)
    plain = content_reply.partition(CONTENT)[0]
    last = MARK.split(probe.prompt)[-1].strip().splitlines()[-1:]
    opening = before[len(common_start(before, plain)) :].strip()
    if before == probe.prompt and last and not last[0].isalnum():  # a prompt begins it
        opening = last[0]
    learnt = Thought(opening, closing.strip())
    whole = shown and learnt.open and learnt.close and CONTENT not in before
    return learnt if whole and len(learnt.open + learnt.close) < LONGEST else None


def _begun(before: str, plain: str, prompt: str) -> str:
    """Find what a reply writes before reasoning; where the prompt has it, the end of that.

    `plain` is what stands before content. If reasoning stands just there, the prompt begins it.
    """
    if before.startswith(prompt.rstrip()):
        return before[len(prompt.rstrip()) :].strip()
    if before == plain and prompt.startswith(before.rstrip()):
        return prompt[len(before.rstrip()) :].strip()
    mark = MARK_LAST.search(prompt)
    begun = prompt[mark.end(1) :].strip() if mark else ""
    return begun if begun in before else ""


def _header(after: str, prompt: str) -> str:
    """Find what begins the next message of a reply, as the prompt begins the first one."""
    starts = (mark.start() for mark in MARK.finditer(prompt))
    headers = (prompt[start:].rstrip() for start in starts)
    return next((header for header in headers if after.startswith(header)), "")


def _last_mark(before: str, other: str) -> tuple[str, int]:
    """The last mark of a text, with so many before it that the whole stands nowhere else."""
    starts = [mark.start() for mark in MARK.finditer(before)]
    for count, start in enumerate(reversed(starts[-MOST:])):
        if (last := before[start:].strip()) not in other:
            return last, count
    return "", 0


def answer_of(
    content_reply: str, ending: str, prompt: str, thought: Thought | None, layout: Layout | None
) -> tuple[str, str] | None:
    """The marks around content, if there are any but those that end every reply."""
    before, _, after = content_reply.partition(CONTENT)
    own = marks(before)[-1:]
    closing = closing_of(own[0], after) if own and own[0] not in prompt else ""
    closing = after.removesuffix(ending).strip() if ending else closing
    close = thought.close if thought else ""
    if before.startswith(prompt):
        opening = before[len(prompt) :]
        opening = (opening.rpartition(close)[2] if close else opening).strip()
        calling = layout.openings[:1] if layout else ()
        if opening and calling and prompt.endswith(calling[0]):  # what all replies begin with
            between = (layout.again or "").removesuffix(calling[0]) if layout else ""
            return calling[0] + opening, closing or between.strip()
    else:
        opening, _ = _last_mark(before, after)
    if not MARK.search(opening) or opening == close or opening in prompt:
        return None
    return (opening, closing) if not closing or MARK.match(closing) else None
