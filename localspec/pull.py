"""Get a pair: plan it, download it, see that it is right and that it runs, then register it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from huggingface_hub import constants

from localspec import hub, memory, store, trial
from localspec.backend import CONTEXT, Needs, Options, Rehearsal
from localspec.backends import backend
from localspec.catalog import Engine, Entry, Offer, Shape, Weights, choose, entries, find, preferred
from localspec.catalog import Wish as EngineWish
from localspec.errors import DoesNotFit, PullError, UsageError
from localspec.hub import Listing, Remote
from localspec.locating import Found
from localspec.machine import Machine, size
from localspec.memory import Plan, Wanted
from localspec.planning import Limits, there
from localspec.sources import Address, Hub, Local, Package, Source, source
from localspec.vocabulary import Match, match

AT_ONCE = 4  # files
LEFT = 1 << 30  # bytes of disk that stay free
CELLS = {"auto": 1.0, "f16": 1.0, "q8_0": 17 / 32, "q4_0": 9 / 32}
COMPUTING = 256 << 20  # bytes of buffers, as long as nothing better is known

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Part:
    """A model, or a drafter, that is to be had: its files by the hub, or where it is already."""

    source: Source
    listing: Listing | None = None
    files: tuple[Remote, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def missing(self) -> int:
        return hub.missing(self.listing, self.files) if self.listing else 0


@dataclass(frozen=True, slots=True)
class Order:
    """A pair as it will be pulled."""

    name: str
    weights: str
    engine: Engine
    target: Part
    drafter: str = "none"
    draft: Part | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        return (self.target, self.draft) if self.draft else (self.target,)

    @property
    def missing(self) -> int:
        return sum(part.missing for part in self.parts)


def fitting(entry: Entry, wish: EngineWish, weights: str, machine: Machine) -> tuple[Engine, str]:
    """The engine for an entry, and the first of its weights that fit, best with their drafter."""
    engine = choose(entry, wish, preferred())
    offered = entry.offers[engine].weights
    if weights:
        if weights not in offered:
            raise UsageError(f"{entry.name} has no {weights}; it has: {', '.join(offered)}")
        return engine, weights
    plans: dict[str, Plan] = {}
    for name in offered:
        try:
            plans[name] = rough(entry, engine, name, machine)
        except DoesNotFit:
            continue
    if not plans:
        least = min(offered.values(), key=lambda each: each.bytes)
        raise DoesNotFit(
            f"{entry.name} does not fit here: its smallest weights take {size(least.bytes)}, and "
            f"there is room for {size(machine.room)}; name the weights to pull it all the same, as "
            f"{entry.name}:{next(iter(offered))}"
        )
    return engine, min(plans, key=lambda name: len(plans[name].concessions))


def rough(
    entry: Entry,
    engine: Engine,
    weights: str,
    machine: Machine,
    options: Options | None = None,
    *,
    alone: bool = False,
) -> Plan:
    """A plan by what the catalogue knows, before anything is here."""
    offer = entry.offers[engine]
    if weights not in offer.weights:
        raise UsageError(f"{entry.name} has no {weights}; it has: {', '.join(offer.weights)}")
    draft = drafts(offer, engine) if offer.drafter == "model" and not alone else None
    options = options or Options()
    wanted = Wanted(
        guessed(offer.weights[weights], entry.shape),
        options,
        min(entry.context or CONTEXT, CONTEXT),
        guessed(draft[1], draft[0].shape) if draft else None,
        replace(options, drafting=True),
    )
    return memory.plan(wanted, machine)


def drafts(offer: Offer, engine: Engine) -> tuple[Entry, Weights] | None:
    """The entry that an offer drafts with, if it names one."""
    name, _, weights = offer.draft.partition(":")
    other = entries().get(name)
    if other is None:
        return None
    offered = other.offers[engine].weights
    return other, offered[weights or next(iter(offered))]


def guessed(weights: Weights, shape: Shape | None) -> Rehearsal:
    """What loading would take, by published sizes; of an unknown shape the weights alone."""

    def needs(options: Options) -> Needs:
        cells = (options.context or CONTEXT) * options.slots
        if shape is None:
            return Needs(weights.bytes, 0, COMPUTING)
        logits = options.slots * (options.tentative + 1) * shape.vocabulary * 4
        kept = int(cells * shape.token_bytes * CELLS[options.kv_type])
        return Needs(weights.bytes, kept, COMPUTING + logits, shape.layers)

    return needs


def order(
    wish: str, engine: EngineWish = "auto", draft: str = "", limits: Limits | None = None
) -> Order:
    """What a name, or a source, stands for; asks the hub which files that are."""
    limits = limits or Limits()
    if wish.startswith(("hf:", "https:", "http:")):
        return _unnamed(wish, engine, draft)
    name, _, weights = wish.partition(":")
    entry = find(name)
    own = choose(entry, engine, preferred())
    own, weights = fitting(entry, own, weights, there(own, limits))
    offer = entry.offers[own]
    target = listed(offer.weights[weights], own, weights)
    if draft:
        return Order(name, weights, own, target, "model", _given(draft, own))
    if offer.drafter == "model" and (known := drafts(offer, own)):
        helper = listed(known[1], own, offer.draft.partition(":")[2])
        return Order(name, weights, own, target, "model", helper)
    if offer.draft:
        return Order(name, weights, own, target, offer.drafter, part(source(offer.draft), own, ""))
    return Order(name, weights, own, target, offer.drafter)


def _unnamed(wish: str, engine: EngineWish, draft: str) -> Order:
    where = source(wish)
    if isinstance(where, Hub):
        found = hub.listing(where)
        has_gguf = any(file.name.lower().endswith(".gguf") for file in found.files)
        own: Engine = "llamacpp" if has_gguf and engine != "mlx" else "mlx"
        target = chosen(where, found, own, "")
        name = where.repository.rpartition("/")[2].lower()
        drafter, helper = ("model", _given(draft, own)) if draft else _beside(where, found)
    else:
        own, target, drafter = "llamacpp", Part(where), "model" if draft else "none"
        name = Path(where.name).stem.lower() if isinstance(where, Address) else str(where)
        helper = _given(draft, own) if draft else None
    return Order(name, "as-given", own, target, drafter, helper)


def _beside(where: Hub, found: Listing) -> tuple[str, Part | None]:
    """A drafter that lies beside a model."""
    for file in hub.sidecars(found):
        kind = Path(file.name).name.lower().partition("-")[0]
        return kind, Part(replace(where, file=file.name), found, (file,))
    return "none", None


def _given(draft: str, engine: Engine) -> Part:
    name, _, weights = draft.partition(":")
    known = entries().get(name)
    if known:
        offered = known.offers[choose(known, engine, (engine,))].weights
        weights = weights or next(iter(offered))
        if weights not in offered:
            raise UsageError(f"{name} has no {weights}; it has: {', '.join(offered)}")
        return listed(offered[weights], engine, weights)
    return part(source(draft), engine, "")


def listed(weights: Weights, engine: Engine, name: str) -> Part:
    """What the catalogue lists; where it knows sums, with these and no others."""
    if isinstance(weights.source, Package) and weights.source.find() is None:
        raise PullError(f"{weights.source.module} is not installed: {weights.install}")
    found = part(weights.source, engine, name)
    sums = tuple(file.sum for file in found.files if file.large)
    if weights.sums and sums != weights.sums:
        raise PullError(
            f"{found.source} is not what was checked for the catalogue: its sums differ"
        )
    return found


def part(where: Source, engine: Engine, weights: str) -> Part:
    if not isinstance(where, Hub):
        return Part(where)
    return chosen(where, hub.listing(where), engine, weights)


def chosen(where: Hub, found: Listing, engine: Engine, weights: str) -> Part:
    files = hub.folder(found) if engine == "mlx" else hub.gguf(found, where.file, weights)
    return Part(replace(where, revision=found.revision), found, tuple(files))


def room(wanted: Order) -> None:
    """Refuse what the disk has no room for."""
    place = Path(constants.HF_HUB_CACHE)
    there = next(each for each in (place, *place.parents) if each.exists())
    free = shutil.disk_usage(there).free
    if wanted.missing and wanted.missing + LEFT > free:
        raise PullError(
            f"{wanted.name} takes {size(wanted.missing)} of disk and {size(LEFT)} stay free; "
            f"{place} has {size(free)}: make room, or set HF_HOME to a larger disk"
        )


def pull(wanted: Order, count: hub.Count, say: Say) -> store.Pulled:
    """Download, check and register a pair."""
    room(wanted)
    helds = [held(part, count) for part in wanted.parts]
    target, draft = helds[0], helds[1] if len(helds) > 1 else None
    say("checking that it runs")
    used = helds if wanted.drafter == "model" else helds[:1]
    for each in used:
        trial.passed(Found(wanted.engine, each.path), there(wanted.engine, Limits()).room)
    if len(used) > 1:
        vocabularies(wanted.engine, used[0].path, used[1].path)
    found = store.Pulled(wanted.name, wanted.weights, wanted.engine, target, wanted.drafter, draft)
    store.keep(found)
    return found


def held(part: Part, count: hub.Count) -> store.Held:
    """A model on disk, its files whole and right."""
    if isinstance(part.source, Address):
        path = hub.fetch_address(part.source, store.folder().parent / "files", count)
        return replace(_here(Local(path)), source=str(part.source))
    if part.listing is None:
        return _here(part.source)
    listing = part.listing
    paths = together(part.files, lambda file, count: hub.fetch(listing, file, count), count)
    files = tuple(_files(paths, part.files))
    main = paths[0] if paths[0].suffix.lower() == ".gguf" else paths[0].parent
    return store.Held(str(part.source), main, files)


def together(
    files: Sequence[Remote], fetch: Callable[[Remote, hub.Count], Path], count: hub.Count
) -> list[Path]:
    """Several at once; where one fails, or somebody presses Ctrl-C, the others stop too."""
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


def _here(where: Source) -> store.Held:
    if isinstance(where, Package):
        path = where.find()
        if path is None:
            raise PullError(f"the package {where.module} is not installed")
    else:
        assert isinstance(where, Local)
        path = where.path
        if not path.exists():
            raise PullError(f"there is no {path}")
    inner = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    files = tuple(
        store.File(each, each.stat().st_size, hub.digest(each, large=True), large=True)
        for each in inner
    )
    return store.Held(str(where), path, files)


def vocabularies(engine: Engine, target: Path, draft: Path) -> Match:
    """How the drafter's vocabulary agrees with the target's; `PairError` where too little does."""
    own = backend(engine)
    with own.tokenizer(target) as ours, own.tokenizer(draft) as theirs:
        return match(ours, theirs)
