"""Proposers by name, from whichever package has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import cast

from localspec.errors import UsageError
from localspec.pairing.pair import Pair
from localspec.proposer import Proposer

GROUP = "localspec.proposers"
AUTO = ("forced", "prediction", "suffix")  # and the draft model, if there is one
DRAFT = "draft-model"
HEAD = "mtp"  # inside the target's file


def known() -> list[str]:
    return sorted(each.name for each in entry_points(group=GROUP))


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


def names(wish: str, *, has_draft: bool, has_head: bool = False) -> tuple[str, ...]:
    """Choose the proposers for a model that was given a draft model, or was not."""
    wanted = check(wish)
    if wish == "auto":
        best = (DRAFT,) if has_draft else (HEAD,) if has_head else ()
        return (*wanted, *best)
    if HEAD in wanted and not has_head:
        raise UsageError(f"proposer {wish} needs a drafting head (MTP) inside the model's file")
    if has_draft != (DRAFT in wanted):
        fault = (
            "does without a draft model: give none"
            if has_draft
            else "needs a draft model: give one"
        )
        raise UsageError(f"proposer {wish} {fault}")
    return wanted


def make(wanted: Sequence[str], pair: Pair) -> Mapping[str, Proposer]:
    """Make the proposers of these names, for a pair."""
    made: dict[str, Proposer] = {}
    for name in wanted:
        [entry] = entry_points(group=GROUP, name=name)
        maker = cast(Callable[[Pair], Proposer], entry.load())
        made[name] = maker(pair)
    return made
