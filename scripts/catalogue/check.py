"""Resolve every entry on the hub; write revision, size and sums into the catalogue."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from localspec import hub
from localspec.catalog import builtin, entries
from localspec.entry import Engine, Entry, Weights
from localspec.errors import LocalSpecError
from localspec.order import Part, chosen
from localspec.schema import read
from localspec.sources import Hub


def main() -> int:
    """0 if every entry, or every one that was named, could be resolved."""
    names, failed = sys.argv[1:], 0
    text = builtin().read_text(encoding="utf-8")
    for entry in entries().values():
        if names and entry.name not in names:
            continue
        whole = True
        for engine, name, weights, where in on_hub(entry):
            try:
                part = chosen(where, hub.listing(where), engine, name)
            except LocalSpecError as error:
                failed, whole = failed + 1, False
                print(f"{entry.name} {name}: {error}")
                continue
            text = written(text, name, weights, part)
            print(f"{entry.name} {name}: {len(part.files)} files, {part.bytes:,} bytes")
        if whole:
            text = checked(text, entry.name)
    builtin().write_text(text, encoding="utf-8")
    read(builtin())
    print(f"{failed} could not be resolved")
    return 1 if failed else 0


def on_hub(entry: Entry) -> Iterator[tuple[Engine, str, Weights, Hub]]:
    for engine, offer in entry.offers.items():
        for name, weights in offer.weights.items():
            if isinstance(weights.source, Hub):
                yield engine, name, weights, weights.source


def written(text: str, name: str, weights: Weights, part: Part) -> str:
    """The catalogue with a line that tells what was found."""
    line = re.compile(
        rf'^{re.escape(name)} = \{{ from = "{re.escape(str(weights.source))}".*$', re.M
    )
    sums = ", ".join(f'"{file.sum}"' for file in part.files if file.large)
    size = f"{part.bytes / 1e9:.2f}GB"
    new = f'{name} = {{ from = "{part.source}", size = "{size}", sha256 = [{sums}] }}'
    return line.sub(lambda _: new, text)


def checked(text: str, name: str) -> str:
    quoted = rf"\[\"?{re.escape(name)}\"?\]"
    return re.sub(rf"({quoted}\n(?:(?!\n\[).)*?checked = )false", r"\1true", text, flags=re.S)


if __name__ == "__main__":
    sys.exit(main())
