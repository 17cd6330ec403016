"""A verdict in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from localspec.apps.prove.greedy import Comparison, Difference
from localspec.apps.prove.sampled import PLAIN
from localspec.apps.prove.verdict import Drafts, GreedyVerdict, SampledVerdict, Verdict
from localspec.core.proposers.registry import HEADS

ABOUT = {
    PLAIN: "no drafts, for comparison",
    "ngram": "what followed the last token before",
    "suffix": "what mostly followed the end of the text before",
    "draft-model": "the draft model, however unsure",
    **dict.fromkeys(HEADS, "the drafting head, however unsure"),
    "auto": "the best of these",
    "slips": "the plain text, with mistakes strewn in",
}


def verdict_lines(verdict: Verdict, *, details: bool = False) -> Iterator[str]:
    """Format a verdict: the outcome first, then how, and by which proposer if `details`."""
    yield _sentence(verdict)
    yield from _greedy(verdict.greedy, details=details)
    yield from _sampled(verdict.sampled, details=details)
    left_out = {*verdict.greedy.drafts} - {*verdict.sampled.drafts, "slips"}
    if left_out and verdict.sampled.rounds:
        yield f"not sampled, for want of time: {', '.join(sorted(left_out))}"
    if not details:
        yield "--details shows each proposer and each difference; --json has every figure."


def _sentence(verdict: Verdict) -> str:
    if not verdict.proven:
        return f"Not proven: {'; '.join(verdict.faults)}."
    texts = "1 text" if verdict.greedy.texts == 1 else f"{verdict.greedy.texts} texts"
    tried = f"{texts} and {verdict.sampled.rounds:,} samples"
    rounding = "; where texts differ, it is by rounding" if verdict.greedy.differences else ""
    return f"Proven: speculation changed nothing in {tried}{rounding}."


def _greedy(greedy: GreedyVerdict, *, details: bool) -> Iterator[str]:
    differing = sorted(greedy.differences, key=lambda comparison: not comparison.defective)
    defects = sum(comparison.defective for comparison in differing)
    ties = [c.difference for c in differing if c.difference and not c.defective]
    parts = [f"{greedy.equal} of {greedy.texts} texts equal"]
    if ties:
        differ = "differs" if len(ties) == 1 else "differ"
        parts.append(f"{len(ties)} {differ} at a near-tie ({_margins(ties)})")
        parts.append("batch width alone explains it")
    if defects:
        parts.append(f"{defects} for no good reason")
    yield f"greedy: {'; '.join(parts)}"
    if details:
        for name, drafts in greedy.drafts.items():
            yield f"  {name:<12} {_accepted(drafts):<31}{ABOUT[name]}"
    for compared in differing[: None if details else defects]:
        yield from _difference(compared)


def _margins(ties: Sequence[Difference]) -> str:
    margins = sorted(tie.margin for tie in ties if tie.margin is not None)
    if len(margins) == 1:
        return f"margin {margins[0]:.2g}"
    return f"margins {margins[0]:.2g} to {margins[-1]:.2g}"


def _accepted(drafts: Drafts) -> str:
    return f"{drafts.accepted:,} of {drafts.drafted:,} accepted"


def _difference(compared: Comparison) -> Iterator[str]:
    if difference := compared.difference:
        margin = "" if difference.margin is None else f", margin {difference.margin:.2g}"
        how = f"{compared.proposer}, depth {compared.depth}"
        if compared.together > 1:
            how += f", {compared.together} at once"
        yield (
            f"  prompt {compared.prompt}, token {difference.place}: {difference.plain!r} became "
            f"{difference.speculative!r}{margin} ({how})"
        )
        if compared.defective:
            yield f"    {difference.why}"


def _sampled(sampled: SampledVerdict, *, details: bool) -> Iterator[str]:
    drawn = f"{sampled.rounds:,} samples at temperature {sampled.temperature:g}"
    if not sampled.tests:
        yield f"sampled: no test, of {drawn}"
        return
    smallest = min(test.fit.p for test in sampled.tests)
    yield (
        f"sampled: {len(sampled.tests)} tests of {drawn}, smallest p {smallest:.2g}; "
        f"below {sampled.limit:.2g} one fails"
    )
    for name in (PLAIN, *sampled.drafts) if details else ():
        values = [f"{test.fit.p:.2g}" for test in sampled.tests if test.proposer == name]
        p = f"p {' and '.join(values)}" if values else "not tested"
        accepted = _accepted(sampled.drafts[name]) if name in sampled.drafts else ABOUT[PLAIN]
        yield f"  {name:<12} {accepted:<31}{p}"
