"""The description of llama.cpp, read before it is imported."""

from __future__ import annotations

from pathlib import Path

from localspec.interfaces.backend_spec import BackendSpec, Builder, Projectors, deferred
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
    workers="localspec_llamacpp.workers",
    vectors="localspec_llamacpp.vectors",
    advise=advise,
    builder=Builder(NAMES, deferred("localspec_llamacpp.building", "build")),
    tells_progress=True,
    scales_adapters=True,
    projectors=Projectors(
        deferred("localspec_llamacpp.headers.projector", "find_projector"),
        deferred("localspec_llamacpp.headers.projector", "describe"),
        choose_projector,
        deferred("localspec_llamacpp.bindings.library", "lacks_for_pictures"),
    ),
    describe_adapter=deferred("localspec_llamacpp.headers.adapter", "describe"),
    observe=deferred("localspec_llamacpp.observing", "observe"),
    write_head=deferred("localspec_llamacpp.head_writing", "write_head"),
    convert=deferred("localspec_llamacpp.converting", "convert"),
    convert_adapter=deferred("localspec_llamacpp.converting", "convert_adapter"),
)
