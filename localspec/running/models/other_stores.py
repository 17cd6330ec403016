"""Models that Ollama and LM Studio have downloaded, which are served where they lie."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from localspec.base.system import kept_json
from localspec.running.models.engines import Engine, all_engines
from localspec.running.models.stored_pair import File, PulledPair, StoredModel

OLLAMA, LM_STUDIO = "Ollama", "LM Studio"
MANIFESTS = "manifests/*/*/*/*"  # host, namespace, model, tag
USUAL = ("registry.ollama.ai", "library")  # which a name leaves out
KIND = "application/vnd.ollama.image."
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
QUANTISED = re.compile(r"[-_.](i?q\d\w*|b?f16|f32|mxfp4\w*)$", re.I)
FORMAT = re.compile(r"[-_.]gguf$", re.I)


def everything() -> list[PulledPair]:
    """List the models in both stores, as far as an engine takes them."""
    return [*_of_ollama(), *_of_lm_studio()]


def ollama_folders() -> list[Path]:
    """Return where Ollama keeps models: by its variable, else a user's and the service's."""
    if chosen := os.environ.get("OLLAMA_MODELS"):
        return [Path(chosen)]
    return [Path.home() / ".ollama/models", Path("/usr/share/ollama/.ollama/models")]


def lm_studio_folders() -> list[Path]:
    return [Path.home() / ".lmstudio/models", Path.home() / ".cache/lm-studio/models"]


def _of_ollama() -> Iterator[PulledPair]:
    engine = next((engine for engine in all_engines() if engine.spec.format == "gguf"), None)
    for folder in ollama_folders() if engine else ():
        for manifest in _paths(folder, MANIFESTS):
            *origin, name, tag = manifest.relative_to(folder / "manifests").parts
            if tuple(origin) != USUAL:
                name = "/".join([*origin, name])
            parts = kept_json.load(manifest, partial(_layers, folder)) or {}
            if (target := parts.get("model")) and "adapter" not in parts:
                projector = parts.get("projector")
                yield PulledPair(name, tag, str(engine), target, projector=projector, owner=OLLAMA)


def _layers(folder: Path, record: Mapping[str, Any]) -> dict[str, StoredModel]:
    """Read the layers of a manifest that are GGUF files, by their kind."""
    parts = {}
    for layer in record["layers"]:
        kind, digest = layer["mediaType"].removeprefix(KIND), DIGEST.fullmatch(layer["digest"])
        if kind in ("model", "projector", "adapter") and digest:
            path = folder / "blobs" / f"sha256-{digest[1]}"
            file = File(path, int(layer["size"]), digest[1], large=True)
            parts[kind] = StoredModel(str(path), path, (file,))
    return parts


def _of_lm_studio() -> Iterator[PulledPair]:
    for root in lm_studio_folders():
        for folder in _paths(root, "*/*"):
            sizes = {path.name: path.stat().st_size for path in _paths(folder, "*")}
            for engine in all_engines():
                yield from _in_folder(folder, sizes, engine)


def _in_folder(folder: Path, sizes: Mapping[str, int], engine: Engine) -> Iterator[PulledPair]:
    """List the models of a repository's folder."""
    models = engine.spec.models(list(sizes)) if engine.spec.models else ()
    name = FORMAT.sub("", folder.name).lower()
    for model in models:
        if model.role != "model" or model.lacks:
            continue
        files = tuple(File(folder / part, sizes[part], "", large=True) for part in model.files)
        path = files[0].path if engine.spec.format == "gguf" else folder
        quantised = QUANTISED.search(model.name)
        weights = quantised[1].lower() if quantised else "as-given"
        target = StoredModel(str(path), path, files)
        yield PulledPair(name, weights, str(engine), target, owner=LM_STUDIO)


def _paths(folder: Path, pattern: str) -> list[Path]:
    """List paths by a pattern; none where nobody may read the folder."""
    with suppress(OSError):
        return sorted(folder.glob(pattern))
    return []
