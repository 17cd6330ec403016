"""The scripts of other engines, as templates: their options, and what does not carry over.

A line of a template is omitted where a value in it is empty; one with `:.0` is asked for only, and
not written. The options are those of vLLM 0.33, SGLang 0.5.23, TensorRT-LLM 1.3, llama.cpp's server
in llama-cpp-python 0.3.36, mlx-lm 0.32 and Ollama 0.32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from localspec.apps.export.deployment import ANY, LOOKUP


@dataclass(frozen=True, slots=True)
class OtherEngine:
    """An engine by the format of its weights, its words for drafters, and its templates."""

    format: str
    methods: Mapping[str, str]  # by the catalogue's kinds of drafters
    command: str  # a word or an option with its value in each line
    file: str = ""  # written before the command
    content: str = ""


def methods(lookup: str, model: str, mtp: str, eagle3: str, dflash: str) -> dict[str, str]:
    """Return an engine's words for what drafts, by the catalogue's."""
    words = {"model": model, "mtp": mtp, "mtp-inside": mtp, "eagle3": eagle3, "dflash": dflash}
    return {LOOKUP: lookup, **words}


ENGINES = {
    "vllm": OtherEngine(
        ANY,
        methods("ngram", "draft_model", "mtp", "eagle3", "dflash")
        | {kind: kind for kind in ("eagle", "medusa", "mlp_speculator")},
        """\
vllm serve {original}
--max-model-len {context}
--max-num-seqs {slots}
--kv-cache-dtype {bits:.0}fp8
--speculative-config {config}""",
    ),
    "sglang": OtherEngine(
        ANY,
        methods("NGRAM", "STANDALONE", "NEXTN", "EAGLE3", "DFLASH") | {"eagle": "EAGLE"},
        """\
python -m sglang.launch_server
--model-path {original}
--context-length {context}
--max-running-requests {slots}
--kv-cache-dtype {bits:.0}fp8_e4m3
--speculative-algorithm {method}
--speculative-draft-model-path {draft_original}
--speculative-num-steps {steps}
--speculative-eagle-topk {steps:.0}1
--speculative-num-draft-tokens {depth_and_one}""",
    ),
    "tensorrt-llm": OtherEngine(
        ANY,
        methods("NGram", "DraftTarget", "MTP", "Eagle3", "DFlash"),
        "trtllm-serve {original}\n--config {file}",
        "trtllm.yaml",
        """\
max_seq_len: {context}
max_batch_size: {slots}
kv_cache_config:{bits:.0}
  dtype: {bits:.0}fp8
speculative_config:{method:.0}
  decoding_type: {method}
  max_draft_len: {depth}
  max_matching_ngram_size: {ngram}
  speculative_model: "{draft_original}\"""",
    ),
    "llama-server": OtherEngine(
        "gguf",
        methods("ngram-mod", "draft-simple", "draft-mtp", "draft-eagle3", "draft-dflash"),
        """\
llama-server
-hf {hub}
-m {path}
-c {cells}
-np {slots}
-ctk {kv_type}
-ctv {kv_type}
--spec-type {method}
--spec-draft-n-max {steps}
-hfd {draft_hub}
-md {draft_path}
--temp {temperature}
--top-k {top-k}
--top-p {top-p}
--min-p {min-p}""",
    ),
    "mlx-lm": OtherEngine(
        "mlx",
        {"model": "model"},
        """\
mlx_lm.server
--model {folder}
--draft-model {draft_folder}
--num-draft-tokens {depth}
--kv-bits {bits}
--decode-concurrency {slots}
--temp {temperature}
--top-k {top-k}
--top-p {top-p}
--min-p {min-p}""",
    ),
    "ollama": OtherEngine(
        "gguf",
        {kind: kind for kind in ("model", "mtp", "mtp-inside", "eagle3", "dflash")},
        "ollama create {name}\n-f {file}\n\nollama run {name}",
        "Modelfile",
        """\
FROM hf.co/{hub}
FROM {path}
DRAFT {draft_file}
PARAMETER draft_num_predict {depth}
PARAMETER num_ctx {context}
PARAMETER temperature {temperature}
PARAMETER top_k {top-k}
PARAMETER top_p {top-p}
PARAMETER min_p {min-p}""",
    ),
}
