"""Get a pair: download it, check its files and that it runs, then register it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from huggingface_hub import constants

from localspec.backend import Options
from localspec.errors import LocalSpecError, PullError
from localspec.memory.machine import size
from localspec.memory.planner import Limits, there
from localspec.models import store, trial
from localspec.models.engines import spec
from localspec.models.locate import ModelFiles
from localspec.models.sources import Address, LocalFiles, Package, Source
from localspec.models.trial import Examined
from localspec.pulling import hub
from localspec.pulling.listing import Remote
from localspec.pulling.remote_header import require_readable
from localspec.pulling.resolve import PullPart, PullPlan
from localspec.system.fingerprint import digest

AT_ONCE = 4  # files
LEFT = 1 << 30  # bytes of disk that stay free

Say = Callable[[str], None]


def room(wanted: PullPlan) -> None:
    """Refuse a download that the disk has no room for."""
    place = Path(constants.HF_HUB_CACHE)
    there = next(each for each in (place, *place.parents) if each.exists())
    free = shutil.disk_usage(there).free
    if wanted.missing and wanted.missing + LEFT > free:
        raise PullError(
            f"{wanted.name} takes {size(wanted.missing)} of disk and {size(LEFT)} stay free; "
            f"{place} has {size(free)}: make room, or set HF_HOME to a larger disk"
        )


def pull(wanted: PullPlan, count: hub.Count, say: Say) -> store.PulledPair:
    """Download, check and register a pair."""
    room(wanted)
    for part in wanted.parts:
        if part.listing:
            require_readable(wanted.engine, part.listing, part.files)
    helds = [held(part, wanted.engine, count) for part in wanted.parts]
    target, draft = helds[0], helds[1] if len(helds) > 1 else None
    say("checking that it runs")
    with trial.examine(ModelFiles(wanted.engine, target.path)) as looked:
        looked.check_runs(Options(), there(wanted.engine, Limits()).room)
        drafter = checked(wanted, looked, draft, say) if draft else wanted.drafter
    found = store.PulledPair(wanted.name, wanted.weights, wanted.engine, target, drafter, draft)
    store.keep(found)
    return found


def checked(wanted: PullPlan, target: Examined, draft: store.StoredModel, say: Say) -> str:
    """Try what drafts for a model; return what it is, by its file. A head must not hinder."""
    room = there(wanted.engine, Limits()).room
    with trial.examine(ModelFiles(wanted.engine, draft.path)) as looked:
        try:
            kind = looked.footprint().drafter
            if kind:
                target.check_runs(Options(head=draft.path), room)
                return kind
        except LocalSpecError as error:
            if wanted.drafter == "model":
                raise
            say(f"its drafter ({wanted.drafter}) is not used: {error}")
            return store.UNUSED
        if wanted.drafter != "model":
            say(f"its drafter ({wanted.drafter}) is not used: it is a model of its own")
            return store.UNUSED
        looked.check_runs(Options(), room)
    trial.vocabularies(wanted.engine, target.files.path, draft.path)
    return "model"


def held(part: PullPart, engine: str, count: hub.Count) -> store.StoredModel:
    """Record a model on disk, once its files are whole and right."""
    if isinstance(part.source, Address):
        path = hub.fetch_address(part.source, store.folder().parent / "files", count)
        return replace(_here(LocalFiles(path)), source=str(part.source))
    if part.listing is None:
        return _here(part.source)
    listing = part.listing
    paths = together(part.files, lambda file, count: hub.fetch(listing, file, count), count)
    files = tuple(_files(paths, part.files))
    main = paths[0].parent if spec(engine).folder else paths[0]
    return store.StoredModel(str(part.source), main, files)


def together(
    files: Sequence[Remote], fetch: Callable[[Remote, hub.Count], Path], count: hub.Count
) -> list[Path]:
    """Run several at once; where one fails, or on Ctrl-C, the others stop too."""
    stopped = threading.Event()

    def counted(number: int) -> None:
        if stopped.is_set():
            raise PullError("stopped")
        count(number)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun = [pool.submit(fetch, file, counted) for file in files]
        try:
            return [each.result() for each in begun]
        finally:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _files(paths: Sequence[Path], remote: Sequence[Remote]) -> Iterator[store.File]:
    for path, file in zip(paths, remote, strict=True):
        yield store.File(path, file.size, file.sum, file.large)


def _here(where: Source) -> store.StoredModel:
    if isinstance(where, Package):
        path = where.find()
        if path is None:
            raise PullError(f"the package {where.module} is not installed")
    else:
        assert isinstance(where, LocalFiles)
        path = where.path
        if not path.exists():
            raise PullError(f"there is no {path}")
    inner = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    files = tuple(
        store.File(each, each.stat().st_size, digest(each, large=True), large=True)
        for each in inner
    )
    return store.StoredModel(str(where), path, files)
