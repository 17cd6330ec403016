"""mlx-lm's own conversion of a folder, in a process of its own: SOURCE FOLDER FORM."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from mlx_lm.convert import convert

Chosen = bool | dict[str, int | str]
BITS = {"MLX-8": 8, "MLX-4": 4}
MIXED = "mixed_4_6"  # mlx-lm's name for 4 bits, and 6 where it matters


def main() -> int:
    source, folder, kind = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    if kind == "MLX":
        convert(str(source), str(folder))
    elif kind == "MLX-MIXED":
        convert(str(source), str(folder), quantize=True, quant_predicate=MIXED)
    elif kind == "MLX-LAYERS":
        convert(str(source), str(folder), quantize=True, quant_predicate=by_layer())
    else:
        convert(str(source), str(folder), quantize=True, q_bits=BITS[kind])
    return 0


def by_layer() -> Callable[[str, object], Chosen]:
    """Choose bits, groups or none by the number of the layer, as people mix them by hand."""
    ways: tuple[Chosen, ...] = (
        {"bits": 8, "group_size": 32, "mode": "affine"},
        {"bits": 4, "group_size": 64, "mode": "affine"},
        False,
        {"bits": 5, "group_size": 64, "mode": "affine"},
    )

    def predicate(path: str, _: object) -> Chosen:
        numbers = [int(part) for part in path.split(".") if part.isdigit()]
        return ways[numbers[0] % len(ways)] if numbers else ways[0]

    return predicate


if __name__ == "__main__":
    sys.exit(main())
