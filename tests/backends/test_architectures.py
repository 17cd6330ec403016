"""The verdicts on models that ran in their engine and in LocalSpec."""

from __future__ import annotations

import json

from architectures.checking.answers import PROMPTS
from architectures.checking.facts import expected, untrue
from architectures.checking.verdict import ModelResults, judge, read
from architectures.recipes import TOPICS, all_recipes

INFO = {"layers": 4, "state_bytes": 0}


def said(*tokens):
    return [{"text": PROMPTS[0], "prompt": [1, 2], "tokens": list(tokens)}]


def verdict(ours, margins, *, info=INFO, wanted=None, fault="", planned=0, grown=0):
    data = {"fault": fault, "info": info, "plain": ours, "planned": planned, "grown": grown}
    weighed = lambda partings: [margins] * len(partings)  # noqa: E731
    return judge(read(said(5, 6, 7)), ModelResults.of(data), wanted or {"layers": 4}, weighed)


def test_the_engines_own_tokens_are_the_same():
    assert verdict(said(5, 6, 7), (9.0, 9.0)).word == "same"


def test_another_token_is_told_by_how_near_the_tie_was():
    assert verdict(said(5, 8, 7), (0.1, 0.1)).word == "near-tie"
    assert verdict(said(5, 8, 7), (0.4, 0.0)).word == "rounding"
    assert verdict(said(5, 8, 7), (0.4, 0.3)).word == "differs"


def test_an_early_end_or_another_prompt_is_no_near_tie():
    other = [{"text": PROMPTS[0], "prompt": [1, 3], "tokens": [5, 6, 7]}]
    assert verdict(said(5, 6), (0.0, 0.0)).word == "differs"
    assert verdict(other, (0.0, 0.0)).word == "differs"


def test_what_does_not_load_is_refused_in_its_own_words():
    judged = verdict([], (0.0, 0.0), fault="no such tensor")
    assert (judged.word, judged.faults, judged.fails) == ("refused", ("no such tensor",), True)


def test_figures_and_memory_that_are_wrong_fail_though_tokens_agree():
    assert verdict(said(5, 6, 7), (0.0, 0.0), wanted={"layers": 5}).word == "untrue"
    assert verdict(said(5, 6, 7), (0.0, 0.0), planned=1 << 20, grown=1 << 30).word == "memory"


def test_figures_that_are_not_told_are_listed():
    judged = verdict(said(5, 6, 7), (0.0, 0.0), wanted={"layers": 4, "experts": 8})
    assert (judged.word, judged.untold) == ("same", ("experts",))


def test_a_hybrids_configuration_tells_what_its_layers_keep(tmp_path):
    config = {
        "model_type": "nemotron_h",
        "hybrid_override_pattern": "M-M*-M",
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    facts = expected(tmp_path)
    assert facts["recurrent_layers"] == 3
    assert facts["kv_bytes_per_token"] == 2 * 2 * 64 * 2
    fields = {"layers": 6, "recurrent_layers": 0}
    assert list(untrue(fields, facts)) == ["info says recurrent_layers 0, the configuration 3"]


def test_layers_that_share_keys_or_have_wider_heads_are_counted_as_they_are(tmp_path):
    config = {
        "model_type": "gemma4_text",
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 2,
        "sliding_window": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "per_layer_config": {"1": {"head_dim": 128}},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    facts = expected(tmp_path)
    assert facts["kv_bytes_per_token"] == 2 * 2 * 128 * 2
    assert facts["window_bytes_per_token"] == 2 * 2 * 64 * 2


def test_no_two_recipes_share_a_name():
    assert sum(len(topic.RECIPES) for topic in TOPICS) == len(all_recipes(256)) == 124
