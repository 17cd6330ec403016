"""Families whose templates write no calls, known by the marks that these templates name."""

from __future__ import annotations

import re

from localspec.formats.dialects.layout import ID, Fields, Layout, Middle
from localspec.formats.dialects.segments import marks
from localspec.formats.dialects.thought import Thought
from localspec.formats.dialects.written import Written

BAR = "\uff5c"  # a full-width bar
CALLS, CALLS_END = f"<{BAR}tool▁calls▁begin{BAR}>", f"<{BAR}tool▁calls▁end{BAR}>"
CALL, CALL_END = f"<{BAR}tool▁call▁begin{BAR}>", f"<{BAR}tool▁call▁end{BAR}>"
NAME_END = f"<{BAR}tool▁sep{BAR}>"
FENCE = "```json"


def _objects(begin: str, end: str = "", *, listed: bool = False, key: str = "arguments") -> Layout:
    """Calls that are JSON objects, within marks."""
    head, name_end = '{"name": "', f'", "{key}": '
    keys, openings = ("name", key), tuple(marks(begin)[:1])
    if listed:
        return Layout(
            f"{begin}[{head}", name_end, "}", f", {head}", f"]{end}", keys=keys, openings=openings
        )
    again = f"\n{begin}{head}" if openings else None
    return Layout(begin + head, name_end, "}" + end, again, keys=keys, openings=openings)


def _python(begin: str, end: str) -> Layout:
    """Calls as a list in Python."""
    fields = Fields("", (Middle("="),), between=", ", quotes=("'", "'"), python=True)
    openings = tuple(marks(begin))
    return Layout(f"{begin}[", "(", ")", ", ", f"]{end}", fields=fields, openings=openings)


def _deepseek(before: str, name_end: str, after: str) -> Layout:
    call = f"{CALL}{before}"
    end = f"{after}{CALL_END}"
    openings = (CALLS, CALL)
    return Layout(CALLS + call, name_end, end, f"\n{call}", CALLS_END, openings=openings)


XML = Layout(
    "<tool_call>\n<function=",
    ">\n",
    "</function>\n</tool_call>",
    "\n<tool_call>\n<function=",
    fields=Fields("<parameter=", (Middle(">\n"),), "\n</parameter>\n"),
    openings=("<tool_call>", "<function="),
)
GLM = Layout(
    "<tool_call>",
    "\n",
    "</tool_call>",
    "\n<tool_call>",
    fields=Fields("<arg_key>", (Middle("</arg_key>\n<arg_value>"),), "</arg_value>\n"),
    openings=("<tool_call>",),
)
NAMED = Layout(
    "[TOOL_CALLS]", f"[CALL_ID]{ID}[ARGS]", "", "[TOOL_CALLS]", openings=("[TOOL_CALLS]",)
)
LLAMA = Written(_objects("", key="parameters"), also=("<|python_tag|>",), bare="{")
PYTHON = Written(_python("", ""), also=("<|python_start|>",), bare="[")
GENERIC = Written(_objects(""), explicit=False, bare="{[")

SIGNS: tuple[tuple[tuple[str, ...], Written], ...] = (  # surest signs first
    ((CALLS, FENCE), Written(_deepseek(f"function{NAME_END}", f"\n{FENCE}\n", "\n```"))),
    ((CALLS,), Written(_deepseek("", NAME_END, ""))),
    (("[TOOL_CALLS]", "[ARGS]"), Written(NAMED)),
    (("[TOOL_CALLS]",), Written(_objects("[TOOL_CALLS]", listed=True))),
    (("<function=",), Written(XML)),
    (("<|tool_call_start|>",), Written(_python("<|tool_call_start|>", "<|tool_call_end|>"))),
    (("<|tool_list_start|>",), Written(_python("<|tool_call_start|>", "<|tool_call_end|>"))),
    (("List of tools: [",), Written(_python("<|tool_call_start|>", "<|tool_call_end|>"))),
    (("<|/tool_call|>",), Written(_objects("<|tool_call|>", "<|/tool_call|>", listed=True))),
    (("<|tool_call|>",), Written(_objects("<|tool_call|>", listed=True), also=("<tool_call>",))),
    (("<TOOLCALL>",), Written(_objects("<TOOLCALL>", "</TOOLCALL>", listed=True))),
    (("<tool_call>", "<arg_key>"), Written(GLM)),
    (("<tool_call>",), Written(_objects("<tool_call>\n", "\n</tool_call>"))),
    (("<|python_tag|>",), LLAMA),
    (("<|start_header_id|>", '"parameters"'), LLAMA),
)
PYTHONIC = re.compile(r"\[\w+\(\w+\s*=")  # a call as an example


def form_by_signs(template: str) -> Written:
    """Return the form that a template's marks stand for; plain JSON if it has no such mark."""
    forms = (form for signs, form in SIGNS if all(sign in template for sign in signs))
    form = next(forms, GENERIC)
    return PYTHON if form in (LLAMA, GENERIC) and PYTHONIC.search(template) else form


def thought_by_signs(template: str) -> Thought | None:
    if "</think>" in template:
        return Thought("<think>", "</think>", "\n</think>\n\n")
    return Thought("[THINK]", "[/THINK]") if "[THINK]" in template else None


def answer_by_signs(template: str) -> tuple[str, str] | None:
    return ("<response>", "</response>") if "<response>" in template else None
