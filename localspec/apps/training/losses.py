"""The losses of a head over several steps of its drafts, and how much of them is accepted.

A draft is continued as often as it would be accepted, so that a token counts by how likely it is to
be reached, and those that hardly are take no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from localspec.apps.training.head import Chains, Network, Texts, rows_of

STEPS = 5  # tokens of a draft that are learned and judged
LEAST_REACHED = 0.3  # of the drafts go on, at least: later steps learn before earlier ones can
SHIFT = 3.0  # how fast acceptance takes the place of cross entropy in the loss
SMALL = 1e-6


@dataclass(frozen=True, slots=True)
class Judged:
    """One step of drafts beside what the target would have said: [texts, drafts] each."""

    valid: Tensor  # whether the text goes on for so long
    crossed: Tensor  # cross entropy
    accepted: Tensor  # the chance to be accepted, where both are sampled at temperature 1
    agrees: Tensor  # whether both have the same likeliest token
    follows: Tensor  # whether the text goes on by the target's likeliest token


def starts(texts: Texts) -> Tensor:
    """List where drafts begin in each text, so that their first tokens are the target's own.

    The last entry stands for those beyond it: it drafts nothing that the text has.
    """
    first, last = (texts.begins - 2).clamp(min=0), texts.embedded.shape[1] - 2
    count = max(last - int(first.min()), 1)
    return (first[:, None] + torch.arange(count, device=first.device)).clamp(max=last)


def judge(chains: Chains, texts: Texts) -> Judged:
    """Draft a token in each chain, and compare it with the target's distribution there."""
    read = chains.judges
    logits = chains.step()
    rows = read.clamp(max=texts.embedded.shape[1] - 1)
    candidates, chances = rows_of(texts.candidates, rows), rows_of(texts.chances, rows)
    picked = logits.gather(-1, candidates) - logits.logsumexp(-1, keepdim=True)
    agrees = (logits.argmax(-1) == candidates[..., 0]) & rows_of(texts.drafts, rows)
    return Judged(
        read + 1 < texts.lengths[:, None],
        -(chances * picked).sum(-1),
        torch.minimum(chances, picked.exp()).sum(-1),
        agrees,
        rows_of(texts.follows, rows),
    )


def loss(network: Network, texts: Texts, random: torch.Generator) -> Tensor:
    """Return the loss of a batch: of all first tokens, and of the later ones of some drafts."""
    chains = Chains(network, texts, starts(texts))
    total, count = torch.zeros((), device=texts.lengths.device), 1.0
    for step in range(STEPS):
        judged = judge(chains, texts)
        total = total + (weigh(judged) * judged.valid).sum()
        if not step:
            count = max(float(judged.valid.sum()), 1.0)
        if step + 1 < STEPS:
            chains.keep(draw_continued(judged, random))
    return total / count


def weigh(judged: Judged) -> Tensor:
    """Blend cross entropy with the chance to be rejected, which counts the more it has fallen.

    Cross entropy teaches faster at first; a small network lowers it at the cost of acceptance.
    """
    mean = judged.accepted[judged.valid].mean().nan_to_num()
    share = torch.exp(-SHIFT * mean.detach())
    return share * judged.crossed + (1 - share) * (1 - judged.accepted)


def draw_continued(judged: Judged, random: torch.Generator) -> Tensor:
    """Draw the drafts that go on, by their chances to be accepted: as many in each text."""
    chances = judged.accepted.detach().clamp(min=LEAST_REACHED) * judged.valid
    share = float(chances.sum() / judged.valid.sum().clamp(min=1))
    count = max(round(share * chances.shape[1]), 1)
    dice = torch.rand(chances.shape, generator=random).to(chances.device)
    return (dice.clamp(min=SMALL).log() / chances.clamp(min=SMALL)).topk(count, -1).indices


@torch.no_grad()  # type: ignore[untyped-decorator]
def acceptance(
    network: Network, batches: Iterable[Texts], between: Callable[[], None]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Measure how much of drafts after every token is accepted, greedy and sampled.

    By position: the chance of each token of a draft, where all before it were accepted.
    """
    counts = torch.zeros(2, 2, STEPS)
    for texts in batches:
        between()
        chains = Chains(network, texts, starts(texts))
        reach = [torch.ones(chains.begins.shape, device=chains.begins.device)] * 2
        for step in range(STEPS):
            judged = judge(chains, texts)
            rates = (judged.agrees.float(), judged.accepted)
            for at, rate in enumerate(rates):
                reached_here = reach[at] * judged.valid
                counts[0, at, step] += float((reached_here * rate).sum())
                counts[1, at, step] += float(reached_here.sum())
            # The text that follows is the target's greedy one only as long as it agrees with it.
            reach = [reach[0] * rates[0] * judged.follows, reach[1] * rates[1]]
    greedy, sampled = (counts[0] / counts[1].clamp(min=SMALL)).tolist()
    return tuple(greedy), tuple(sampled)
