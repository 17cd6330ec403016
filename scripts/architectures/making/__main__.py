"""Make the models of an order that comes as JSON, each in a process of its own."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch
import transformers

from architectures.making import conversion, folder
from architectures.recipes import all_recipes


@dataclass(frozen=True, slots=True)
class Order:
    """An order: what to make, and where."""

    name: str
    width: int
    folder: Path
    source: Path  # of llama.cpp
    files: tuple[Path, ...]  # GGUF of 16 bits


def main() -> int:
    if sys.platform != "win32":
        multiprocessing.set_start_method("fork")  # importing torch anew takes ten seconds
    torch.set_num_threads(1)  # also so that processes may be forked from this one
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for line in sys.stdin:
        fields = json.loads(line)
        files = tuple(map(Path, fields["files"]))
        order = Order(
            fields["name"], fields["width"], Path(fields["folder"]), Path(fields["source"]), files
        )
        print(json.dumps({"name": order.name, "fault": fill(order)}), flush=True)
    return 0


def fill(order: Order) -> str:
    """Make what is missing of one model; return the fault, if any."""
    steps = [] if (order.folder / "config.json").exists() else [order.folder]
    for step in (*steps, *order.files):
        if fault := apart(order, step):
            return fault
    return ""


def apart(order: Order, step: Path) -> str:
    """Make a folder or a file in a process of its own."""
    heard, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=attempt, args=(sender, order, step))
    process.start()
    sender.close()
    try:
        fault: str = heard.recv()
    except EOFError:
        process.join()
        fault = f"the process ended with {process.exitcode}"
    process.join()
    if fault and step == order.folder:
        (step / "config.json").unlink(missing_ok=True)
    return fault


def attempt(sender: Connection, order: Order, step: Path) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # answers go there
    recipe = all_recipes(order.width)[order.name]
    fault = ""
    try:
        if step == order.folder:
            folder.make(order.name, recipe, order.width, step)
        else:
            conversion.convert(order.source, recipe, order.folder, step)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        fault = f"{type(error).__name__}: {str(error)[-300:]}"
    sender.send(fault)


if __name__ == "__main__":
    sys.exit(main())
