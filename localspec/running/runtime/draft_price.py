"""What a token of a draft model costs beside a plain one: as measured, or by bytes and layers."""

from __future__ import annotations

from localspec.core.proposers.registry import DRAFT
from localspec.interfaces.costs import Costs
from localspec.interfaces.footprint import Footprint

DRAFTED = 4  # tokens of a draft by which its cost is measured
DEAR, HOPELESS = 0.5, 0.8  # of a plain token; what costs the second wins a fifth at best
# What a card reads in the time in which it starts a layer: 34 us, at 1 TB a second. An H100, at
# 3.3, took 1.05 ms for the 30 layers of a model of 0.1 GB.
LAYER_BYTES = 34 * 10**6


def warn_of_price(
    draft: Footprint, target: Footprint, costs: Costs | None, *, on_host: bool
) -> str:
    """Say what a draft token costs if that is much; "" if it is not."""
    price, how = measured_price(costs), "measured here"
    if price is None:
        price, how = estimate_price(draft, target, on_host=on_host), "estimated by bytes and layers"
    if price < DEAR:
        return ""
    outlook = "cannot pay here" if price >= HOPELESS else "pay only where most of them are right"
    return (
        f"a token of the draft model takes {price:.2f} of the time of a plain one ({how}): such "
        f"drafts {outlook}; --draft none does without"
    )


def measured_price(costs: Costs | None) -> float | None:
    """Return the time of a draft token in that of a plain one; None if it was not measured."""
    curve = costs.drafting(DRAFT, 1) if costs else None
    if costs is None or curve is None:
        return None
    return curve.at(DRAFTED) / DRAFTED / costs.target(1).at(1)


def estimate_price(draft: Footprint, target: Footprint, *, on_host: bool) -> float:
    """Estimate it by what both read for a token, and on a card by their layers, too."""
    layer = 0 if on_host else LAYER_BYTES
    own, others = (token_bytes(model) + layer * model.layers for model in (draft, target))
    return own / max(others, 1)


def token_bytes(footprint: Footprint) -> int:
    """Return the bytes of weights that a token reads, or estimate them by its active experts."""
    if footprint.read_bytes:
        return footprint.read_bytes
    share = footprint.active_experts / footprint.experts if footprint.experts else 1.0
    return round(footprint.weight_bytes * share)
