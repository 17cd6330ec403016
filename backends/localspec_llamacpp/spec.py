"""The description of llama.cpp, read before it is imported."""

from __future__ import annotations

from pathlib import Path

from localspec.interfaces.backend_spec import BackendSpec, Builder, deferred
from localspec.interfaces.file_tools import AdapterTools, HeadTools, Projectors
from localspec.interfaces.other_machines import Workers
from localspec_build.choice import NAMES
from localspec_llamacpp.advice import advise
from localspec_llamacpp.names import choose_projector, parts, remote_models

MAGIC = b"GGUF"
SUFFIXES = (".gguf", ".ggml")
# Bytes that hold a header: 262,144 tokens and 514,906 merges are 15 million, and no known one has
# more.
HEADERS = (16 << 20, 64 << 20)


def claims(path: Path) -> bool:
    """Claim a file by its name or its magic; a pipe is not opened, which could block for ever."""
    if path.suffix.lower() in SUFFIXES:
        return not path.is_dir()
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


SPEC = BackendSpec(
    module="localspec_llamacpp.backend",
    format="gguf",
    kind="a GGUF file",
    install="pip install llama-cpp-python",
    claims=claims,
    models=remote_models,
    files=parts,
    header_bytes=HEADERS,
    packages=("llama-cpp-python",),
    vectors="localspec_llamacpp.vectors",
    coordinates=deferred("localspec_llamacpp.coordinates", "coordinates"),
    builder=Builder(NAMES, deferred("localspec_llamacpp.building", "build"), advise),
    workers=Workers(
        deferred("localspec_llamacpp.workers", "serve"),
        deferred("localspec_llamacpp.links", "links"),
    ),
    projectors=Projectors(
        deferred("localspec_llamacpp.headers.projector", "find_projector"),
        deferred("localspec_llamacpp.headers.projector", "describe"),
        choose_projector,
        deferred("localspec_llamacpp.bindings.library", "lacks_for_pictures"),
    ),
    heads=HeadTools(
        deferred("localspec_llamacpp.observing", "observe"),
        deferred("localspec_llamacpp.head_writing", "write_head"),
        deferred("localspec_llamacpp.converting", "convert"),
    ),
    adapters=AdapterTools(
        deferred("localspec_llamacpp.headers.adapter", "describe"),
        deferred("localspec_llamacpp.converting", "convert_adapter"),
    ),
)
