"""The table of models by form, and a line for each fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from architectures.checking.verdict import MIB, ModelVerdict

Verdicts = Mapping[tuple[str, str], ModelVerdict]  # by model and form


def lines(verdicts: Verdicts, kinds: Sequence[str]) -> Iterator[str]:
    kinds = [kind for kind in kinds if any(each == kind for _, each in verdicts)]
    rows = [["model", *kinds, "planned", "grown"]]
    rows += [row(verdicts, name, kinds) for name in dict.fromkeys(name for name, _ in verdicts)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for each in rows:
        cells = zip(each, widths, strict=True)
        yield "  ".join(cell.ljust(width) for cell, width in cells).rstrip()
    yield ""
    yield from summary(verdicts)


def row(verdicts: Verdicts, name: str, kinds: Sequence[str]) -> list[str]:
    """Make the row of a model, with the memory of its largest form in MiB."""
    found = [verdicts.get((name, kind)) for kind in kinds]
    words = [each.word if each else "" for each in found]
    most = max((each for each in found if each), key=lambda each: each.planned)
    sizes = [f"{most.planned / MIB:.1f}", f"{most.grown / MIB:.1f}"] if most.planned else ["", ""]
    return [name, *words, *sizes]


def summary(verdicts: Verdicts) -> Iterator[str]:
    counts = Counter(verdict.word for verdict in verdicts.values())
    yield ", ".join(f"{count} {word}" for word, count in counts.most_common())
    run = [each for each in verdicts.values() if each.drafted]
    yield f"drafts were judged in {len(run)}; {sum(each.near for each in run)} near-ties fell"
    untold = {name for verdict in verdicts.values() for name in verdict.untold}
    if untold:
        yield f"`localspec info` does not tell: {', '.join(sorted(untold))}"
    for (name, kind), verdict in verdicts.items():
        for fault in verdict.faults:
            yield f"{verdict.word:10} {name} {kind}: {' '.join(fault.split())}"
