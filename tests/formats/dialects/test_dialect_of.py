"""A template tells the dialect, and no other family's calls are taken for calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec.formats.dialects import Bounds, Content, Reasoning, dialect_of
from tests.formats.dialects.letters import Letters
from tests.formats.dialects.samples import FAMILIES, TOOLS

REAL = sorted((Path(__file__).parents[4] / "shared/data/templates").glob("*.jinja"))
TOLD = {  # file names begin so
    "HuggingFaceTB-SmolLM3": "generic",
    "NousResearch-Hermes-3": "hermes",
    "Qwen-Qwen2.5": "hermes",
    "Qwen-Qwen3-": "hermes",
    "Qwen3-Coder": "qwen coder",
    "deepseek-ai": "deepseek",
    "google-gemma-2": "generic",
    "ibm-granite": "granite",
    "meta-llama": "llama",
    "microsoft-Phi-3.5": "generic",
    "mistralai-Mistral-Nemo": "mistral",
    "openai-gpt-oss": "harmony",
}
MIXED = {  # templates that show more than one sign
    "{{ '[TOOL_CALLS]' }} like [f(a=1)]": "mistral",
    '<|start_header_id|> {{ \'Use {"name": n, "parameters": p}.\' }}': "llama",
    "<|start_header_id|> \"parameters\" as in [get(user='x', n=1)]": "pythonic",
    "<tool_call>{name}<arg_key>{key}</arg_key> and <|python_tag|>": "glm",
    "{{ '<tool_call>' }} and ```json": "hermes",
}


def families(template):
    """The families whose calls a template's dialect asks for where it asks for calls."""
    letters = Letters(())
    rules = dialect_of(template).grammar(Bounds(TOOLS, letters.control, required=True))
    return [name for name, family in FAMILIES.items() if letters.accepts(rules, family.two)]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_template_tells_one_family(name):
    assert families(FAMILIES[name].template) == [name]


@pytest.mark.parametrize("template", MIXED)
def test_the_surest_sign_decides(template):
    assert families(template) == [MIXED[template]]


@pytest.mark.parametrize("template", [None, ""])
def test_without_a_template_calls_are_plain_json(template):
    assert families(template) == ["generic"]


def test_real_templates_tell_their_families():
    families_by_name = {path.stem: families(path.read_text()) for path in REAL}
    expected = {
        stem: [family for start, family in TOLD.items() if stem.startswith(start)]
        for stem in families_by_name
    }
    assert families_by_name == expected


@pytest.mark.parametrize("opening", ["<think>", "[THINK]"])
def test_a_template_tells_how_its_model_reasons(opening):
    closing = opening.replace("<", "</").replace("[", "[/")
    for template, reasons in ((f"{opening} and {closing}", True), ("plain", False)):
        reader = dialect_of(template).reader((), "")
        text = f"{opening}hm{closing}Hi"
        expected = [Reasoning("hm"), Content("Hi")] if reasons else [Content(text)]
        assert reader.read(text) + reader.close() == expected


def test_marks_are_all_that_a_reader_looks_for():
    assert dialect_of("<tool_call></think>").marks == (
        "<tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
    )
    for family in FAMILIES.values():
        assert all(mark for mark in dialect_of(family.template).marks)
