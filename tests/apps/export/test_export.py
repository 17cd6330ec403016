"""`localspec export`: the script that another engine runs, word by word, and what it loses."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest

from localspec.apps.command_line import run
from localspec.apps.export.deployment import ANY, PairNames, Settings, deployment
from localspec.apps.export.engines import ENGINES
from localspec.apps.export.script import script
from localspec.base.errors import UsageError
from localspec.running.models.catalogue import entries
from tests import tiny

FULL = Settings(5, 8192, 4, "q8_0")

GOLDEN = {
    "vllm": """\
# does not carry over: the depth, which LocalSpec chooses anew each round: here it is fixed
# does not carry over: q4_k_m: these are the weights as published, mostly 16 bits
# does not carry over: keys and values in q8_0: FP8 is the nearest here, and rounds otherwise
# does not carry over: prompt lookup beside the drafter: this engine runs one method at a time
vllm serve Qwen/Qwen3-8B \\
  --max-model-len 8192 \\
  --max-num-seqs 4 \\
  --kv-cache-dtype fp8 \\
  --speculative-config '{"method": "draft_model", "num_speculative_tokens": 5, \
"model": "Qwen/Qwen3-0.6B"}'""",
    "sglang": """\
# does not carry over: the depth, which LocalSpec chooses anew each round: here it is fixed
# does not carry over: q4_k_m: these are the weights as published, mostly 16 bits
# does not carry over: keys and values in q8_0: FP8 is the nearest here, and rounds otherwise
# does not carry over: prompt lookup beside the drafter: this engine runs one method at a time
python -m sglang.launch_server \\
  --model-path Qwen/Qwen3-8B \\
  --context-length 8192 \\
  --max-running-requests 4 \\
  --kv-cache-dtype fp8_e4m3 \\
  --speculative-algorithm STANDALONE \\
  --speculative-draft-model-path Qwen/Qwen3-0.6B \\
  --speculative-num-steps 5 \\
  --speculative-eagle-topk 1 \\
  --speculative-num-draft-tokens 6""",
    "tensorrt-llm": """\
# does not carry over: the depth, which LocalSpec chooses anew each round: here it is fixed
# does not carry over: q4_k_m: these are the weights as published, mostly 16 bits
# does not carry over: keys and values in q8_0: FP8 is the nearest here, and rounds otherwise
# does not carry over: prompt lookup beside the drafter: this engine runs one method at a time
cat > trtllm.yaml <<'END'
max_seq_len: 8192
max_batch_size: 4
kv_cache_config:
  dtype: fp8
speculative_config:
  decoding_type: DraftTarget
  max_draft_len: 5
  speculative_model: "Qwen/Qwen3-0.6B"
END
trtllm-serve Qwen/Qwen3-8B \\
  --config trtllm.yaml""",
    "llama-server": """\
# does not carry over: the depth, which LocalSpec chooses anew each round: here it is fixed
llama-server \\
  -hf Qwen/Qwen3-8B-GGUF:Q4_K_M \\
  -c 32768 \\
  -np 4 \\
  -ctk q8_0 \\
  -ctv q8_0 \\
  --spec-type draft-simple \\
  --spec-draft-n-max 5 \\
  -hfd Qwen/Qwen3-0.6B-GGUF:Q8_0 \\
  --temp 0.6 \\
  --top-k 20 \\
  --top-p 0.95""",
    "mlx-lm": """\
