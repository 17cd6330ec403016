"""The table of models in docs/models.md; write it by `python -m catalogue.table` in scripts/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from localspec.models.catalogue import entries
from localspec.models.entry import Entry, Offer

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
    yield "| name | what | GGUF | MLX | drafter |"
    yield "|---|---|---|---|---|"
    for entry in entries.values():
        gguf, mlx = entry.offers.get("gguf"), entry.offers.get("mlx")
        drafter = next(offer.drafter for offer in (gguf, mlx) if offer)
        cells = [f"`{entry.name}`", entry.about, weights(gguf), weights(mlx), drafter]
        yield f"| {' | '.join(cells)} |"


def weights(offer: Offer | None) -> str:
    if offer is None:
        return ""
    sizes = ((name, weights.bytes / 1e9) for name, weights in offer.weights.items())
    return ", ".join(f"{name} {size:.1f} GB" for name, size in sizes)


if __name__ == "__main__":
    main()
