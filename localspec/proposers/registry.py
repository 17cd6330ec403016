"""Proposers by name, from whichever package has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import cast

from localspec.errors import UsageError
from localspec.pairing.pair import Pair
from localspec.proposer import Proposer
from localspec.proposers import head

GROUP = "localspec.proposers"
AUTO = ("forced", "prediction", "suffix")  # and the draft model, if there is one
DRAFT = "draft-model"
HEAD = "mtp"  # inside the target's file, or a companion beside it
HEADS = (
    HEAD,
    "eagle3",
    "dflash",
    "medusa",
    "mlp_speculator",
    "layerskip",
)  # supplied by the engine, with the target


def known() -> list[str]:
    return sorted({*HEADS, *(each.name for each in entry_points(group=GROUP))})


def check(wish: str) -> tuple[str, ...]:
    """The names in a wish: `auto`, `none`, or names with commas between them."""
    if wish in ("auto", "none"):
        return AUTO if wish == "auto" else ()
    wanted = tuple(name.strip() for name in wish.split(","))
    strange = [name for name in wanted if name not in known()]
    if strange:
        raise UsageError(
            f"there is no proposer {strange[0]!r}; known: auto, none, {', '.join(known())}"
        )
    return wanted


def names(wish: str, drafter: str = "") -> tuple[str, ...]:
    """Choose the proposers for a model that comes with a draft model, with a head, or alone."""
    wanted = check(wish)
    if wish == "auto":
        return (*wanted, drafter) if drafter else wanted
    for name in wanted:
        if name in (DRAFT, *HEADS) and name != drafter:
            what = "draft model" if name == DRAFT else f"drafting head ({name})"
            raise UsageError(f"proposer {wish} needs a {what}: give one with --draft")
    if drafter and drafter != HEAD and drafter not in wanted:
        what = "draft model" if drafter == DRAFT else "drafting head"
        raise UsageError(f"proposer {wish} does without a {what}: give none")
    return wanted


def make(wanted: Sequence[str], pair: Pair) -> Mapping[str, Proposer]:
    """Make the proposers of these names, for a pair."""
    made: dict[str, Proposer] = {}
    for name in wanted:
        if name in HEADS:
            made[name] = head.make(pair)
            continue
        [entry] = entry_points(group=GROUP, name=name)
        maker = cast(Callable[[Pair], Proposer], entry.load())
        made[name] = maker(pair)
    return made
