"""The page about dialects, and the drawings in docstrings: all of it is what the code makes."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from localspec.formats.dialects import dialect_of, probe
from localspec.formats.dialects.families import form_by_signs
from localspec.formats.dialects.layout import Fields, Layout
from localspec.formats.dialects.probe import Probe
from tests.formats.dialects.brackets import END_OF_LINE, argument_parts, call_parts, drawing

ROOT = Path(__file__).parents[3]
REAL = ROOT.parent / "shared/data/templates"
PAGE = (ROOT / "docs" / "dialects.md").read_text(encoding="utf-8")
[TEMPLATE] = re.findall(r"```jinja\n(.*?)\n```", PAGE, re.DOTALL)
BLOCKS = dict(re.findall(r"```text (\w+)\n(.*?)\n```", PAGE, re.DOTALL))
PROBES = [name for name in BLOCKS if name in vars(probe)]
LAYOUT = dialect_of(TEMPLATE).form.layout
ARGUMENTS = {"city": "Oslo", "days": "3"}


def reply(message):
    asked = Probe(TEMPLATE)
    return asked.reply(message).removeprefix(asked.prompt)


def message(*calls):
    functions = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return {"tool_calls": [{"type": "function", "function": each} for each in functions]}


def shown(value):
    """A field's value as the tables of the page have it."""
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return f"`{value.replace(chr(10), END_OF_LINE)}`" if value else "none"
        case tuple():
            texts = [shown(getattr(each, "text", each)) for each in value]
            return ", ".join(text for text in texts if text != "none") or "none"
        case None:
            return "none"
    return "see below" if isinstance(value, Fields) else "default"


def rows(record):
    return [(field.name, shown(getattr(record, field.name))) for field in fields(record)]


def test_the_template_of_the_page_writes_as_that_of_qwen3_coder():
    real = [path.read_text() for path in REAL.glob("Qwen3-Coder.jinja")]
    assert [dialect_of(source) for source in real] == [dialect_of(TEMPLATE)] * len(real)


def test_the_page_shows_every_probe_with_calls():
    assert set(PROBES) == {name for name in vars(probe) if re.search("_CALLS?$|_CONTENT$", name)}
    assert BLOCKS["PROMPT"] + "\n" == Probe(TEMPLATE).prompt


@pytest.mark.parametrize("name", PROBES)
def test_the_page_shows_what_a_template_makes_of_a_probe(name):
    assert BLOCKS[name] + "\n" == reply(getattr(probe, name))


def test_a_layout_is_drawn_over_what_the_template_writes():
    calls = [("add", {}), ("now", {})]
    parts = call_parts(LAYOUT, calls)
    assert reply(message(*calls)).startswith("".join(text for text, _ in parts))
    assert BLOCKS["Layout"] == drawing(parts)


def test_fields_are_drawn_over_what_the_template_writes():
    parts = argument_parts(LAYOUT, ARGUMENTS)
    assert "".join(text for text, _ in parts) in reply(message(("get_weather", ARGUMENTS)))
    assert BLOCKS["Fields"] == drawing(parts)


def test_the_tables_have_every_field_with_its_value():
    table = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", PAGE, re.MULTILINE)
    assert table == rows(LAYOUT) + rows(LAYOUT.fields)


def test_docstrings_have_the_same_drawings():
    mistral = form_by_signs("[TOOL_CALLS]").layout
    assert drawing(call_parts(mistral, [("add", {"a": 1}), ("now", {})])) in inspect.getdoc(Layout)
    assert drawing(argument_parts(LAYOUT, ARGUMENTS)) in inspect.getdoc(Fields)
