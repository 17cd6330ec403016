"""The ways in which families of models write reasoning and calls, told by their templates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from localspec.dialects.bounds import Bounds
from localspec.dialects.deepseek import CALLS, FENCE, DeepSeek
from localspec.dialects.form import Form
from localspec.dialects.harmony import Harmony
from localspec.dialects.marked import Marked
from localspec.dialects.mistral import LIST, Named
from localspec.dialects.pythonic import Pythonic
from localspec.dialects.reader import Reader
from localspec.dialects.tagged import Tagged
from localspec.dialects.thought import Thought
from localspec.dialects.xml import Xml
from localspec.templates.message import Tool


class Dialect(Protocol):
    """How one family of models writes what is more than text."""

    @property
    def marks(self) -> tuple[str, ...]:
        """Texts that a reader must see, also where they are control tokens."""

    def reader(self, tools: Sequence[Tool], prompt_end: str) -> Reader:
        """A reader for one reply to a prompt that ends so."""

    def grammar(self, bounds: Bounds) -> str | None:
        """A grammar for llguidance; None: the form, if there is one, is all there is to follow."""


HERMES = Tagged(("<tool_call>",), close="</tool_call>", repeats="\n", gap="\n")
GRANITE = Tagged(("<|tool_call|>", "<tool_call>"), listed=True)
PHI = Tagged(("<|tool_call|>",), close="<|/tool_call|>", listed=True)
NEMOTRON = Tagged(("<TOOLCALL>",), close="</TOOLCALL>", listed=True)
LLAMA = Tagged(("<|python_tag|>",), key="parameters", bare="{")
PYTHON = Pythonic(("<|python_start|>",), close="<|python_end|>", bare="[")
LFM2 = Pythonic(("<|tool_call_start|>",), close="<|tool_call_end|>")
GENERIC = Tagged(("```json",), close="```", bare="{[", explicit=False)

FORMS: tuple[tuple[tuple[str, ...], Form], ...] = (  # what templates show, surest signs first
    ((CALLS, FENCE), DeepSeek(fenced=True)),
    ((CALLS,), DeepSeek(fenced=False)),
    (("[TOOL_CALLS]", "[ARGS]"), Named()),
    (("[TOOL_CALLS]",), LIST),
    (("<function=",), Xml()),
    (("<|tool_call_start|>",), LFM2),
    (("<|/tool_call|>",), PHI),
    (("<|tool_call|>",), GRANITE),
    (("<TOOLCALL>",), NEMOTRON),
    (("<tool_call>", "<arg_key>"), GENERIC),
    (("<tool_call>",), HERMES),
    (("<|python_tag|>",), LLAMA),
    (("<|start_header_id|>", '"parameters"'), LLAMA),
)
PYTHONIC = re.compile(r"\[\w+\(\w+\s*=")  # a call as an example


def dialect_of(chat_template: str | None) -> Dialect:
    """Tell the dialect from what a template shows of it; plain JSON is for those that show none."""
    template = chat_template or ""
    if "<|channel|>" in template and "<|message|>" in template:
        return Harmony()
    return Marked(_form(template), _thought(template))


def _form(template: str) -> Form:
    forms = (form for signs, form in FORMS if all(sign in template for sign in signs))
    found = next(forms, GENERIC)
    return PYTHON if found in (LLAMA, GENERIC) and PYTHONIC.search(template) else found


def _thought(template: str) -> Thought | None:
    if "</think>" in template:
        answer = ("<response>", "</response>") if "<response>" in template else ("", "")
        return Thought("<think>", "</think>", *answer)
    return Thought("[THINK]", "[/THINK]") if "[THINK]" in template else None
