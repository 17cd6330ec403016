"""The commands `localspec ps` and `localspec stop`: the loaded models of a running server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import click

from localspec.apps.clients.command import serving
from localspec.apps.clients.options import AttachOptions
from localspec.base.errors import UsageError, require_known
from localspec.console.columns import columns
from localspec.console.options.declare import flag, options, read
from localspec.running.memory.machine import size

if TYPE_CHECKING:
    from localspec.console.speakers.http import Wire
    from localspec.formats.templates.message import Json

LATEST = ":latest"
NEVER_YEAR = 9999  # of the end of a model that is not unloaded by itself


@dataclass(frozen=True, slots=True)
class PsOptions:
    json: bool = flag("List as JSON.")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    name: str
    bytes: int
    gpu_bytes: int  # of these
    context: int  # tokens
    unloads_at: str | None  # as ISO 8601; None: it is not unloaded by itself
    pinned: bool = False  # nor for another model

    @property
    def device(self) -> str:
        share = round(100 * self.gpu_bytes / max(self.bytes, 1))
        return (
            "CPU" if not share else "GPU" if share == 100 else f"{100 - share}% CPU, {share}% GPU"
        )

    @property
    def end(self) -> str:
        if self.pinned:
            return "never: pinned"
        return self.unloads_at[:16].replace("T", " ") if self.unloads_at else "never"


@click.command(params=options(AttachOptions, PsOptions))
@click.pass_context
def ps(context: click.Context) -> None:
    """List the models that a running server has loaded.

    The server is the one that `localspec serve` starts as it is configured, or that of --attach.
    """
    wire = find_server(context)
    models = list_loaded(wire)
    if read(context, PsOptions).json:
        click.echo(json.dumps({"server": wire.address, "models": [*map(asdict, models)]}, indent=2))
        return
    if not models:
        click.echo(f"no model is loaded at {wire.address}")
        return
    rows = [("NAME", "SIZE", "PLACE", "CONTEXT", "UNLOADS")]
    rows += [(m.name, size(m.bytes), m.device, f"{m.context:,}", m.end) for m in models]
    click.echo(columns(rows))


@click.command(params=options(AttachOptions))
@click.argument("model")
@click.pass_context
def stop(context: click.Context, model: str) -> None:
    """Unload a model of a running server.

    A model that answers requests is unloaded when they have ended. The next request for it loads
    it again. To end the server itself, press Ctrl-C where it runs.
    """
    from localspec.console.speakers.stream import count

    wire = find_server(context)
    names = [model.name for model in list_loaded(wire)]
    if not names:
        raise UsageError(f"no model is loaded at {wire.address}")
    name = model.removesuffix(LATEST)
    require_known(wire.address, name, names)
    requests = count(wire.ask("/models/unload", {"model": name}), "requests")
    requests_end = "its request has" if requests == 1 else f"its {requests} requests have"
    click.echo(f"{name} is unloaded" + (f" when {requests_end} ended" if requests else ""))


def find_server(context: click.Context) -> Wire:
    """Find the server to ask."""
    from localspec.apps.clients.running import running_server  # HTTP takes its time to import

    attaching = read(context, AttachOptions)
    return running_server(attaching.attach, attaching.key or "", serving(context))


def list_loaded(wire: Wire) -> list[LoadedModel]:
    """Ask a server for its loaded models."""
    from localspec.console.speakers.http import QUICK_SECONDS
    from localspec.console.speakers.stream import objects

    listed = wire.ask("/api/ps", seconds=QUICK_SECONDS).get("models")
    return [loaded_model(objects(model)) for model in listed] if isinstance(listed, list) else []


def loaded_model(fields: Mapping[str, Json]) -> LoadedModel:
    from localspec.console.speakers.stream import count

    end = fields.get("expires_at")
    moment = datetime.fromisoformat(end) if isinstance(end, str) else None
    return LoadedModel(
        str(fields.get("name")).removesuffix(LATEST),
        count(fields, "size"),
        count(fields, "size_vram"),
        count(fields, "context_length"),
        None if moment is None or moment.year == NEVER_YEAR else moment.astimezone().isoformat(),
        fields.get("pinned") is True,
    )
