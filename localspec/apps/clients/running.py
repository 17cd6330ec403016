"""Running servers: whether they are LocalSpec, and the models they serve."""

from __future__ import annotations

from pathlib import Path

from localspec.apps.clients.endpoint import Endpoint
from localspec.apps.server.options import ServingOptions, keys_of
from localspec.base.errors import BackendError, LocalSpecError, UsageError, require_known
from localspec.console.speakers.http import Wire, socket_path
from localspec.console.speakers.server import OURS, listed_models, takes_pictures, writes_text
from localspec.console.speakers.stream import Object, count

ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # addresses to listen at, and to ask at


def endpoint_at(address: str, key: str, model: str = "") -> Endpoint:
    """Find a model at an address, by default a loaded one; or raise."""
    if socket_path(address):
        raise UsageError(f"{address} is a unix socket, which agents cannot ask")
    wire = Wire(address, key)
    by_name = models_of(wire)
    able = [name for name, fields in by_name.items() if writes_text(fields)] or list(by_name)
    loaded = (name for name in able if by_name[name].get("loaded") is True)
    name = model or next(loaded, able[0])
    if name not in by_name:  # the server calls a file, or a folder, by its bare name
        name = next((bare for bare in (Path(name).stem, Path(name).name) if bare in by_name), name)
    require_known(wire.address, name, by_name)
    context = count(by_name[name], "context_length")
    return Endpoint(wire.address, name, context, key, sees=bool(takes_pictures(by_name[name])))


def models_of(wire: Wire) -> dict[str, Object]:
    """List the models that a server offers, or raise where it is not LocalSpec."""
    models = listed_models(wire)
    if not models or any(model.get("owned_by") != OURS for model in models.values()):
        raise UsageError(f"the server at {wire.address} is not LocalSpec")
    return models


def running_server(attach: str | None, key: str, serving: ServingOptions) -> Wire:
    """Connect to the named server, else to the configured one; or raise."""
    usual = f"unix:{serving.unix}" if serving.unix is not None else usual_address(serving)
    keys = keys_of(serving.api_key, serving.api_key_file) if attach is None else ()
    if not (attach or usual):
        raise UsageError("`serve` is configured for any free port: name its address with --attach")
    wire = Wire(attach or usual, key or next(iter(keys), ""))
    try:
        models_of(wire)
    except BackendError as error:
        raise UsageError(f"{error}; name another address with --attach") from error
    return wire


def usual_address(serving: ServingOptions) -> str:
    """Return the configured address of `localspec serve`; empty if clients cannot reach it."""
    if serving.unix is not None or not serving.port:
        return ""
    host = ANYWHERE.get(serving.host, serving.host)
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if serving.tls_cert else "http"
    return f"{scheme}://{shown}:{serving.port}{serving.prefix.rstrip('/')}"


def configured_endpoint(serving: ServingOptions, key: str, model: str) -> Endpoint | None:
    """Find the configured server, if it runs and serves the model."""
    address = usual_address(serving)
    key = key or next(iter(keys_of(serving.api_key, serving.api_key_file)), "")
    try:
        return endpoint_at(address, key, model) if address else None
    except LocalSpecError:
        return None
