"""Proposers by name, from whichever package has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import cast

from localspec.base.errors import UsageError
from localspec.core.pairing.pair import Pair
from localspec.core.proposers import head
from localspec.interfaces.proposer import Proposer

GROUP = "localspec.proposers"
AUTO = ("forced", "prediction", "suffix")  # and the draft model, if there is one
DRAFT = "draft-model"
CORPUS = "corpus"  # made with the corpus of a model, which an option names
HEAD = "mtp"  # inside the target's file, or a companion beside it
HEADS = (
    HEAD,
    "eagle",
    "eagle3",
    "dflash",
    "medusa",
    "mlp_speculator",
    "layerskip",
)  # supplied by the engine, with the target


def all_names() -> list[str]:
    return sorted({CORPUS, *HEADS, *(entry.name for entry in entry_points(group=GROUP))})


def parse(option: str) -> tuple[str, ...]:
    """Read the names in an option: `auto`, `none`, or names with commas between them."""
    if option in ("auto", "none"):
        return AUTO if option == "auto" else ()
    names = tuple(name.strip() for name in option.split(","))
    unknown = [name for name in names if name not in all_names()]
    if unknown:
        raise UsageError(
            f"there is no proposer {unknown[0]!r}; known: auto, none, {', '.join(all_names())}"
        )
    return names


def choose(option: str, drafter: str = "", *, corpus: bool = False) -> tuple[str, ...]:
    """Choose the proposers for a model that comes with a draft model, with a head, or alone."""
    names = parse(option)
    if CORPUS in names and not corpus:
        raise UsageError(
            f"proposer {option} needs texts: name files with --corpus, or keep replies by --learn"
        )
    if corpus and CORPUS not in names:
        names = (*names, CORPUS)
    if option == "auto":
        return (*names, drafter) if drafter else names
    for name in names:
        if name in (DRAFT, *HEADS) and name != drafter:
            missing = "draft model" if name == DRAFT else f"drafting head ({name})"
            raise UsageError(f"proposer {option} needs a {missing}: give one with --draft")
    if drafter and drafter != HEAD and drafter not in names:
        needless = "draft model" if drafter == DRAFT else "drafting head"
        raise UsageError(f"proposer {option} does without a {needless}: give none")
    return names


def make_proposers(names: Sequence[str], pair: Pair) -> Mapping[str, Proposer]:
    """Make the proposers of these names, for a pair."""
    proposers: dict[str, Proposer] = {}
    for name in names:
        if name in HEADS:
            proposers[name] = head.make(pair)
            continue
        [entry] = entry_points(group=GROUP, name=name)
        maker = cast(Callable[[Pair], Proposer], entry.load())
        proposers[name] = maker(pair)
    return proposers
