"""Make tiny models of many architectures, and compare LocalSpec on them with their engines."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from architectures.checking import table
from architectures.checking.trial import ZooTrial
from architectures.keep import Keeping
from architectures.kinds import ALL, MLX, cell
from architectures.make import Making, torch_python
from architectures.recipes import all_recipes
from benchmarks.comparison import llama_server
from localspec_llamacpp import converting

WIDTH = 256  # k-quants need rows of 256; 64 makes files of about 250 KB


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/zoo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("make", help="make model files")
    made.add_argument("--width", type=int, default=WIDTH, help="of most models; a multiple of 32")
    made.add_argument("--torch", type=Path, help="a virtual environment; else one of its own")
    common(made)
    tried = commands.add_parser("check", help="run them in their engines and in LocalSpec")
    common(tried)
    engine(tried)
    kept = commands.add_parser("keep", help="pack files, with what llama-server says of them")
    common(kept)
    engine(kept)
    kept.add_argument("target", type=Path)
    options = parser.parse_args()
    if options.command == "keep":
        return keep(options)
    return make(options) if options.command == "make" else check(options)


def common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="names of models, with commas between")
    parser.add_argument("--types", default=",".join(ALL), help="with commas between")


def engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--llama-server", type=Path, help="a binary that is there already")


def make(options: argparse.Namespace) -> int:
    making = Making(
        options.folder.resolve(),
        names_in(options.only, list(all_recipes(options.width))),
        names_in(options.types, ALL),
        options.width,
        converting.sources(converting.installed()),
        torch_python(options.torch),
    )
    faults = making.run()  # of tools that do not know a model, as a rule
    print(f"{len(making.names)} models; {len(faults)} could not be had in a form")
    return 0


def check(options: argparse.Namespace) -> int:
    folder = options.folder.resolve()
    names = names_in(options.only, list(all_recipes(WIDTH)))
    kinds = names_in(options.types, ALL)
    cells = [cell(folder, name, kind) for name in names for kind in kinds]
    trial, verdicts = ZooTrial(folder, llama_server.find(options.llama_server)), {}
    for one in cells:
        if one.path.exists():
            verdict = trial.of(one)
            verdicts[one.name, one.kind] = verdict
            print(f"{one.name} {one.kind}: {verdict.word}", file=sys.stderr, flush=True)
    print("\n".join(table.lines(verdicts, kinds)))
    return 1 if any(verdict.fails for verdict in verdicts.values()) else 0


def keep(options: argparse.Namespace) -> int:
    """Pack the first form of each model that is there."""
    folder, kinds = options.folder.resolve(), names_in(options.types, ALL)
    names = names_in(options.only, list(all_recipes(WIDTH)))
    forms = [[cell(folder, name, kind) for kind in kinds if kind not in MLX] for name in names]
    ready_cells = [[cell for cell in form if cell.path.exists()][:1] for form in forms]
    keeper = Keeping(options.target.resolve(), llama_server.find(options.llama_server))
    left = keeper.keep([cell for form in ready_cells for cell in form])
    print(f"Left out: {', '.join(left) or 'none'}.")
    return 0


def names_in(text: str, available: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """Read names with commas between them; all if there is none."""
    names = tuple(filter(None, text.split(","))) or tuple(available)
    if unknown := sorted({*names} - {*available}):
        sys.exit(f"Unknown: {', '.join(unknown)}. Known: {', '.join(available)}.")
    return names


if __name__ == "__main__":
    sys.exit(main())
