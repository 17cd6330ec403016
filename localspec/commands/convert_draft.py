"""The command `localspec convert-draft`: a published drafting head as a file for llama.cpp."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from localspec.backend_spec import PublishedHead
from localspec.commands.new_file import NewFileOptions, require_published
from localspec.commands.options.declare import EXISTING, option, options, read
from localspec.errors import UsageError
from localspec.memory.machine import size
from localspec.models.engines import specs


@dataclass(frozen=True, slots=True)
class ConvertOptions(NewFileOptions):
    target: Path | None = option(
        EXISTING, "Folder of the model that the head drafts for.", "FOLDER"
    )


@click.command("convert-draft", params=options(ConvertOptions))
@click.argument("folder", type=EXISTING)
@click.pass_context
def convert_draft(context: click.Context, folder: Path) -> None:
    """Convert a published drafting head to a file for --draft.

    FOLDER holds the weights of the head as they were published.
    For EAGLE-3, DFlash and Gemma 4's assistants, --target names the folder that their model was
    published as: config.json and the tokenizer are enough. Without it, the MTP blocks among a
    model's own weights are written. llama.cpp's converter does it, in an environment of its own.
    """
    options = read(context, ConvertOptions)
    require_published(folder, options.target)
    out = options.new_file(folder)
    convert = next((spec.convert for spec in specs().values() if spec.convert), None)
    if convert is None:
        raise UsageError("no engine here converts heads: llama.cpp does")
    convert(PublishedHead(folder, options.target, options.type, options.python), out)
    click.echo(f"{out}: {size(out.stat().st_size)}; to use it: --draft {out}")
