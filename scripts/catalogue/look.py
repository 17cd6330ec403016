"""Facts of models by their headers on the hub, read by range; nothing else is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from huggingface_hub import hf_hub_url
from huggingface_hub.utils._headers import build_hf_headers

from localspec.base.errors import ModelFileError, PullError
from localspec.interfaces.backend import Footprint
from localspec.running.models.engines import Engine
from localspec.running.models.sources import LocalFiles, Package
from localspec.running.pulling import hub
from localspec.running.pulling.listing import Listing, Remote
from localspec.running.pulling.pull_plan import PullPart
from localspec.running.pulling.remote_header import MAX_HEADER, MAX_LATER_HEADER, outline_files
from localspec_llamacpp.headers.header import read

T = TypeVar("T")

MB = 1 << 20
# Bytes of a file that are fetched, until its header is whole; MLX reads none beyond 16 MB.
STEPS: Mapping[str, tuple[int, ...]] = {
    "llamacpp": (1 * MB, 4 * MB, 8 * MB, 16 * MB, MAX_HEADER),
    "mlx": (1 * MB, 16 * MB),
}


@dataclass(frozen=True, slots=True)
class Look:
    """The facts of a model by its headers."""

    footprint: Footprint
    pre: str = ""  # how a GGUF's tokenizer splits a text


class Looks:
    """Looks at each model once; the heads of files are kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[str, tuple[str, ...]], Look] = {}

    def look(self, part: PullPart, engine: Engine) -> Look:
        """Read a model's headers; raise what its engine has against them."""
        key = (str(part.source), tuple(file.name for file in part.files))
        if key not in self._known:
            self._known[key] = self._judged(part, engine, lambda path: look_at(path, engine))
        return self._known[key]

    def require_header(self, part: PullPart, engine: Engine) -> None:
        """Refuse a file beside a model, such as a drafter, that is broken or no GGUF."""
        if engine.name == "llamacpp":
            self._judged(part, engine, read)

    def _judged(self, part: PullPart, engine: Engine, judge: Callable[[Path], T]) -> T:
        if part.listing is None:
            return judge(local(part))
        model = "" if engine.name == "mlx" else Path(part.files[0].name).name
        *steps, last = STEPS[engine.name]
        for step in steps:
            with suppress(ModelFileError), self._outlined(part, engine, step) as folder:
                return judge(folder / model)
            if all(file.size <= step for file in part.files):
                break
        with self._outlined(part, engine, last) as folder:
            return judge(folder / model)

    @contextmanager
    def _outlined(self, part: PullPart, engine: Engine, most: int) -> Iterator[Path]:
        """Download only the heads of files, and of a GGUF's later parts the tensor records."""
        assert part.listing is not None
        later = most if engine.name == "mlx" else min(most, MAX_LATER_HEADER)
        heads = [self._head(part.listing, part.files[0], most)]
        heads += [self._head(part.listing, file, later) for file in part.files[1:]]
        with outline_files(part.files, heads) as folder:
            yield folder

    def _head(self, listing: Listing, file: Remote, most: int) -> Path:
        place = self._folder / listing.repository.replace("/", "--") / f"{file.name}.head"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()  # there is nothing to fetch of an empty file
        if file.name.endswith((".gguf", ".safetensors")):
            if not hub.fetch_start(listing, file, place, most):
                raise PullError(f"{listing.repository} sends no parts of {file.name}")
        else:
            url = hf_hub_url(listing.repository, file.name, revision=listing.revision)
            headers = build_hf_headers(library_name="localspec")
            with hub.translate_errors(listing.repository):
                hub.resume_download(url, place, file.size, headers, lambda _: None)
        return place


def local(part: PullPart) -> Path:
    match part.source:
        case Package() as package:
            path = package.find()
        case LocalFiles(path):
            pass
        case _:
            path = None
    if path is None or not path.exists():
        raise PullError(f"{part.source} is not here")
    return path


def look_at(path: Path, engine: Engine) -> Look:
    footprint = engine.backend().inspect(path)
    if engine.name == "mlx":
        return Look(footprint)
    return Look(footprint, read(path).text("tokenizer.ggml.pre") or "")
