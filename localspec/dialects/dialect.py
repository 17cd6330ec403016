"""The ways in which families of models write reasoning and calls, told by their templates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

from localspec.dialects.bounds import Bounds
from localspec.dialects.families import (
    GENERIC,
    answer_by_signs,
    form_by_signs,
    thought_by_signs,
)
from localspec.dialects.form import Form
from localspec.dialects.harmony import Harmony
from localspec.dialects.layout import SLOT, Layout
from localspec.dialects.learn import NOTHING, Learned, learned
from localspec.dialects.marked import Marked
from localspec.dialects.parts import Arguments, Call
from localspec.dialects.probe import KEYS, KINDS, NAMES, TOOLS, Probe, of_all_kinds
from localspec.dialects.reader import Reader
from localspec.dialects.written import Written
from localspec.errors import LocalSpecError
from localspec.templates.message import Tool


class Dialect(Protocol):
    """One family's way to write calls and reasoning."""

    @property
    def marks(self) -> tuple[str, ...]:
        """Texts that a reader must see, also where they are control tokens."""

    @property
    def reasons(self) -> bool:
        """Whether replies may have reasoning in them."""

    def reader(self, tools: Sequence[Tool], prompt_end: str) -> Reader:
        """A reader for one reply to a prompt that ends so."""

    def grammar(self, bounds: Bounds) -> str | None:
        """A grammar for llguidance; None: the form, if there is one, is all there is to follow."""


def dialect_of(chat_template: str | None) -> Dialect:
    """Learn the dialect from what a template makes of calls, or else tell it by its signs.

    Plain JSON is for templates that show neither. Takes up to 0.1 s, once for each template.
    """
    return _dialect_of(chat_template or "")


@lru_cache(maxsize=32)
def _dialect_of(template: str) -> Dialect:
    if "<|channel|>" in template and "<|message|>" in template:
        return Harmony()  # its calls are messages to somebody else, which no reply shows whole
    learnt = _learned(template)
    thought = learnt.thought or thought_by_signs(template)
    answer = learnt.answer or answer_by_signs(template)
    return Marked(_form(template, learnt), thought, answer, learnt.ending)


def _learned(template: str) -> Learned:
    """Learn from a template; drop a layout that cannot read its calls back."""
    try:
        probe = Probe(template)
        learnt = learned(probe)
        reads = learnt.layout and _reads(_written(learnt.layout), probe)
    except LocalSpecError:  # broken, or too slow
        return NOTHING
    return learnt if reads else learnt._replace(layout=None)


def _reads(form: Written, probe: Probe) -> bool:
    """Whether a call that the template writes is read as it was made."""
    text = probe.reply(of_all_kinds())
    start = text.find((*form.layout.openings, *SLOT.split(form.layout.head))[0])
    reader = Marked(form).reader(TOOLS, "")
    parts = [*reader.read(text[max(start, 0) :]), *reader.close()]
    names = [part.name for part in parts if isinstance(part, Call)]
    arguments = "".join(part.text for part in parts if isinstance(part, Arguments))
    if names != [NAMES[0]] or not reader.complete:
        return False
    values = json.loads(arguments)
    return all(values.get(key) == KINDS[key][1] for key in KEYS)


def _form(template: str, learnt: Learned) -> Form:
    layout, signs = learnt.layout, form_by_signs(template)
    if layout is None:
        return signs
    if signs.bare and signs is not GENERIC and not layout.openings:
        return replace(signs, layout=layout) if layout.head.startswith(signs.bare) else signs
    return _written(layout, learnt.answer)


def _written(layout: Layout, answer: tuple[str, str] | None = None) -> Written:
    if layout.openings:
        return Written(layout)
    also = tuple(filter(None, answer[1:])) if answer else ()
    return Written(layout, explicit=False, also=also, bare=GENERIC.bare + layout.head[:1])
