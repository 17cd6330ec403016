"""The engines that a pair can be exported to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from localspec.export import llama_server, mlx_lm, ollama, sglang, tensorrt_llm, vllm
from localspec.export.deployment import ANY, Deployment
from localspec.export.script import Script


@dataclass(frozen=True, slots=True)
class OtherEngine:
    """An engine by the format of its weights, and the writer of its script."""

    format: str
    script: Callable[[Deployment], Script]


ENGINES = {
    "vllm": OtherEngine(ANY, vllm.script),
    "sglang": OtherEngine(ANY, sglang.script),
    "tensorrt-llm": OtherEngine(ANY, tensorrt_llm.script),
    "llama-server": OtherEngine("gguf", llama_server.script),
    "mlx-lm": OtherEngine("mlx", mlx_lm.script),
    "ollama": OtherEngine("gguf", ollama.script),
}
