"""The command `localspec make-draft`: a draft model of some of a model's own layers."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click

from localspec.backend import Footprint, Options
from localspec.backend_spec import files_of
from localspec.bench import measure, modes
from localspec.bench.measure import Question
from localspec.bench.prompts import Prompt
from localspec.bench.skipping import DEEPEST, Judged, Text, forward_seconds, sayings, search
from localspec.commands.options.declare import READABLE, option, options, read
from localspec.commands.options.declare import TEXT as WORDS
from localspec.commands.options.loading import EngineOptions
from localspec.engine.settings import Settings
from localspec.errors import UsageError
from localspec.memory.machine import size
from localspec.models import engines, trial
from localspec.models.locate import ModelFiles, locate
from localspec.runtime.loaded_pair import PairFiles
from localspec.runtime.loading import Loading
from localspec.tokens import Tokens

NEW: click.Path[Path] = click.Path(path_type=Path)
RANGE = re.compile(r"(\d+)(?:-(\d+))?")
READ = 256  # tokens of a text by which candidates are judged
PROMPT, REPLY, REPLIES = 64, 48, 4  # tokens, and how many continuations are timed


@dataclass(frozen=True, slots=True)
class MakeDraftOptions:
    skip_layers: str = option(
        WORDS,
        "Leave out these layers, counted from 0, and search for none.",
        "A-B,C,...",
        default="",
    )
    text: Path | None = option(
        READABLE, "Choose the layers by this text, which is like those that you write."
    )
    out: Path | None = option(
        NEW, "Write this file or folder. Without it, one here, named by its layers."
    )
    seconds: float = option(click.FloatRange(1), "Search for so long.", default=300.0)


@click.command("make-draft", params=options(EngineOptions, MakeDraftOptions))
@click.argument("model", metavar="NAME_OR_PATH")
@click.pass_context
def make_draft(context: click.Context, model: str) -> None:
    """Write a draft model of some of a model's own layers, and tell what it brings.

    The layers to leave out are given, or chosen by what promises most tokens a second on a text.
    It costs memory of its own: with llama.cpp the layers that it keeps and the embedding, and keys
    and values; on MLX keys and values, or nothing where it keeps the first layers.
    """
    wanted = read(context, MakeDraftOptions)
    files = locate(model, read(context, EngineOptions).backend)
    footprint = trial.footprint(str(files.path), files.engine)
    require_alike(footprint)
    text = wanted.text.read_text(encoding="utf-8", errors="replace") if wanted.text else ""
    if wanted.skip_layers:
        layers, depth = left(wanted.skip_layers, footprint.layers), modes.DEPTH
    elif text:
        found = chosen(files, footprint, text, wanted.seconds)
        layers, depth = found.layers, found.depth
    else:
        raise UsageError("say which layers: --skip-layers 8-15, or --text FILE to choose them by")
    out = wanted.out or Path(named(files.path, len(layers), footprint.layers))
    thin(files, layers, out)
    click.echo(f"{out}: {len(layers)} of {footprint.layers} layers, {size(bytes_of(out))}")
    if text:
        click.echo(verdict(measured(files, out, text, depth), depth))
    click.echo(f"to use it: --draft {out}")


def require_alike(footprint: Footprint) -> None:
    """Refuse a model whose layers know their kind by their place."""
    kinds = (footprint.attention_layers, footprint.window_layers, footprint.recurrent_layers)
    if sum(map(bool, kinds)) > 1:
        raise UsageError(
            f"{footprint.name} has layers of several kinds, which are told by their place: "
            "layers of such a model cannot be left out"
        )
    if footprint.drafting_layers or footprint.drafter:
        raise UsageError(f"{footprint.name} has a drafting head, which drafts better")


def left(wish: str, total: int) -> tuple[int, ...]:
    """List the layers that stay when those of a wish, as 8-15,20, are left out."""
    skipped: set[int] = set()
    for part in wish.split(","):
        match = RANGE.fullmatch(part.strip())
        if not match:
            raise UsageError(f"--skip-layers is {wish!r}; write numbers and ranges, as 8-15,20")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < total:
            raise UsageError(f"layers {part} are not among 0 to {total - 1}")
        skipped.update(range(first, last + 1))
    if len(skipped) == total:
        raise UsageError(f"all {total} layers would be left out")
    return tuple(sorted(set(range(total)) - skipped))


def named(path: Path, count: int, total: int) -> str:
    return f"{path.stem}-{count}of{total}-layers{path.suffix if path.is_file() else ''}"


def bytes_of(path: Path) -> int:
    return sum(file.stat().st_size for file in files_of(path))


def thin(files: ModelFiles, layers: Sequence[int], out: Path) -> None:
    write = engines.spec(files.engine).thin
    if write is None:
        raise UsageError(f"{files.engine} cannot leave out layers of a model")
    if out.exists():
        raise UsageError(f"{out} is there already: name another with --out")
    write(files.path, layers, out)


def chosen(files: ModelFiles, footprint: Footprint, text: str, seconds: float) -> Judged:
    """Search for the layers whose drafts promise most."""
    end, engine = time.monotonic() + seconds, engines.backend(files.engine)
    read = gathered(files, text)
    best: Judged | None = None
    with tempfile.TemporaryDirectory() as folder:

        def judge(layers: Sequence[int]) -> Judged:
            place = Path(folder) / f"candidate{files.path.suffix if files.path.is_file() else ''}"
            thin(files, layers, place)
            try:
                cost = bytes_of(place) / bytes_of(files.path)
                with closing(engine.load(place, wishes(read.tokens))) as draft:
                    return read.judge(layers, draft, cost)
            finally:
                shutil.rmtree(place) if place.is_dir() else place.unlink()

        click.echo("layers  agreement  cost of a token  best draft  promised")
        for found in search(footprint.layers, judge, lambda: time.monotonic() > end):
            click.echo(
                f"{len(found.layers):6}{found.agreement:11.0%}{found.cost:17.2f}"
                f"{found.depth:12}{found.speedup:10.2f}"
            )
            best = max(best or found, found, key=lambda each: each.speedup)
    if best is None:
        raise UsageError("there was no time to try anything: give more --seconds")
    return best


def gathered(files: ModelFiles, text: str) -> Text:
    """Read a text with the target, and time its forwards."""
    with trial.vocabulary(files) as tokenizer:
        tokens = tokenizer.encode(text)[:READ]
    if len(tokens) < PROMPT:
        raise UsageError(f"the text has {len(tokens)} tokens; at least {PROMPT} are needed")
    with closing(engines.backend(files.engine).load(files.path, wishes(tokens))) as model:
        said = sayings(model, tokens)
        widths = range(1, DEEPEST + 2)
        seconds = {width: forward_seconds(model, tokens, width) for width in widths}
    return Text(tokens, said, seconds)


def wishes(tokens: Tokens) -> Options:
    return Options(context=len(tokens) + DEEPEST + 2, batch=128, tentative=63)


def measured(files: ModelFiles, out: Path, text: str, depth: int) -> float:
    """Time continuations of a text, plain and with drafts; return how many times as fast."""
    places = PairFiles.of(files.path, out, files.engine)
    mode = f"draft-model:{depth}"
    seconds = dict.fromkeys((modes.PLAIN, mode, modes.AGAIN), 0.0)
    with modes.load(places, Loading(backend=files.engine), [mode]) as (lineup, _):
        tokens = lineup.target.tokenizer.encode(text)
        step = max((len(tokens) - PROMPT) // REPLIES, 1)
        settings = Settings(max_tokens=REPLY, ignore_end=True)
        for at in range(0, max(len(tokens) - PROMPT, 1), step)[:REPLIES]:
            question = Question(Prompt("text", ()), tokens[at : at + PROMPT], settings)
            for each in lineup.modes:
                _, rounds = measure.ask(lineup.engine(each), lineup.target, question)
                seconds[each.name] += sum(one.seconds for one in rounds[1:])
    return (seconds[modes.PLAIN] + seconds[modes.AGAIN]) / 2 / seconds[mode]


def verdict(gain: float, depth: int) -> str:
    """Tell what was measured."""
    said = f"measured on this text, {depth} tokens drafted a round: {gain:.2f} of plain decoding"
    return said if gain > 1 else f"{said}: it does not pay here, replies would be slower"
