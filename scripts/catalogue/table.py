"""The table of models in docs/models.md; write it by `python -m catalogue.table` in scripts/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from localspec.running.models.catalogue import entries
from localspec.running.models.entry import Entry, Offer

SMALL = 50_000_000  # bytes, below which tenths of a GB say nothing
PAGE = Path(__file__).parents[2] / "docs" / "models.md"
BEGIN, END = "<!-- models: written by scripts/catalogue/table.py -->\n", "<!-- end of models -->\n"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(replaced(text), encoding="utf-8")


def replaced(text: str) -> str:
    """Return the page with the table as it should be."""
    before, _, behind = text.partition(BEGIN)
    _, _, after = behind.partition(END)
    return before + BEGIN + table() + END + after


def table() -> str:
    return "".join(f"{line}\n" for line in lines(entries()))


def lines(entries: dict[str, Entry]) -> Iterator[str]:
    yield "| name | what | GGUF | MLX | drafter | projector |"
    yield "|---|---|---|---|---|---|"
    for entry in entries.values():
        gguf, mlx = entry.offers.get("gguf"), entry.offers.get("mlx")
        drafter = next(offer.drafter for offer in (gguf, mlx) if offer)
        projector = size(gguf.projector_bytes) if gguf and gguf.projector else ""
        cells = [f"`{entry.name}`", entry.about, weights(gguf), weights(mlx), drafter, projector]
        yield f"| {' | '.join(cells)} |"


def weights(offer: Offer | None) -> str:
    if offer is None:
        return ""
    return ", ".join(f"{name} {size(listed.bytes)}" for name, listed in offer.weights.items())


def size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= SMALL else f"{count / 1e6:.0f} MB"


if __name__ == "__main__":
    main()
