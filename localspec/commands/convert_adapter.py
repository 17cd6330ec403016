"""The command `localspec convert-adapter`: a LoRA of PEFT as a file for llama.cpp."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from localspec.backend_spec import PublishedAdapter
from localspec.commands.new_file import NewFileOptions, require_published
from localspec.commands.options.declare import EXISTING, option, options, read
from localspec.errors import UsageError
from localspec.memory.machine import size
from localspec.models.engines import specs

ADAPTER_CONFIG = "adapter_config.json"


@dataclass(frozen=True, slots=True)
class ConvertAdapterOptions(NewFileOptions):
    base: Path | None = option(
        EXISTING,
        "Folder of the model that it is for.",
        "FOLDER",
        otherwise="the one that it names, from Hugging Face",
    )


@click.command("convert-adapter", params=options(ConvertAdapterOptions))
@click.argument("folder", type=EXISTING)
@click.pass_context
def convert_adapter(context: click.Context, folder: Path) -> None:
    """Convert a LoRA adapter to a file for --adapter.

    FOLDER is what PEFT saved: adapter_config.json and adapter_model.safetensors. Of the model that
    it is for, config.json and the tokenizer are enough. llama.cpp's converter does it, in an
    environment of its own.
    """
    options = read(context, ConvertAdapterOptions)
    if not (folder / ADAPTER_CONFIG).is_file():
        raise UsageError(f"{folder} has no {ADAPTER_CONFIG}: give the folder that PEFT saved")
    require_published(options.base)
    out = options.new_file(folder)
    convert = next((s.convert_adapter for s in specs().values() if s.convert_adapter), None)
    if convert is None:
        raise UsageError("no engine here converts adapters: llama.cpp does")
    convert(PublishedAdapter(folder, options.base, options.type, options.python), out)
    click.echo(f"{out}: {size(out.stat().st_size)}; to use it: --adapter {out}")
