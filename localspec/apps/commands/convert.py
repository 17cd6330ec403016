"""The commands `localspec convert-draft` and `convert-adapter`: published files for llama.cpp."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from localspec.base.errors import UsageError
from localspec.console.options.declare import EXISTING, TEXT, WRITABLE, option, options, read
from localspec.console.options.new_file import require_new
from localspec.interfaces.file_tools import Published
from localspec.running.memory.machine import size
from localspec.running.models.engines import all_engines

CONFIG, ADAPTER_CONFIG = "config.json", "adapter_config.json"


@dataclass(frozen=True, slots=True)
class NewFileOptions:
    out: Path | None = option(
        WRITABLE, "File to write.", otherwise="FOLDER.gguf in the current folder"
    )
    type: str = option(
        TEXT, "Type of the weights: f32, f16, bf16, q8_0; auto: as they are.", default="auto"
    )
    python: str = option(
        TEXT, "Python that has torch and transformers.", default="", otherwise="one is set up"
    )

    def new_file(self, folder: Path) -> Path:
        """Choose the file to write; refuse one that exists."""
        out = self.out or Path(f"{folder.resolve().name}.gguf")
        require_new(out)
        return out


@dataclass(frozen=True, slots=True)
class ConvertDraftOptions(NewFileOptions):
    target: Path | None = option(
        EXISTING, "Folder of the model that the head drafts for.", "FOLDER"
    )


@dataclass(frozen=True, slots=True)
class ConvertAdapterOptions(NewFileOptions):
    base: Path | None = option(
        EXISTING,
        "Folder of the model that it is for.",
        "FOLDER",
        otherwise="the one that it names, from Hugging Face",
    )


@click.command("convert-draft", params=options(ConvertDraftOptions))
@click.argument("folder", type=EXISTING)
@click.pass_context
def convert_draft(context: click.Context, folder: Path) -> None:
    """Convert a published drafting head to a file for --draft.

    FOLDER holds the weights of the head as they were published.
    For EAGLE-3, DFlash and Gemma 4's assistants, --target names the folder that their model was
    published as: config.json and the tokenizer are enough. Without it, the MTP blocks among a
    model's own weights are written. llama.cpp's converter does it, in an environment of its own.
    """
    options = read(context, ConvertDraftOptions)
    require_published(folder, options.target)
    out = options.new_file(folder)
    heads = (engine.spec.heads for engine in all_engines())
    convert = next((tools.convert for tools in heads if tools and tools.convert), None)
    if convert is None:
        raise UsageError("no engine here converts heads: llama.cpp does")
    convert(Published(folder, options.target, options.type, options.python), out)
    click.echo(f"{out}: {size(out.stat().st_size)}; to use it: --draft {out}")


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
    tools = filter(None, (engine.spec.adapters for engine in all_engines()))
    convert = next(filter(None, (tool.convert for tool in tools)), None)
    if convert is None:
        raise UsageError("no engine here converts adapters: llama.cpp does")
    convert(Published(folder, options.base, options.type, options.python), out)
    click.echo(f"{out}: {size(out.stat().st_size)}; to use it: --adapter {out}")


def require_published(*folders: Path | None) -> None:
    """Refuse folders that a model was not published as."""
    for folder in filter(None, folders):
        if not (folder / CONFIG).is_file():
            raise UsageError(f"{folder} has no {CONFIG}: give the folder as it was published")
