"""The key of cached prefixes: weights, engine build and load options."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from localspec.base.system.fingerprint import fingerprint
from localspec.interfaces.backend_spec import files_of
from localspec.running.runtime.loaded_pair import LoadedPair

SAMPLES, SAMPLE_BYTES = 64, 1 << 16  # bytes of a file of weights that its identity depends on


def identity(loaded_pair: LoadedPair) -> str:
    """Identify a KV cache by its weights, the engine, and the options it is loaded with.

    The scales of adapters are not part of it: they belong to each text.
    """
    target = loaded_pair.resolved.target
    engine, path = target.files.engine, target.files.path
    options = loaded_pair.plan.options
    relevant = replace(options, threads=None, mmap=False, batch=512, tentative=8, verbose=False)
    relevant = replace(relevant, threads_batch=None, micro_batch=None, mlock=False, direct_io=False)
    relevant = replace(relevant, head=None, projector=None, projector_on_host=False, adapters=())
    whole = (path, options.head, options.projector)
    files = [file for part in whole if part for file in engine.spec.files(part)]
    files += [file for adapter in options.adapters for file in files_of(adapter.path)]
    weights = [sample_digest(file) for file in files]
    products = f"products {options.own_products}"  # not where weights are mapped
    circumstances = [engine.name, products, repr(relevant), repr(target.engine.build)]
    return fingerprint([path], [*circumstances, *engine.versions(), *weights])


def sample_digest(file: Path) -> str:
    """A sum of parts from all over a file, and when it was written last."""
    info = file.stat()
    digest = hashlib.sha256(f"{info.st_size} {info.st_mtime_ns}".encode())
    with file.open("rb") as data:
        for at in range(SAMPLES):
            data.seek(info.st_size * at // SAMPLES)
            digest.update(data.read(SAMPLE_BYTES))
    return digest.hexdigest()
