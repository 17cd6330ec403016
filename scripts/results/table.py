"""The table of docs/results/README.md; write it by `python -m results.table` in scripts/."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from results.rows import Kind, SharedRow, rows_in

FOLDER = Path(__file__).parents[2] / "docs" / "results"
BEGIN, END = "<!-- rows: written by scripts/results/table.py -->\n", "<!-- end of rows -->\n"
MARKS = re.compile(r"\((?:R|TM|C)\)|[^\w .,+/-]")  # a row is a stranger's: no Markdown, no HTML
BUSY = 0.15  # of the processors, from which on other programs are mentioned
HEAD = ("model", "machine", "plain", "times plain", "by kind", "first token", "memory", "proof")


def main() -> None:
    page = FOLDER / "README.md"
    try:
        page.write_text(replaced(page.read_text(encoding="utf-8")), encoding="utf-8")
    except ValueError as error:
        sys.exit(f"refused: {error}")


def replaced(text: str, folder: Path = FOLDER) -> str:
    """Return the page with the table as it should be."""
    before, _, behind = text.partition(BEGIN)
    _, _, after = behind.partition(END)
    table = "".join(f"{line}\n" for line in lines(list(rows_in(folder))))
    return before + BEGIN + table + END + after


def lines(rows: Sequence[SharedRow]) -> Iterator[str]:
    yield f"| {' | '.join(HEAD)} |"
    yield "|---" * len(HEAD) + "|"
    for row in sorted(rows, key=lambda row: (row.model.bytes, -row.plain_tokens_per_second)):
        yield f"| {' | '.join(cells(row))} |"


def cells(row: SharedRow) -> Iterator[str]:
    version = next((words for words in row.versions if words.startswith("localspec")), "")
    size = f" {row.model.parameters / 1e9:.1f}B" if row.model.parameters else ""
    name = plain(row.name or f"{row.model.architecture}{size}")
    yield f"{name} {plain(row.model.quantisation)}"
    busy = f"; others took {row.load_of_others:.0%}" if row.load_of_others > BUSY else ""
    machine = ", ".join(map(plain, (row.hardware.processor, *row.hardware.devices, version)))
    yield machine + busy
    yield f"{row.plain_tokens_per_second:.1f} tokens/s"
    best = max(row.modes, key=lambda name: row.modes[name].times_plain)
    mode = row.modes[best]
    yield f"{mode.times_plain:.2f} ({mode.low:.2f} to {mode.high:.2f}), {plain(best)}"
    yield ", ".join(by_kind(name, kind, best) for name, kind in row.kinds.items())
    yield f"{row.first_token_seconds:.2f} s" if row.first_token_seconds else ""
    yield f"{row.memory_bytes / 1e9:.1f} GB"
    equal = f"{row.prove.equal_texts} of {row.prove.texts} texts"
    yield equal if row.prove.proven else f"not proven: {equal}"


def by_kind(name: str, kind: Kind, mode: str) -> str:
    times = kind.times_plain.get(mode)
    return f"{plain(name)} {times:.2f}" if times else plain(name)


def plain(text: str) -> str:
    """Leave nothing in a text that a page would take for more than text."""
    return " ".join(MARKS.sub(" ", text).split())


if __name__ == "__main__":
    main()
