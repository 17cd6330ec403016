"""The command `localspec export`: how another engine runs a pair."""

from __future__ import annotations

from dataclasses import dataclass

import click

from localspec.apps.export.deployment import USUAL_DEPTH, PairNames, Settings, deployment
from localspec.apps.export.engines import ENGINES
from localspec.apps.export.script import script
from localspec.console.options.declare import COUNT, TEXT, option, options, read, required
from localspec.console.options.model_names import MODEL


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
    names = PairNames(model, request.draft, request.original, request.draft_original)
    settings = Settings(request.depth, request.context, request.slots, request.kv_type)
    described = deployment(names, ENGINES[request.to].format, settings)
    click.echo(script(request.to, described))
