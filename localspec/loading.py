"""From a name or a path to a runtime: find the weights, the engine and the proposer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import cast

from localspec import guessers, measured
from localspec.backend import Backend, Footprint, Model, Options
from localspec.calibration import Calibration, calibrate
from localspec.catalog import WISHES, Wish, locate
from localspec.catalog import Engine as EngineName
from localspec.costs import GUESS
from localspec.depth import Depth
from localspec.engine import Engine
from localspec.errors import BackendError, UsageError
from localspec.pair import Pair
from localspec.proposer import Proposer
from localspec.proposers.best import Best
from localspec.proposers.first_of import FirstOf
from localspec.runtime import Runtime
from localspec.translated import Translated
from localspec.vocabulary import match

DEEP = 16  # tokens that are guessed at most where the depth is left open
PACKAGES = ("localspec", "llama-cpp-python", "mlx", "mlx-lm", "numpy")  # may change what it takes
INSTALL: Mapping[EngineName, str] = {
    "llamacpp": "pip install llama-cpp-python",
    "mlx": 'pip install "localspec[mlx]"',
}


@dataclass(frozen=True, slots=True)
class Loading:
    """How to load: the engine's options, and who guesses how far."""

    options: Options = field(default_factory=Options)
    proposer: str = "auto"  # names with commas between them, or "none"
    depth: int | None = None  # tokens to guess ahead; None: what pays, by measurement
    backend: Wish = "auto"  # the engine; a file or a folder decides for itself

    def __post_init__(self) -> None:
        if self.backend not in WISHES:
            raise UsageError(f"backend is {self.backend!r}; known: {', '.join(WISHES)}")
        guessers.check(self.proposer)
        if self.depth is not None and not 0 <= self.depth <= self.options.tentative:
            raise UsageError(f"depth is {self.depth}; it must be 0 to {self.options.tentative}")


def load(
    name_or_path: str | Path, draft: str | Path | None = None, loading: Loading | None = None
) -> Runtime:
    """Load a model, and a draft model to guess for it if one is given."""
    loading = loading or Loading()
    wanted = guessers.names(loading.proposer, draft=draft is not None)
    loading = deepened(name_or_path, loading)
    with ExitStack() as closing:
        found = closing.enter_context(pair(name_or_path, draft, loading))
        proposers = guessers.make(wanted, found)
        if loading.depth is None and proposers:
            calibration = calibrated(found, (name_or_path, draft), loading)
            made = automatic(found.target, proposers, Depth(calibration.costs()))
        else:
            made = fixed(found.target, proposers, loading.depth or 0)
        return Runtime(made, closing.pop_all(), found.match)


def deepened(name_or_path: str | Path, loading: Loading) -> Loading:
    """Room for long guesses, where the depth is left open and they take no memory."""
    options = loading.options
    left_open = loading.depth is None and options.tentative == Options().tentative
    if not left_open or inspect(name_or_path, loading.backend).recurrent:
        return loading
    return replace(loading, options=replace(options, tentative=DEEP))


def fixed(target: Model, proposers: Mapping[str, Proposer], depth: int) -> Engine:
    """An engine that guesses so far whenever one of these can, the first first."""
    return Engine(target, FirstOf(*proposers.values()), depth)


def automatic(target: Model, proposers: Mapping[str, Proposer], depth: Depth) -> Engine:
    """An engine that guesses as far as it pays, by whom it pays most."""
    best = Best(proposers, depth)
    return Engine(target, best, target.tentative, watch=best.note)


@contextmanager
def pair(name_or_path: str | Path, draft: str | Path | None, loading: Loading) -> Iterator[Pair]:
    """The models; a draft model with another vocabulary is translated."""
    with ExitStack() as closing:
        target = _load_model(name_or_path, loading.backend, loading.options)
        closing.callback(target.close)
        if draft is None:
            yield Pair(target)
            return
        options = replace(loading.options, drafting=True, adapter=None)
        helper = _load_model(draft, _wish(draft, loading), options)
        closing.callback(helper.close)
        found = match(target.tokenizer, helper.tokenizer)
        if found.difference is not None or helper.vocabulary != target.vocabulary:
            helper = Translated(helper, target.tokenizer, found, target.vocabulary)
        yield Pair(target, helper, found)


def calibrated(
    found: Pair, paths: tuple[str | Path, str | Path | None], loading: Loading
) -> Calibration:
    """What the pair takes on this machine: as was measured before, or now."""
    name = measurement(paths, loading)
    known = measured.find(name)
    if known is None:
        known = calibrate(found.target, found.draft)
        if not known.steady:  # too busy a machine to tell: learn from the rounds themselves
            return Calibration(GUESS)
        measured.keep(name, known)
    return known


def measurement(paths: tuple[str | Path, str | Path | None], loading: Loading) -> str:
    """What the measurements of a pair, loaded like this on this machine, are kept under."""
    target, draft = paths
    places = [locate(str(target), loading.backend)]
    if draft is not None:
        places.append(locate(str(draft), _wish(draft, loading)))
    devices = {(d.name, d.kind) for place in places for d in backend(place.engine).probe()}
    circumstances = [repr(loading.options), repr(sorted(devices)), str(os.cpu_count())]
    circumstances += [f"{package} {version(package)}" for package in PACKAGES if _has(package)]
    return measured.key([place.path for place in places], circumstances)


def _has(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _wish(draft: str | Path, loading: Loading) -> Wish:
    """A draft model given by its path may be for the other engine."""
    return "auto" if Path(draft).expanduser().exists() else loading.backend


def inspect(name_or_path: str | Path, wish: Wish = "auto") -> Footprint:
    """What a model's files say of it, without loading it."""
    found = locate(str(name_or_path), wish)
    return backend(found.engine).inspect(found.path)


def backend(name: EngineName) -> Backend:
    """An engine by name, from whichever package offers it."""
    [found] = entry_points(group="localspec.backends", name=name)
    try:
        # A module of functions; it is held against the protocol by the type checker.
        return cast(Backend, found.load())
    except ModuleNotFoundError as error:
        raise BackendError(f"{name} needs {error.name}: {INSTALL[name]}") from error
    except (ImportError, OSError, RuntimeError) as error:  # the last two: of a shared library
        raise BackendError(f"the engine {name} cannot be used: {error}") from error


def _load_model(name_or_path: str | Path, wish: Wish, options: Options) -> Model:
    found = locate(str(name_or_path), wish)
    return backend(found.engine).load(found.path, options)