# does not carry over: the depth, which LocalSpec chooses anew each round: here it is fixed
# does not carry over: the context: texts grow as long as there is memory
# does not carry over: requests at once: with a draft model they are answered one by one
mlx_lm.server \\
  --model mlx-community/Qwen3-8B-4bit \\
  --draft-model mlx-community/Qwen3-0.6B-4bit \\
  --num-draft-tokens 5 \\
  --kv-bits 8 \\
  --decode-concurrency 4 \\
  --temp 0.6 \\
  --top-k 20 \\
  --top-p 0.95""",
}


def written(engine: str, model: str, settings: Settings, **more: str) -> str:
    return script(engine, deployment(PairNames(model, **more), ENGINES[engine].format, settings))


def command(text: str) -> list[str]:
    return shlex.split(text.replace("\\\n", ""), comments=True)


@pytest.mark.parametrize("engine", GOLDEN)
def test_the_script_for_a_pair_of_the_catalogue_is_known_by_heart(engine):
    assert written(engine, "qwen3-8b", FULL) == GOLDEN[engine]


def test_every_name_of_the_catalogue_tells_whose_weights_it_has():
    assert [entry.name for entry in entries().values() if "/" not in entry.original] == []


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_every_name_of_the_catalogue_is_exported(engine):
    for name, entry in entries().items():
        assert entry.original in written(engine, name, FULL)


def test_a_head_inside_the_weights_needs_no_other_file():
    text = written("vllm", "qwen3.6-27b", Settings())
    assert '{"method": "mtp", "num_speculative_tokens": 3}' in text
    assert "--speculative-algorithm NEXTN" in written("sglang", "qwen3.6-27b", Settings())


def test_a_head_beside_the_weights_is_named():
    text = written("vllm", "gemma-4-12b", Settings())
    assert '"method": "mtp"' in text
    assert '"model": "google/gemma-4-12B-it-assistant"' in text


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm"])
def test_a_drafter_that_an_engine_has_no_method_for_is_told(engine):
    """It once ended with a KeyError."""
    deployed = deployment(PairNames("qwen3-8b-dflash"), ANY, Settings())
    text = script(engine, replace(deployed, drafter="medusa"))
    assert "does not carry over: drafts by medusa" in text
    assert "DFlash" not in text
    assert "ngram" in text.lower()


def test_draft_models_with_vocabularies_of_another_size_are_told():
    assert '"use_heterogeneous_vocab": true' in written("vllm", "qwen2.5-7b", Settings())
    text = written("sglang", "qwen2.5-7b", Settings())
    assert "--speculative-algorithm NGRAM" in text
    assert "vocabulary is of another size" in text


@pytest.mark.parametrize("engine", [*GOLDEN, "ollama"])
def test_without_depth_nothing_drafts(engine):
    text = written(engine, "qwen3-8b", Settings(0))
    assert "spec" not in text.replace("LocalSpec", "")
    assert "draft" not in text.lower()
    assert "depth" not in text


def test_an_engine_that_takes_other_files_is_refused_by_name(tmp_path):
    path = tiny.write(tmp_path / "tiny.gguf", "llama")
    with pytest.raises(UsageError, match=r"tiny\.gguf is a GGUF file.*mlx"):
        written("mlx-lm", str(path), Settings())


def test_a_file_whose_makers_are_not_known_asks_for_them(tmp_path):
    path = tiny.write(tmp_path / "tiny.gguf", "llama")
    with pytest.raises(UsageError, match="--original ORG/REPOSITORY"):
        written("vllm", str(path), Settings())
    text = written("vllm", str(path), Settings(), original="org/model")
    assert "vllm serve org/model" in text
    assert '"method": "ngram"' in text


def test_a_path_with_spaces_and_quotes_stays_one_word(tmp_path):
    path = tiny.write(tmp_path / "it's a model.gguf", "llama")
    text = written("llama-server", str(path), Settings(0))
    assert command(text) == ["llama-server", "-m", str(path)]


def test_a_modelfile_names_the_files_that_are_here(tmp_path):
    target, draft = (tiny.write(tmp_path / f"{name}.gguf", "llama") for name in ("target", "draft"))
    text = written("ollama", str(target), FULL, draft=str(draft))
    assert text.splitlines()[2:] == [
        "cat > Modelfile <<'END'",
        f"FROM {target}",
        f"DRAFT {draft}",
        "PARAMETER draft_num_predict 5",
        "PARAMETER num_ctx 8192",
        "END",
        "ollama create tiny-llama \\",
        "  -f Modelfile",
        "ollama run tiny-llama",
    ]
    assert "OLLAMA_KV_CACHE_TYPE=q8_0 OLLAMA_NUM_PARALLEL=4" in text


def test_the_script_is_one_that_a_shell_takes(tmp_path, capsys):
    assert run(["export", "qwen3-8b", "--to", "tensorrt-llm", "--context", "4096"]) == 0
    script = capsys.readouterr().out
    subprocess.run(["sh", "-n"], input=script.encode(), check=True)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "trtllm-serve").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > given\n')
    (folder / "trtllm-serve").chmod(0o755)
    path = f"{folder}:/usr/bin:/bin"
    subprocess.run(["sh"], input=script.encode(), cwd=tmp_path, env={"PATH": path}, check=True)
    assert (tmp_path / "given").read_text().split() == ["Qwen/Qwen3-8B", "--config", "trtllm.yaml"]
    assert "max_seq_len: 4096" in (tmp_path / "trtllm.yaml").read_text()


@pytest.mark.long
def test_options_of_mlx_lm_are_those_that_its_parser_knows(tmp_path):
    words = command(written("mlx-lm", "qwen3-8b", FULL))
    stdout = subprocess.run(
        [sys.executable, "-m", "mlx_lm.server", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert [word for word in words if word.startswith("--") and word not in stdout] == []


def test_speculation_is_written_as_json_that_can_be_read():
    words = command(written("vllm", "qwen3-8b", FULL))
    assert json.loads(words[words.index("--speculative-config") + 1])["method"] == "draft_model"


def test_an_unknown_name_and_an_unknown_engine_are_errors(capsys):
    assert run(["export", "no-such-model", "--to", "vllm"]) == 2
    assert "no model 'no-such-model'" in capsys.readouterr().err
    assert run(["export", "qwen3-8b", "--to", "tgi"]) == 2
    assert deployment(PairNames("qwen3-8b"), ANY, Settings()).target.original == "Qwen/Qwen3-8B"
