"""The command `localspec info`: the facts in a model's file or folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from localspec.console.options.declare import flag, options, read
from localspec.console.options.loading import EngineOptions
from localspec.console.options.model_names import MODEL, name_or_path
from localspec.interfaces.backend import Footprint
from localspec.running.memory.machine import size
from localspec.running.models import trial
from localspec.running.models.engines import all_engines, taker
from localspec.running.models.locate import ModelFiles, locate


@dataclass(frozen=True, slots=True)
class InfoOptions:
    json: bool = flag("Everything as JSON, the chat template included.")


@click.command(params=options(EngineOptions, InfoOptions))
@click.argument("model", metavar="NAME_OR_PATH", type=MODEL, shell_complete=name_or_path)
@click.pass_context
def info(context: click.Context, model: str) -> None:
    """Describe a model's file or folder, or an adapter's, as its engine reads it."""
    if facts := adapter_facts(Path(model)):
        as_json = read(context, InfoOptions).json
        lines = [f"{name:<14} {value}" for name, value in facts.items()]
        click.echo(json.dumps(facts, indent=2) if as_json else "\n".join(lines))
        return
    files = locate(model, read(context, EngineOptions).backend).with_projector()
    with trial.examine(files) as examined:
        footprint = replace(examined.footprint(), projector=files.projector)
    if read(context, InfoOptions).json:
        click.echo(json.dumps(asdict(footprint), indent=2, default=os.fspath))
        return
    for name, value in (*describe(footprint), *sight(files), *runs_on(footprint.path)):
        click.echo(f"{name:<14} {value}")


def adapter_facts(path: Path) -> Mapping[str, str]:
    """Return the facts of an adapter; none where a path is not one's."""
    for spec in (engine.spec for engine in all_engines()):
        if spec.adapters and (spec.folder if path.is_dir() else spec.claims(path)):
            return spec.adapters.describe(path)
    return {}


def describe(f: Footprint) -> list[tuple[str, str]]:
    kv_cache = f"{f.kv_bytes_per_token:,} bytes per token"
    if f.window:
        kv_cache += f", and {f.window_bytes_per_token:,} in a window of {f.window:,} tokens"
    experts = f"{f.experts} in a layer, {f.active_experts} of them active"
    lines = [
        ("path", os.fspath(f.path)),
        ("name", f.name),
        ("architecture", f.architecture),
        ("quantisation", f.quantisation),
        ("size", f"{f.file_bytes:,} bytes, {f.weight_bytes:,} of weights"),
        ("layers", layers(f)),
        ("heads", f"{f.heads}, {f.kv_heads} for keys and values" if f.heads else ""),
        ("experts", experts if f.experts else ""),
        ("MTP head", f"{f.drafting_layers} layers" if f.drafting_layers else ""),
        ("drafting head", f"{f.drafter}: give it with --draft" if f.drafter else ""),
        ("context", f"{f.context:,} tokens"),
        ("16-bit KV", kv_cache),
        ("state", f"{f.state_bytes:,} bytes per slot" if f.recurrent else ""),
        ("tokenizer", f"{f.tokenizer}, {f.vocabulary:,} tokens" if f.vocabulary else ""),
        ("chat template", "yes" if f.chat_template else "no"),
    ]
    return [line for line in lines if line[1]]


def sight(files: ModelFiles) -> Iterator[tuple[str, str]]:
    """Name the projector of a model, and what it takes; or say why there is none."""
    projectors = files.engine.spec.projectors
    if files.projector and projectors:
        kinds = " and ".join(
            sorted(f"{kind}s" for kind in projectors.describe(files.projector).kinds)
        )
        yield "projector", f"{files.projector.name}: it takes {kinds}"
    elif files.blind:
        yield "projector", f"none: {files.blind}"


def runs_on(path: Path) -> Iterator[tuple[str, str]]:
    """Name the devices that the engine of a file sees, each with its free memory."""
    for device in taker(path).backend().probe():
        yield device.kind, f"{device.name}, {size(device.free_bytes)} free"


def layers(f: Footprint) -> str:
    """Describe the layers: their number and kinds; some have two, or none of these."""
    kinds = {
        "with attention": f.attention_layers,
        f"with attention in a window of {f.window:,} tokens": f.window_layers,
        "recurrent": f.recurrent_layers,
    }
    counts = [f"{count} {kind}" for kind, count in kinds.items() if count]
    return f"{f.layers}: {', '.join(counts)}" if counts else str(f.layers)
