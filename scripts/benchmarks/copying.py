"""How fast replies come that copy, by the length of drafts, beside the speed of reading a prompt.

`scripts/bench copying MODEL [--depths 4,16,64] [--tasks class,part] [--seconds N]`: a class of 25
methods renamed, and one whose reply ends long before its prediction does. All replies are
predicted; each mode answers in turn, by `localspec bench`. Of 100 methods a model of 1.5 billion
weights makes mistakes; longer copies are dictated: `scripts/bench gpu MODEL --parts copying`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import heading
from localspec.bench.modes import PLAIN
from localspec.bench.reply import MeasuredReply
from localspec.bench.verdict import AUTO

DEPTHS = "4,16,64,256,512"
METHODS, PART = 25, 6
STOCK = ("add", "count", "drop", "find", "hold", "lend", "list", "move", "name", "pack", "plan")
FIELDS = ("boxes", "crates", "pallets", "orders", "labels", "drivers", "routes")


class Task(NamedTuple):
    name: str
    prompt: str
    prediction: str


def main() -> bool:
    """Print a table for each task; False if a depth left open is below plain decoding."""
    options = arguments(sys.argv[2:])
    print(heading(), "\n")
    print("| task | mode | tokens/s | of plain | tokens | rounds | drafted | accepted |")
    print("|---|---|---|---|---|---|---|---|")
    gains = []
    for task in tasks():
        if task.name in options.tasks.split(","):
            replies = {reply.mode: reply for reply in measured(task, options)}
            print(*rows(replies), sep="\n", flush=True)
            gains.append(rate(replies[AUTO]) / rate(replies[PLAIN]))
    return min(gains) > 1


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench copying", description=__doc__)
    parser.add_argument("model", help="a name or a file")
    parser.add_argument("--depths", default=DEPTHS, help="draft lengths (default: %(default)s)")
    parser.add_argument("--tasks", default="class,part", help="(default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=600, help="of each task")
    parser.add_argument("--tokens", type=int, default=3000, help="of a reply")
    return parser.parse_args(words)


def tasks() -> Iterator[Task]:
    """Make the tasks; their replies are known, so that a prediction says them."""
    for name, methods in (("class", METHODS), ("part", PART)):
        ask = "Rename the class to `Depot` and the method `add_boxes` to `put_boxes`."
        prompt = f"{block(source(methods))}\n\n{ask} Reply with the whole class."
        renamed = source(METHODS).replace("Store", "Depot").replace("add_boxes", "put_boxes")
        yield Task(name, prompt, block(renamed))


def source(methods: int) -> str:
    """Write a class of methods that differ."""
    bodies = [method(STOCK[at % len(STOCK)], field(at), at) for at in range(methods)]
    return "\n".join(["class Store:", '    """Goods by their kind."""', *bodies]) + "\n"


def method(verb: str, field: str, at: int) -> str:
    return f"\n    def {verb}_{field}(self, number):\n        return self.{field}[number + {at}]"


def field(at: int) -> str:
    return FIELDS[at % len(FIELDS)]


def block(code: str) -> str:
    return f"```\n{code}```"


def measured(task: Task, options: argparse.Namespace) -> Sequence[MeasuredReply]:
    """Ask in all modes; return the replies."""
    modes = ",".join([AUTO, *(f"prediction:{depth}" for depth in options.depths.split(","))])
    with tempfile.TemporaryDirectory() as folder:
        prompts, figures = Path(folder) / "prompts.jsonl", Path(folder) / "figures.json"
        line = {"category": task.name, "prompt": task.prompt, "prediction": task.prediction}
        prompts.write_text(json.dumps(line) + "\n", encoding="utf-8")
        words = ["--prompts", prompts, "--modes", modes, "--json", figures]
        words += ["--seconds", options.seconds, "--max-tokens", options.tokens]
        command = [sys.executable, "-m", "localspec", "bench", options.model, *map(str, words)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        records = json.loads(figures.read_text(encoding="utf-8"))["replies"]
        return [MeasuredReply.of_record(record) for record in records]


def rows(replies: Mapping[str, MeasuredReply]) -> Iterator[str]:
    plain = replies[PLAIN]
    for mode, reply in replies.items():
        drafted = sum(round_.drafted for round_ in reply.decoding)
        accepted = sum(round_.accepted for round_ in reply.decoding)
        gain = rate(reply) / rate(plain)
        yield (
            f"| {reply.prompt.category} | {mode} | {rate(reply):.1f} | {gain:.2f}"
            f" | {len(reply.tokens)} | {len(reply.rounds)} | {drafted} | {accepted} |"
        )
    read = (plain.prompt_tokens - plain.cached_tokens) / plain.first_token
    yield f"| {plain.prompt.category} | reading | {read:.1f} | {read / rate(plain):.2f} | | | | |"


def rate(reply: MeasuredReply) -> float:
    return reply.tokens_per_second or 0.0
