"""Advice about a loaded pair: what was asked for and cannot bring what it is meant to."""

from __future__ import annotations

from collections.abc import Iterator

from localspec.backend import Footprint
from localspec.runtime.loaded_pair import LoadedPair

MEGABYTE = 10**6


def advice(loaded_pair: LoadedPair) -> Iterator[str]:
    """Yield a sentence about each such wish."""
    resolved = loaded_pair.resolved
    target = resolved.target.footprint
    if loaded_pair.plan.options.bit_exact and target.uneven:
        yield (
            f"--bit-exact: texts may still differ at near-ties, since {target.uneven} round by the "
            "width of a batch; weights in Q8_0 throughout do not"
        )
    if loaded_pair.plan.options.bit_exact and loaded_pair.plan.options.adapters:
        yield (
            "--bit-exact: texts may still differ at near-ties, since adapters round by the width "
            "of a batch; a model in Q8_0 that they are merged into does not"
        )
    if resolved.draft is not None and loaded_pair.pair.draft is not None:
        own, others = token_bytes(resolved.draft.footprint), token_bytes(target)
        if own >= others:
            yield (
                f"the draft model reads {own // MEGABYTE:,} MB for a token, and the model "
                f"{others // MEGABYTE:,} MB: such drafts cannot pay here; leave --draft away"
            )


def token_bytes(footprint: Footprint) -> int:
    """Estimate the bytes of weights that a token needs: of experts, only the active ones."""
    share = footprint.active_experts / footprint.experts if footprint.experts else 1.0
    return round(footprint.weight_bytes * share)
