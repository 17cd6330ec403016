"""From a name or a path to a runtime: find the weights, the engine and the proposer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal, cast, get_args

from localspec.backend import Backend, Footprint, Model, Options
from localspec.catalog import WISHES, Wish, locate
from localspec.catalog import Engine as EngineName
from localspec.engine import DEPTH, Engine
from localspec.errors import BackendError, UsageError
from localspec.proposer import Proposer
from localspec.proposers.draft_model import DraftModelProposer
from localspec.proposers.first_of import FirstOf
from localspec.proposers.ngram import NgramProposer
from localspec.proposers.silent import Silent
from localspec.runtime import Runtime
from localspec.translated import Translated
from localspec.vocabulary import Match, match

Guesser = Literal["auto", "ngram", "draft-model", "both", "none"]
GUESSERS: tuple[Guesser, ...] = get_args(Guesser)

INSTALL: Mapping[EngineName, str] = {
    "llamacpp": "pip install llama-cpp-python",
    "mlx": 'pip install "localspec[mlx]"',
}


@dataclass(frozen=True, slots=True)
class Loading:
    """How to load: the engine's options, and who guesses how far."""

    options: Options = field(default_factory=Options)
    proposer: Guesser = "auto"  # the draft model if there is one, else n-grams
    depth: int = DEPTH  # most tokens to guess ahead
    backend: Wish = "auto"  # the engine; a file or a folder decides for itself

    def __post_init__(self) -> None:
        if self.backend not in WISHES:
            raise UsageError(f"backend is {self.backend!r}; known: {', '.join(WISHES)}")
        if self.proposer not in GUESSERS:
            raise UsageError(f"proposer is {self.proposer!r}; known: {', '.join(GUESSERS)}")
        if not 0 <= self.depth <= self.options.tentative:
            raise UsageError(f"depth is {self.depth}; it must be 0 to {self.options.tentative}")


def load(
    name_or_path: str | Path, draft: str | Path | None = None, loading: Loading | None = None
) -> Runtime:
    """Load a model, and a draft model to guess for it if one is given."""
    loading = loading or Loading()
    if draft is None and loading.proposer in ("draft-model", "both"):
        raise UsageError(f"proposer {loading.proposer} needs a draft model: give one")
    if draft is not None and loading.proposer in ("ngram", "none"):
        raise UsageError(f"proposer {loading.proposer} does without a draft model: give none")
    with ExitStack() as closing:
        target = _load_model(name_or_path, loading.backend, loading.options)
        closing.callback(target.close)
        helper = None
        if draft is not None:
            options = replace(loading.options, drafting=True, adapter=None)
            by_path = Path(draft).expanduser().exists()  # which may be for the other engine
            helper = _load_model(draft, "auto" if by_path else loading.backend, options)
            closing.callback(helper.close)
        found = match(target.tokenizer, helper.tokenizer) if helper else None
        proposer = _proposer(loading.proposer, target, helper, found)
        return Runtime(Engine(target, proposer, loading.depth), closing.pop_all(), found)


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


def _proposer(
    guesser: Guesser, target: Model, draft: Model | None, found: Match | None
) -> Proposer:
    if guesser == "none":
        return Silent()
    if draft is None or found is None:
        return NgramProposer()
    if found.difference is not None or draft.vocabulary != target.vocabulary:
        draft = Translated(draft, target.tokenizer, found, target.vocabulary)
    if guesser == "both":
        return FirstOf(NgramProposer(), DraftModelProposer(draft))
    return DraftModelProposer(draft)
