"""Learn what reasoning and content stand between."""

from __future__ import annotations

import re

from localspec.formats.dialects.layout import Layout
from localspec.formats.dialects.learn_around import content_closing
from localspec.formats.dialects.probe import (
    CONTENT,
    ONE_CALL,
    THOUGHT,
    WITH_CONTENT,
    WITH_REASONING,
    Probe,
)
from localspec.formats.dialects.segments import MARK, MARK_LAST, common_start
from localspec.formats.dialects.thought import Thought

MAX_THOUGHT = 200  # characters of both marks of reasoning
MAX_MARKS = 4  # that make one


def thought_of(probe: Probe) -> Thought | None:
    """Learn the marks of reasoning, where it is shown at all."""
    reasoned = {**WITH_CONTENT, **WITH_REASONING}
    for message in (reasoned, {**ONE_CALL, **reasoned}):
        before, shown, after = probe.reply(message).partition(THOUGHT)
        last, count = _last_mark(before, probe.after_content)
        opening = _begun(probe, before) or last
        closing = re.match(rf"\s*(({MARK.pattern})([^<>\[\]]*({MARK.pattern})){{{count}}})", after)
        if shown and opening and closing and CONTENT not in before:
            close = closing[1] + _header(after[closing.end() :], probe.prompt)
            return _short(Thought(opening, close, _with_blanks(close, after)))
    return _in_words(probe)


def _short(thought: Thought) -> Thought | None:
    return thought if len(thought.open + thought.close) < MAX_THOUGHT else None


def _with_blanks(close: str, after: str) -> str:
    """Return a closing mark with the blanks before it, and the ends of lines that follow it."""
    before, _, following = after.partition(close)
    return before + close + following[: len(following) - len(following.lstrip("\r\n"))]


def _in_words(probe: Probe) -> Thought | None:
    """Learn the texts before and after reasoning where these are no marks."""
    before, _, after = probe.reply({**WITH_CONTENT, **WITH_REASONING}).partition(THOUGHT)
    closing, shown, _ = after.partition(CONTENT)
    last = MARK.split(probe.prompt)[-1].strip().splitlines()[-1:]
    opening = before[len(common_start(before, probe.before_content)) :].strip()
    if before == probe.prompt and last and not last[0].isalnum():  # a prompt begins it
        opening = last[0]
    whole = shown and opening and closing.strip() and CONTENT not in before
    close = closing.strip()
    return _short(Thought(opening, close, _with_blanks(close, after))) if whole else None


def _begun(probe: Probe, before: str) -> str:
    """Find what begins reasoning, in what stands before it or else at the prompt's end."""
    prompt, plain = probe.prompt, probe.before_content
    if before.startswith(prompt.rstrip()):
        return before[len(prompt.rstrip()) :].strip()
    if before == plain and prompt.startswith(before.rstrip()):  # the prompt begins it
        return prompt[len(before.rstrip()) :].strip()
    mark = MARK_LAST.search(prompt)
    begun = prompt[mark.end(1) :].strip() if mark else ""
    return begun if begun in before else ""


def _header(after: str, prompt: str) -> str:
    """Return what begins the next message of a reply, as the prompt begins the first one."""
    starts = (mark.start() for mark in MARK.finditer(prompt))
    headers = (prompt[start:].rstrip() for start in starts)
    return next((header for header in headers if after.startswith(header)), "")


def _last_mark(before: str, other: str) -> tuple[str, int]:
    """Return the last mark that `other` has not, and how many marks before it belong to it."""
    starts = [mark.start() for mark in MARK.finditer(before)]
    for count, start in enumerate(reversed(starts[-MAX_MARKS:])):
        if (last := before[start:].strip()) not in other:
            return last, count
    return "", 0


def answer_of(
    probe: Probe, ending: str, thought: Thought | None, layout: Layout | None
) -> tuple[str, str] | None:
    """Return the marks around content, if there are any but those that end every reply."""
    before, after, prompt = probe.before_content, probe.after_content, probe.prompt
    closing = after.removesuffix(ending).strip() if ending else content_closing(probe)
    close = thought.close if thought else ""
    if before.startswith(prompt):
        opening = before[len(prompt) :]
        opening = (opening.rpartition(close)[2] if close else opening).strip()
        call = layout.openings[0] if layout and layout.openings else ""
        if opening and call and prompt.endswith(call):  # the prompt begins all replies so
            between = (layout.again or "").removesuffix(call) if layout else ""
            return call + opening, closing or between.strip()
    else:
        opening, _ = _last_mark(before, after)
    if not MARK.search(opening) or opening == close or opening in prompt:
        return None
    return (opening, closing) if not closing or MARK.match(closing) else None
