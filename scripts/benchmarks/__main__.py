"""Run one benchmark by its name, which `scripts/bench` has checked."""

import importlib
import sys

if __name__ == "__main__":
    sys.exit(0 if importlib.import_module(f"benchmarks.{sys.argv[1]}").main() else 1)
