"""Judge a model by the first bytes of its files, before the rest is downloaded.

Each file is laid out as long as the hub lists it, with a hole after what is here, so that the
engine's own reader of headers reads it. Zeros complete no header: one that is not all here is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from localspec.base.errors import BackendError, ModelFileError, PullError
from localspec.running.models.engines import Engine
from localspec.running.pulling import hub
from localspec.running.pulling.listing import Listing, Remote

MAX_HEADER = 64 << 20  # bytes of a file that are looked at
# Of the parts after a model's first, which describe but their own tensors.
MAX_LATER_HEADER = 4 << 20


def require_readable(engine: Engine, listing: Listing, files: Sequence[Remote]) -> None:
    """Refuse files that their engine would not take for a model, before the rest is downloaded.

    What cannot be known early is left to be found when all is here.
    """
    reason = ""
    for most in engine.spec.header_bytes:
        if hub.missing(listing, files) <= most:
            return
        heads = [hub.head(listing, files[0], most)]
        heads += [hub.head(listing, file, MAX_LATER_HEADER) for file in files[1:]]
        present = [path for path in heads if path]
        if len(present) < len(files):
            return
        reason = refusal(engine, files, present)
        if not reason:
            return
    if reason:
        for file in files:
            hub.part(listing, file).unlink(missing_ok=True)
        raise PullError(f"{listing.repository}: {reason}; the rest was not downloaded")


def refusal(engine: Engine, files: Sequence[Remote], heads: Sequence[Path]) -> str:
    """Return the engine's reason to refuse files with these first bytes; "" for none."""
    with suppress(OSError, BackendError), outline_files(files, heads) as folder:
        try:
            engine.backend().inspect(folder / Path(files[0].name).name)
        except ModelFileError as error:
            return str(error)
    return ""


@contextmanager
def outline_files(files: Sequence[Remote], heads: Sequence[Path]) -> Iterator[Path]:
    """Give a folder with files of the listed names and sizes that begin like `heads`."""
    with TemporaryDirectory(prefix="localspec-") as name:
        for file, head in zip(files, heads, strict=True):
            path = Path(name) / Path(file.name).name
            with head.open("rb") as head_file, path.open("wb") as out:
                out.write(head_file.read(min(MAX_HEADER, file.size)))
                out.truncate(file.size)
        yield Path(name)
