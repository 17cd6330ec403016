"""The dialects in which families of models write reasoning and calls, by their templates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

from localspec.base.errors import LocalSpecError
from localspec.formats.dialects.bounds import Bounds
from localspec.formats.dialects.families import (
    GENERIC,
    answer_by_signs,
    form_by_signs,
    thought_by_signs,
)
from localspec.formats.dialects.harmony import Harmony
from localspec.formats.dialects.layout import SLOT, Layout
from localspec.formats.dialects.learn import NOTHING, Learned, learned
from localspec.formats.dialects.marked import Marked
from localspec.formats.dialects.parts import Arguments, Call
from localspec.formats.dialects.probe import ALL_KINDS_CALL, KEYS, KINDS, NAMES, TOOLS, Probe
from localspec.formats.dialects.reader import Reader
from localspec.formats.dialects.written import Written
from localspec.formats.templates.message import Tool
from localspec.formats.thought.form import ThoughtMarks


class Dialect(Protocol):
    """The way in which one family writes calls and reasoning."""

    @property
    def marks(self) -> tuple[str, ...]:
        """Texts that a reader must see even if they are control tokens."""

    @property
    def reasons(self) -> bool:
        """Whether replies may have reasoning in them."""

    def reader(self, tools: Sequence[Tool], prompt_end: str) -> Reader:
        """Return a reader for one reply to a prompt with this end."""

    def thoughts(self, tools: Sequence[Tool], prompt_end: str) -> ThoughtMarks | None:
        """Return how such a reply shows its thoughts; None if it has none."""

    def grammar(self, bounds: Bounds) -> str | None:
        """Return a grammar for llguidance; None if there is nothing to follow but the form."""


def dialect_of(chat_template: str | None) -> Dialect:
    """Learn the dialect from the calls that a template writes, or else know it by its marks.

    A template that shows neither gets plain JSON. Takes up to 0.1 s, once for each template.
    """
    return _dialect_of(chat_template or "")


@lru_cache(maxsize=32)
def _dialect_of(template: str) -> Dialect:
    if "<|channel|>" in template and "<|message|>" in template:
        return Harmony()  # its calls are messages to somebody else, which no reply shows whole
    findings = _learned(template)
    thought = findings.thought or thought_by_signs(template)
    answer = findings.answer or answer_by_signs(template)
    return Marked(_form(template, findings), thought, answer, findings.ending)


def _learned(template: str) -> Learned:
    """Learn from a template; drop a layout that cannot read its calls back."""
    try:
        probe = Probe(template)
        findings = learned(probe)
        reads = findings.layout and _reads(_written(findings.layout), probe)
    except LocalSpecError:  # broken, or too slow
        return NOTHING
    return findings if reads else findings._replace(layout=None)


def _reads(form: Written, probe: Probe) -> bool:
    """Whether a call that the template writes is read as it was made."""
    text = probe.reply(ALL_KINDS_CALL)
    start = text.find((*form.layout.openings, *SLOT.split(form.layout.head))[0])
    reader = Marked(form).reader(TOOLS, "")
    parts = [*reader.read(text[max(start, 0) :]), *reader.close()]
    names = [part.name for part in parts if isinstance(part, Call)]
    arguments = "".join(part.text for part in parts if isinstance(part, Arguments))
    if names != [NAMES[0]] or not reader.complete:
        return False
    values = json.loads(arguments)
    return all(values.get(key) == KINDS[key][1] for key in KEYS)


def _form(template: str, findings: Learned) -> Written:
    layout, signs = findings.layout, form_by_signs(template)
    if layout is None:
        return signs
    if signs.bare and signs is not GENERIC and not layout.openings:
        return replace(signs, layout=layout) if layout.head.startswith(signs.bare) else signs
    return _written(layout, findings.answer)


def _written(layout: Layout, answer: tuple[str, str] | None = None) -> Written:
    if layout.openings:
        return Written(layout)
    also = tuple(filter(None, answer[1:])) if answer else ()
    return Written(layout, explicit=False, also=also, bare=GENERIC.bare + layout.head[:1])
