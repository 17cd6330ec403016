"""Files made to end, stall or exhaust an engine: only the process that tries them may be hurt."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import pytest

from localspec.base.errors import LocalSpecError
from localspec.interfaces.backend import Options
from localspec.running.models import trial
from localspec.running.models.locate import ModelFiles
from localspec.running.models.trial_process import TrialProcess
from tests import engines
from tests.backends.forked import outcomes
from tests.backends.gguf_copies import copied
from tests.backends.gguf_files import TENSORS, TOKENS, Numbers, Plain, Typed, gguf, pairs

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="trials are forked here"),
]

SSM: dict[str, Plain] = {
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 128,
    "ssm.state_size": 16,
    "ssm.time_step_rank": 8,
    "ssm.group_count": 1,
}

EXPERTS: dict[str, Plain] = {"expert_count": 8, "expert_used_count": 2}

WINDOW: dict[str, Plain] = {"attention.sliding_window": 512}

LATENT: dict[str, Plain] = {
    "attention.key_length": 72,
    "attention.value_length": 64,
    "attention.kv_lora_rank": 64,
    "attention.key_length_mla": 32,
    "attention.value_length_mla": 16,
    "rope.dimension_count": 16,
}

NUMBERS: list[tuple[str, Numbers]] = [
    ("llama", {"block_count": 0}),
    ("llama", {"block_count": 513}),
    ("llama", {"block_count": Typed("i32", 2)}),
    ("llama", {"nextn_predict_layers": 3}),
    ("llama", {"context_length": 0}),
    ("llama", {"embedding_length": 0}),
    ("llama", {"embedding_length": 65}),
    ("llama", {"attention.head_count": 0}),
    ("llama", {"attention.head_count_kv": 0}),
    ("llama", {"attention.head_count_kv": 3}),
    ("llama", {"attention.head_count_kv": 8}),
    ("llama", {"attention.head_count_kv": [2, 2, 2]}),
    ("llama", {"attention.head_count_kv": [2, 0]}),
    ("llama", {"attention.head_count_kv": Typed("i32", [2, -1])}),
    ("llama", {"attention.head_count": [4] * 600}),
    ("llama", {"attention.key_length": 8}),
    ("llama", {"attention.key_length": 0, "attention.value_length": 0}),
    ("llama", EXPERTS | {"expert_count": 1025}),
    ("llama", EXPERTS | {"expert_used_count": 9}),
    ("llama", EXPERTS | {"expert_used_count": [2, 0]}),
    ("llama", {"expert_used_count": 1}),
    ("llama", {"expert_group_count": 2}),
    ("llama", EXPERTS | {"expert_group_count": 3}),
    ("llama", EXPERTS | {"expert_group_count": 4}),
    ("llama", EXPERTS | {"expert_gating_func": 5}),
    ("dots1", EXPERTS),
    ("llama", {"rope.scaling.type": "bogus"}),
    ("llama", {"attention.layer_norm_rms_epsilon": -1.0}),
    ("llama", {"attention.layer_norm_rms_epsilon": float("nan")}),
    ("llama", {"rope.dimension_count": 8}),
    ("phi3", {"rope.dimension_count": 32}),
    ("phi3", {"rope.dimension_count": 3}),
    ("phi3", {"rope.dimension_count": 0}),
    ("qwen2vl", {"rope.dimension_sections": [0, 0, 0, 0]}),
    ("qwen2vl", {"rope.dimension_sections": [8, 8, 8, 0]}),
    ("deepseek2", LATENT),
    ("gemma2", {"attention.sliding_window_pattern": 1}),
    ("gemma2", {"attention.sliding_window": 1 << 31}),
    ("gemma2", {"attention.key_length_swa": 8}),
    (
        "gemma4",
        WINDOW
        | {"attention.shared_kv_layers": 1}
        | {"attention.sliding_window_pattern": [True, False]},
    ),
    ("llama4", {"attention.sliding_window": 0}),
    ("lfm2", {"attention.head_count_kv": [2, 2]}),
    ("jamba", {"attention.head_count_kv": [0, 0]}),
    ("qwen35", SSM | {"full_attention_interval": 0}),
    ("qwen3next", SSM | {"full_attention_interval": 2, "ssm.group_count": 3}),
    ("mamba2", SSM | {"ssm.group_count": 0}),
    ("mamba2", SSM | {"ssm.time_step_rank": 7}),
    ("rwkv7", {"wkv.head_size": 0}),
    ("rwkv7", {"wkv.head_size": 16, "token_shift_count": 1}),
    ("nanbeige", {"num_loops": 1 << 31}),
]

VOCABULARIES: list[Numbers] = [
    {"/tokenizer.ggml.model": None},
    {"/tokenizer.ggml.model": "bogus"},
    {"/tokenizer.ggml.model": 1},
    {"/tokenizer.ggml.tokens": Typed("str", [])},
    {"/tokenizer.ggml.tokens": [1]},
    {"/tokenizer.ggml.token_type": Typed("i32", [1] * 15)},
    {"/tokenizer.ggml.scores": [1.0] * 17},
    {"/tokenizer.ggml.merges": None},
    {"/tokenizer.ggml.tokens": [*TOKENS[:-1], "a"]},
    {"/tokenizer.ggml.tokens": [*TOKENS[:-2], "o\x00x", "o\x00y"]},
    {"/tokenizer.ggml.tokens": ["", *TOKENS[1:-1], "[EMPTY_0]"]},
    {"/tokenizer.ggml.eos_token_id": 16},
    {"/tokenizer.ggml.add_bos_token": True, "/tokenizer.ggml.pre": "glm4"},
    {"/tokenizer.ggml.model": "llama"},
    {"/tokenizer.ggml.model": "rwkv", "/tokenizer.ggml.tokens": [*TOKENS[1:], "p"]},
    {"/tokenizer.ggml.model": "rwkv", "/tokenizer.ggml.tokens": [*TOKENS[2:], "\\x0a", "xa"]},
    {"/tokenizer.chat_template": "a" * ((1 << 20) + 1)},
    {"/general.architecture": None},
    {"/general.architecture": 1},
    {"/general.architecture": "a b"},
    {"/general.architecture": "\x1b" * 2000},
    {"/general.architecture": "bert"},
    {"/general.type": "adapter"},
    {"/general.alignment": 24},
    {"/general.alignment": 0},
    {"/general.alignment": 8},
    {"/general.alignment": Typed("u64", 32)},
]

# What a real model says of itself, changed
WHOLE: list[tuple[str, dict[str, object]]] = [
    ("llama", {"llama.rope.dimension_count": 8}),
    ("llama", {"llama.attention.head_count": 64}),
    ("llama", {"llama.attention.head_count_kv": 0}),
    ("llama", {"llama.context_length": 0}),
    ("llama", {"llama.block_count": 2}),
    ("llama", {"llama.vocab_size": 1 << 30}),
    ("llama", {"llama.expert_count": 8, "llama.expert_used_count": 9}),
    ("llama", {"llama.attention.layer_norm_rms_epsilon": -1.0}),
    ("llama", {"llama.attention.key_length": 1 << 30}),
    ("llama", {"llama.rope.scaling.type": "bogus"}),
    ("llama", {"tokenizer.ggml.eos_token_id": 1 << 20}),
    ("llama", {"tokenizer.ggml.bos_token_id": 1 << 20, "tokenizer.ggml.add_bos_token": True}),
    ("llama", {"tokenizer.ggml.token_type": [1]}),
    ("llama", {"tokenizer.ggml.model": "llama"}),
    ("llama", {"tokenizer.ggml.model": "rwkv"}),
    ("llama", {"tokenizer.ggml.merges": ["a"]}),
    ("gemma3", {"gemma3.attention.sliding_window": 1 << 31}),
    ("qwen35", {"qwen35.rope.dimension_sections": [64, 64, 64, 0]}),
    ("qwen35", {"qwen35.ssm.group_count": 3}),
    ("qwen35", {"qwen35.nextn_predict_layers": 3}),
    ("mamba2", {"mamba2.ssm.time_step_rank": 7}),
    ("mamba2", {"mamba2.ssm.inner_size": 1 << 31}),
    ("lfm2", {"lfm2.shortconv.l_cache": 0}),
    ("llama", {"general.architecture": "hyper9"}),
    ("llama", {"general.architecture": "bert"}),
]


def written(folder: Path) -> list[Path]:
    contents = [gguf(pairs(name, numbers), TENSORS) for name, numbers in NUMBERS]
    contents += [gguf(pairs(changes=changes), TENSORS) for changes in VOCABULARIES]
    paths = [folder / f"{at}.gguf" for at in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    for at, (name, keys) in enumerate(WHOLE):
        paths.append(copied(engines.tiny(name), folder / f"whole-{at}.gguf", keys))
    return paths


def test_no_file_that_passes_its_trial_is_one_that_its_engine_dies_of(tmp_path: Path) -> None:
    """All that earlier rules refused, and more: each is refused or runs, within seconds."""
    paths = written(tmp_path)
    results = outcomes(paths)
    passed = [path for path, outcome in zip(paths, results, strict=True) if outcome == "ran"]
    assert len(results) == len(paths)
    assert "late" not in results
    assert sum(outcome.startswith("killed") for outcome in results) > 5
    assert 3 < len(passed) < len(paths) / 2
    assert set(outcomes(passed)) == {"ran"}


def mutated(source: Path, target: Path, chance: random.Random) -> Path:
    """Change some bytes of a header, or cut a file."""
    content = bytearray(source.read_bytes())
    if chance.random() < 0.1:
        del content[chance.randrange(len(content)) :]
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(min(max(len(content), 1), 24_000))
        content[at : at + 1] = bytes([chance.choice([0, 1, 2, 9, 64, 127, 255])])
    target.write_bytes(content)
    return target


def test_mutated_files_are_refused_or_run(tmp_path: Path) -> None:
    chance = random.Random(8)
    names = list(engines.ARCHITECTURES)
    paths = [
        mutated(engines.tiny(names[at % len(names)]), tmp_path / f"{at}.gguf", chance)
        for at in range(60)
    ]
    results = outcomes(paths)
    assert len(results) == 60
    assert "late" not in results
    assert 5 < results.count("ran") < 55


# By the whole way, in a process of its own


@pytest.fixture
def examined(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return lambda path: trial.examine(ModelFiles(engines.GGUF_ENGINE, path), TrialProcess)


def test_an_assertion_is_told_in_the_words_of_the_engine(examined, tmp_path: Path) -> None:
    sections = {"qwen35.rope.dimension_sections": [64, 64, 64, 0]}
    path = copied(engines.tiny("qwen35"), tmp_path / "sections.gguf", sections)
    for _ in range(2):  # the second time without a process
        with examined(path) as looked, pytest.raises(LocalSpecError) as caught:
            looked.check_runs(Options(threads=1), 1 << 34)
        line = str(caught.value)
        assert line.startswith("sections.gguf cannot be used: it ends its engine (SIGABRT): ")
        assert "GGML_ASSERT(" in line
        assert "/" not in line.partition("GGML_ASSERT")[0].rpartition(" ")[2]


def test_an_architecture_of_the_future_is_refused_in_the_words_of_the_engine(
    examined, tmp_path: Path
) -> None:
    path = copied(engines.tiny("llama"), tmp_path / "new.gguf", {"general.architecture": "hyper9"})
    with examined(path) as looked, pytest.raises(LocalSpecError, match="unknown model architec"):
        looked.footprint()


def test_a_type_of_weights_of_the_future_is_refused_in_the_words_of_the_engine(
    examined, tmp_path: Path
) -> None:
    path = tmp_path / "new.gguf"
    path.write_bytes(gguf(pairs(), [*TENSORS, ("new.weight", (64, 16), 99, 512)]))
    with examined(path) as looked, pytest.raises(LocalSpecError, match="invalid ggml type 99"):
        looked.footprint()


def test_a_text_that_takes_for_ever_to_read_is_not_waited_for(examined, tmp_path: Path) -> None:
    tokens = [f"t{at}" for at in range(384)]
    keys = {"tokenizer.ggml.model": "rwkv", "tokenizer.ggml.tokens": tokens}
    path = copied(engines.tiny("llama"), tmp_path / "slow.gguf", keys)
    with examined(path) as looked:
        looked._start = lambda found: TrialProcess(found, seconds=3.0)
        began = time.monotonic()
        with pytest.raises(LocalSpecError, match="did not answer in 3 seconds of work"):
            looked.footprint()
        assert time.monotonic() - began < 30
