"""The table of models by form, and a line for each fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from architectures.checking.verdict import MIB, ModelVerdict
from localspec.console.columns import columns

Verdicts = Mapping[tuple[str, str], ModelVerdict]  # by model and form


def lines(verdicts: Verdicts, kinds: Sequence[str]) -> Iterator[str]:
    kinds = [kind for kind in kinds if any(form == kind for _, form in verdicts)]
    rows = [["model", *kinds, "planned", "grown"]]
    rows += [row(verdicts, name, kinds) for name in dict.fromkeys(name for name, _ in verdicts)]
    yield columns(rows)
    yield ""
    yield from summary(verdicts)


def row(verdicts: Verdicts, name: str, kinds: Sequence[str]) -> list[str]:
    """Make the row of a model, with the memory of its largest form in MiB."""
    row_verdicts = [verdicts.get((name, kind)) for kind in kinds]
    words = [verdict.word if verdict else "" for verdict in row_verdicts]
    most = max(
        (verdict for verdict in row_verdicts if verdict), key=lambda verdict: verdict.planned
    )
    sizes = [f"{most.planned / MIB:.1f}", f"{most.grown / MIB:.1f}"] if most.planned else ["", ""]
    return [name, *words, *sizes]


def summary(verdicts: Verdicts) -> Iterator[str]:
    counts = Counter(verdict.word for verdict in verdicts.values())
    yield ", ".join(f"{count} {word}" for word, count in counts.most_common())
    run = [verdict for verdict in verdicts.values() if verdict.drafted]
    yield f"drafts were judged in {len(run)}; {sum(verdict.near for verdict in run)} near-ties fell"
    untold = {name for verdict in verdicts.values() for name in verdict.untold}
    if untold:
        yield f"`localspec info` does not tell: {', '.join(sorted(untold))}"
    for (name, kind), verdict in verdicts.items():
        for fault in verdict.faults:
            yield f"{verdict.word:10} {name} {kind}: {' '.join(fault.split())}"
