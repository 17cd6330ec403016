"""Get a pair: download it, check its files and that it runs, then register it."""

from __future__ import annotations

import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from localspec.base.errors import LocalSpecError, PullError
from localspec.base.system.fingerprint import digest
from localspec.interfaces.backend import Options
from localspec.running.memory.machine import size
from localspec.running.memory.planner import Limits, current_machine
from localspec.running.models import store, trial
from localspec.running.models.engines import Engine
from localspec.running.models.locate import ModelFiles
from localspec.running.models.sources import Address, LocalFiles, Package, Source
from localspec.running.models.stored_pair import UNUSED, File, PulledPair, StoredModel
from localspec.running.models.trial import Examined
from localspec.running.pulling import address, hub
from localspec.running.pulling.listing import Listing, Remote
from localspec.running.pulling.pull_plan import PullPart, PullPlan
from localspec.running.pulling.remote_header import require_readable

MAX_DOWNLOADS = 4  # files
DISK_RESERVE = 1 << 30  # bytes of disk that stay free

Say = Callable[[str], None]


def require_disk_space(plan: PullPlan) -> None:
    """Refuse a download that is larger than the free space of a disk that it goes to."""
    missing: defaultdict[int, int] = defaultdict(int)  # bytes, by disk
    for part in plan.parts:
        if part.folder is None or not part.missing:
            continue
        folder = next(path for path in (part.folder, *part.folder.parents) if path.exists())
        disk, free = folder.stat().st_dev, shutil.disk_usage(folder).free
        missing[disk] += part.missing
        if missing[disk] + DISK_RESERVE > free:
            variable = "XDG_DATA_HOME" if isinstance(part.source, Address) else "HF_HOME"
            raise PullError(
                f"{plan.name} takes {size(plan.missing)} of disk and {size(DISK_RESERVE)} stay "
                f"free; {part.folder} has {size(free)}: make room, or set {variable} to a larger "
                "disk"
            )


def pull(plan: PullPlan, count: hub.Count, say: Say) -> PulledPair:
    """Download, check and register a pair."""
    require_disk_space(plan)
    for part in (plan.target, plan.draft):
        if part and part.listing:
            require_readable(plan.engine, part.listing, part.files)
    target = fetch_model(plan.target, plan.engine, count)
    draft = fetch_model(plan.draft, plan.engine, count) if plan.draft else None
    projector = fetch_model(plan.projector, plan.engine, count) if plan.projector else None
    say("checking that it runs")
    with trial.examine(ModelFiles(plan.engine, target.path)) as examined:
        examined.check_runs(Options(), current_machine(plan.engine, Limits()).available)
        drafter = check_drafter(plan, examined, draft, say) if draft else plan.drafter
        if projector and not takes_projector(plan, examined, projector, say):
            projector = None
    engine = plan.engine.name
    pair = PulledPair(plan.name, plan.weights, engine, target, drafter, draft, projector)
    store.keep(pair)
    return pair


def takes_projector(plan: PullPlan, target: Examined, projector: StoredModel, say: Say) -> bool:
    """Try a model with its projector; say why its engine does not take it."""
    free_bytes = current_machine(plan.engine, Limits()).available
    try:
        target.check_runs(Options(projector=projector.path), free_bytes)
    except LocalSpecError as error:
        say(f"its projector is not used: {error}")
        return False
    return True


def check_drafter(plan: PullPlan, target: Examined, draft: StoredModel, say: Say) -> str:
    """Try a model's drafter, and return its kind; a head that fails is left unused."""
    free_bytes = current_machine(plan.engine, Limits()).available
    with trial.examine(ModelFiles(plan.engine, draft.path)) as examined:
        try:
            kind = examined.footprint().drafter
            if kind:
                target.check_runs(Options(head=draft.path), free_bytes)
                return kind
        except LocalSpecError as error:
            if plan.drafter == "model":
                raise
            say(f"its drafter ({plan.drafter}) is not used: {error}")
            return UNUSED
        if plan.drafter != "model":
            say(f"its drafter ({plan.drafter}) is not used: it is a model of its own")
            return UNUSED
        examined.check_runs(Options(), free_bytes)
    trial.vocabularies(plan.engine, target.files.path, draft.path)
    return "model"


def fetch_model(part: PullPart, engine: Engine, count: hub.Count) -> StoredModel:
    """Record a model on disk, once its files are whole and right."""
    if isinstance(part.source, Address):
        path = address.fetch(part.source, part.address_bytes, count)
        return replace(_stored(LocalFiles(path)), source=str(part.source))
    if part.listing is None:
        return _stored(part.source)
    paths = fetch_all(part.listing, part.files, count)
    files = tuple(
        File(path, file.size, file.sum, file.large)
        for path, file in zip(paths, part.files, strict=True)
    )
    main = paths[0].parent if engine.spec.folder else paths[0]
    return StoredModel(str(part.source), main, files)


def fetch_all(listing: Listing, files: Sequence[Remote], count: hub.Count) -> list[Path]:
    """Run several at once; where one fails, or on Ctrl-C, the others stop too."""
    stopped = threading.Event()

    def counted(number: int) -> None:
        if stopped.is_set():
            raise PullError("stopped")
        count(number)

    with ThreadPoolExecutor(MAX_DOWNLOADS) as pool:
        futures = [pool.submit(hub.fetch, listing, file, counted) for file in files]
        try:
            return [future.result() for future in futures]
        finally:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _stored(origin: Source) -> StoredModel:
    if isinstance(origin, Package):
        path = origin.find()
        if path is None:
            raise PullError(f"the package {origin.module} is not installed")
    else:
        assert isinstance(origin, LocalFiles)
        path = origin.path
        if not path.exists():
            raise PullError(f"there is no {path}")
    inner = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    files = tuple(
        File(file, file.stat().st_size, digest(file, large=True), large=True) for file in inner
    )
    return StoredModel(str(origin), path, files)
