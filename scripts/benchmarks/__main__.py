"""Run one benchmark by name."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> int:
    names = sorted(
        path.stem
        for path in Path(__file__).parent.glob("*.py")
        if path.stem not in ("__init__", "__main__", "machine")
    )
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        print(f"usage: scripts/bench {' | '.join(names)}", file=sys.stderr)
        return 2
    return 0 if importlib.import_module(f"benchmarks.{sys.argv[1]}").main() else 1


if __name__ == "__main__":
    sys.exit(main())
