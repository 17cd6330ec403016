"""The command `localspec export`: how another engine runs a pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import click

from localspec.apps.export import llama_server, mlx_lm, ollama, sglang, tensorrt_llm, vllm
from localspec.apps.export.deployment import (
    ANY,
    USUAL_DEPTH,
    Deployment,
    PairNames,
    Settings,
    deployment,
)
from localspec.apps.export.script import Script
from localspec.console.options.declare import COUNT, TEXT, option, options, read, required
from localspec.console.options.model_names import MODEL


class OtherEngine(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class ExportOptions:
    to: str = required(
        click.Choice(list(ENGINES)), "Engine to write the script for.", "|".join(ENGINES)
    )
    draft: str = option(TEXT, "Draft model, instead of the listed one.", "NAME_OR_PATH", default="")
    original: str = option(
        TEXT,
        "Original weights of the model, for engines that take neither GGUF nor MLX.",
        "ORG/REPOSITORY",
        default="",
        otherwise="those that the catalogue lists",
    )
    draft_original: str = option(
        TEXT, "Original weights of the draft model.", "ORG/REPOSITORY", default=""
    )
    depth: int = option(
        click.IntRange(0, 64), "Tokens to draft per round; 0: none.", default=USUAL_DEPTH
    )
    context: int | None = option(COUNT, "Maximum tokens of a prompt and its reply together.")
    slots: int | None = option(COUNT, "Number of requests at once.")
    kv_type: str = option(
        click.Choice(["auto", "f16", "q8_0", "q4_0"]),
        "Type of the KV cache.",
        default="auto",
    )


@click.command(params=options(ExportOptions))
@click.argument("model", metavar="NAME_OR_PATH", type=MODEL)
@click.pass_context
def export(context: click.Context, model: str) -> None:
    """Write the shell script that runs a pair on another engine, and what does not carry over.

    For more cards or users than LocalSpec is made for. It need not be installed there.
    """
    request = read(context, ExportOptions)
    engine = ENGINES[request.to]
    names = PairNames(model, request.draft, request.original, request.draft_original)
    settings = Settings(request.depth, request.context, request.slots, request.kv_type)
    click.echo(str(engine.script(deployment(names, engine.format, settings))))
