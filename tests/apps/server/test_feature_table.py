"""The table of what works with drafts on: each cell has a test, or a source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
GREEDY = ("core/decoding/test_exactness.py", "greedy_text_is_the_plain_text")  # endings, hybrids
SAME_CONTEXT = (
    "core/decoding/test_exactness.py",
    "penalties_and_bias_see_the_same_context_at_every_drafted_position",
)
TESTS = {
    "JSON schemas, grammars, forced tools": (
        "formats/grammar/test_constraint.py",
        "greedy_text_under_a_grammar_is_the_plain_one",
    ),
    "stop sequences": GREEDY,
    "penalties": SAME_CONTEXT,
    "logit bias": SAME_CONTEXT,
    "min-p": (
        "core/decoding/test_exactness.py",
        "a_seeded_text_is_the_plain_text_with_any_drafts_at_any_depth",
    ),
    "[DRY, XTC, typical-p, mirostat and the like](sampling.md)": (
        "core/decoding/test_samplers_exact.py",
        "a_seeded_text_is_the_plain_text_alone_and_beside_others",
    ),
    "[banned strings](server/structured-output.md#banned-strings)": (
        "core/sampling/test_banned.py",
        "greedy_text_without_banned_strings_is_the_plain_one",
    ),
    "[reasoning budget](server/thinking.md)": (
        "formats/thought/test_budget.py",
        "a_seeded_text_with_a_budget_is_the_plain_one",
    ),
    "log-probabilities": (
        "core/requests/test_engine.py",
        "log_probabilities_are_those_of_the_raw_logits_with_and_without_speculation",
    ),
    "several requests at once": (
        "core/decoding/test_exactness.py",
        "a_sequence_does_not_depend_on_its_neighbours",
    ),
    "prefix cache": (
        "core/prefix_cache/test_tiers.py",
        "after_a_restart_a_conversation_goes_on_from_the_disk",
    ),
    "hybrids, e.g. Qwen3.5": GREEDY,
    "[image input](server/media.md)": (
        "apps/server/test_pictures.py",
        "drafts_change_nothing_of_what_is_said_of_pictures",
    ),
    "LoRA adapters": (
        "backends/test_llamacpp_adapters.py",
        "texts_with_adapters_and_drafts_are_what_they_are_alone",
    ),
}
LINK = re.compile(r"\[([^]]+)\](?:\[[a-z-]+\]|\(\S+\))")


def rows_of(text):
    return {
        cells[0]: cells[1:]
        for line in text.splitlines()
        if line.startswith("| ")
        for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
    }


ROWS = rows_of(PAGE)
SOURCES = dict(re.findall(r"^\[([a-z-]+)\]: (https://\S+)$", PAGE, re.MULTILINE))
LOCALSPEC = ["LocalSpec, GGUF", "LocalSpec, MLX"]
OTHERS = ["llama-server", "mlx-vlm", "Ollama", "LM Studio", "vLLM"]


def test_every_row_has_a_test():
    assert list(ROWS) == ["", *TESTS]
    assert ROWS[""] == LOCALSPEC + OTHERS


@pytest.mark.parametrize("feature", TESTS)
def test_what_works_here_is_held_by_a_test(feature):
    path, name = TESTS[feature]
    assert ROWS[feature][0].startswith("yes")
    assert f"\ndef test_{name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("feature", TESTS)
def test_what_is_said_of_another_server_has_its_source(feature):
    for cell in ROWS[feature][len(LOCALSPEC) :]:
        for part in cell.split(";"):
            linked = re.fullmatch(r" ?\[[^]]+\](\[[a-z-]+\]|\(\S+\))", part)
            assert part == "not found" or linked, part


def test_every_source_is_used_and_there():
    assert set(re.findall(r"\]\[([a-z-]+)\]", PAGE)) == set(SOURCES)


def test_the_readme_has_a_few_rows_of_it_word_for_word():
    shown = rows_of(README.partition("## What works with drafts on\n")[2].partition("\n## ")[0])
    whole = rows_of(LINK.sub(r"\1", PAGE))
    assert len(shown) == 6
    assert {name: whole[name] for name in shown} == shown
