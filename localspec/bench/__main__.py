"""`scripts/bench NAME`: run one benchmark."""

from __future__ import annotations

import sys
from collections.abc import Callable

from localspec.bench import overhead, plain

BENCHMARKS: dict[str, Callable[[], bool]] = {"overhead": overhead.main, "plain": plain.main}


def main() -> int:
    names = sys.argv[1:]
    if len(names) != 1 or names[0] not in BENCHMARKS:
        print(f"usage: scripts/bench {' | '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    return 0 if BENCHMARKS[names[0]]() else 1


if __name__ == "__main__":
    sys.exit(main())
