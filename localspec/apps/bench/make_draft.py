"""The command `localspec make-draft`: a trained head, or some of a model's own layers."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from localspec.apps.bench import measure, modes
from localspec.apps.bench.measure import Question
from localspec.apps.bench.prompts import Prompt
from localspec.apps.bench.skipping import (
    DEEPEST,
    LayerChoice,
    Text,
    forward_seconds,
    likeliest_tokens,
    search,
)
from localspec.apps.training.texts import read_texts
from localspec.base.errors import UsageError
from localspec.base.model_files import bare_name
from localspec.base.tokens import Tokens
from localspec.console.options.declare import EXISTING, FOLDER, flag, option, options, read
from localspec.console.options.declare import TEXT as WORDS
from localspec.console.options.duration import seconds_in
from localspec.console.options.loading import EngineOptions
from localspec.console.options.model_names import MODEL
from localspec.console.options.new_file import require_new
from localspec.core.proposers.registry import DRAFT
from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import Footprint, Options
from localspec.interfaces.backend_spec import files_of
from localspec.running.memory.machine import size
from localspec.running.models import trial
from localspec.running.models.locate import ModelFiles, locate
from localspec.running.runtime.loading import Loading
from localspec.running.runtime.pair_files import PairFiles

NEW: click.Path[Path] = click.Path(path_type=Path)
RANGE = re.compile(r"(\d+)(?:-(\d+))?")
READ = 256  # tokens of a text by which candidates are judged
PROMPT, REPLY, REPLIES = 64, 48, 4  # tokens, and how many continuations are timed


@dataclass(frozen=True, slots=True)
class MakeDraftOptions:
    skip_layers: str = option(
        WORDS,
        "Layers to leave out, counted from 0, instead of a search.",
        "A-B,C,...",
        default="",
    )
    text: Path | None = option(
        EXISTING, "Text, or a folder of them, like those that the model is to write."
    )
    out: Path | None = option(
        NEW, "File or folder to write.", otherwise="one here, named by its layers"
    )
    seconds: float = option(click.FloatRange(1), "Seconds to search.", default=300.0)
    train: bool = flag(
        "Train a drafting head on what the model writes here, and on --text; keep it if it pays."
    )
    from_: Path | None = option(
        FOLDER,
        "Published EAGLE-3 head that the training begins with: a folder of safetensors.",
        "FOLDER",
        otherwise="a head of no training",
    )
    budget: str = option(WORDS, "Time to train, e.g. 30min.", "TIME", default="2h")
    to: str = option(
        WORDS,
        "Format of the trained head: gguf or mlx.",
        default="",
        otherwise="that of the model",
    )


@click.command("make-draft", params=options(EngineOptions, MakeDraftOptions))
@click.argument("model", metavar="NAME_OR_PATH", type=MODEL)
@click.pass_context
def make_draft(context: click.Context, model: str) -> None:
    """Train a head that drafts for a model, or use its layers (MLX).

    With --train, a head learns from the model for as long as --budget allows, at low priority, and
    waits while a server on this machine answers. Then `bench` decides whether it is kept. The
    same command goes on with a training that was stopped.

    Without it, layers of an MLX model are left out: given, or chosen for the most tokens per second
    on a text. The draft model takes memory for the layers that it keeps, the embedding, keys and
    values. The first layers take none: they draft inside the model.
    """
    draft_options = read(context, MakeDraftOptions)
    if not draft_options.train:
        require_default(context, "budget", "to", "from")
        if draft_options.out:
            require_new(draft_options.out)
    files = locate(model, read(context, EngineOptions).backend)
    if not draft_options.train:
        thin_of(files)
    footprint = trial.footprint(str(files.path), files.engine.name)
    if draft_options.train:
        train(files, footprint, draft_options)
        return
    require_alike(footprint)
    text = "\n\n".join(read_texts(draft_options.text)) if draft_options.text else ""
    if draft_options.skip_layers:
        layers, depth = remaining_layers(draft_options.skip_layers, footprint.layers), modes.DEPTH
    elif text:
        best = search_layers(files, footprint, text, draft_options.seconds)
        layers, depth = best.layers, best.depth
    else:
        raise UsageError("choose layers: --skip-layers 8-15, or --text FILE to choose them by")
    out = draft_options.out or Path(default_name(files.path, len(layers), footprint.layers))
    thin(files, layers, out)
    click.echo(f"{out}: {len(layers)} of {footprint.layers} layers, {size(bytes_of(out))}")
    if text:
        click.echo(verdict(measure_gain(files, out, text, depth), depth))
    click.echo(f"to use it: --draft {out}")


def train(files: ModelFiles, footprint: Footprint, draft_options: MakeDraftOptions) -> None:
    """Train a head in place of leaving out layers."""
    from localspec.apps.bench import train_draft  # only here: it needs what few have installed

    if draft_options.skip_layers:
        raise UsageError("--train trains a head: omit --skip-layers")
    train_draft.require_undrafted(files, footprint)
    train_draft.train_draft(
        train_draft.TrainingRequest(
            files,
            seconds_in(draft_options.budget),
            draft_options.text,
            draft_options.to,
            draft_options.out,
            draft_options.from_,
        )
    )


def thin_of(files: ModelFiles) -> Callable[[Path, Sequence[int], Path], None]:
    """Return what writes a model of some of another's layers; refuse an engine without it."""
    heads = files.engine.spec.heads
    if heads and heads.thin:
        return heads.thin
    raise UsageError(
        f"{files.engine} does not draft with some of a model's own layers: "
        "train a head with --train, or run with a smaller model of its family as --draft"
    )


def require_alike(footprint: Footprint) -> None:
    """Refuse a model whose layers know their kind by their place."""
    kinds = (footprint.attention_layers, footprint.window_layers, footprint.recurrent_layers)
    if sum(map(bool, kinds)) > 1:
        raise UsageError(
            f"{footprint.name} has layers of several kinds, which their place decides: "
            "layers of such a model cannot be left out"
        )
    if footprint.drafting_layers or footprint.drafter:
        raise UsageError(f"{footprint.name} has a drafting head, which drafts better")


def remaining_layers(ranges: str, total: int) -> tuple[int, ...]:
    """List the layers that stay when those of a text, e.g. 8-15,20, are left out."""
    skipped: set[int] = set()
    for part in ranges.split(","):
        match = RANGE.fullmatch(part.strip())
        if not match:
            raise UsageError(f"--skip-layers is {ranges!r}; write numbers and ranges, e.g. 8-15,20")
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < total:
            raise UsageError(f"layers {part} are not among 0 to {total - 1}")
        skipped.update(range(first, last + 1))
    if len(skipped) == total:
        raise UsageError(f"all {total} layers would be left out")
    return tuple(sorted(set(range(total)) - skipped))


def default_name(path: Path, count: int, total: int) -> str:
    return f"{bare_name(path)}-{count}of{total}-layers{path.suffix if path.is_file() else ''}"


def bytes_of(path: Path) -> int:
    return sum(file.stat().st_size for file in files_of(path))


def thin(files: ModelFiles, layers: Sequence[int], out: Path) -> None:
    require_new(out)
    thin_of(files)(files.path, layers, out)


def require_default(context: click.Context, *names: str) -> None:
    """Refuse options that only --train uses."""
    for name in names:
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            raise UsageError(f"--{name} is for --train: add that, or omit --{name}")


def search_layers(
    files: ModelFiles, footprint: Footprint, text: str, seconds: float
) -> LayerChoice:
    """Search for the layers whose drafts promise most."""
    end, engine = time.monotonic() + seconds, files.engine.backend()
    read = read_text(files, text)
    best: LayerChoice | None = None
    with tempfile.TemporaryDirectory() as folder:

        def judge(layers: Sequence[int]) -> LayerChoice:
            place = Path(folder) / f"candidate{files.path.suffix if files.path.is_file() else ''}"
            thin(files, layers, place)
            try:
                cost = bytes_of(place) / bytes_of(files.path)
                with closing(engine.load(place, options_for(read.tokens))) as draft:
                    return read.judge(layers, draft, cost)
            finally:
                shutil.rmtree(place) if place.is_dir() else place.unlink()

        click.echo("layers  agreement  cost of a token  best draft  promised")
        for candidate in search(footprint.layers, judge, lambda: time.monotonic() > end):
            click.echo(
                f"{len(candidate.layers):6}{candidate.agreement:11.0%}{candidate.cost:17.2f}"
                f"{candidate.depth:12}{candidate.speedup:10.2f}"
            )
            best = max(best or candidate, candidate, key=lambda choice: choice.speedup)
    if best is None:
        raise UsageError("there was no time to try anything: give more --seconds")
    return best


def read_text(files: ModelFiles, text: str) -> Text:
    """Read a text with the target, and time its forwards."""
    with trial.vocabulary(files) as tokenizer:
        tokens = tokenizer.encode(text)[:READ]
    if len(tokens) < PROMPT:
        raise UsageError(f"the text has {len(tokens)} tokens; at least {PROMPT} are needed")
    with closing(files.engine.backend().load(files.path, options_for(tokens))) as model:
        likeliest = likeliest_tokens(model, tokens)
        widths = range(1, DEEPEST + 2)
        seconds = {width: forward_seconds(model, tokens, width) for width in widths}
    return Text(tokens, likeliest, seconds)


def options_for(tokens: Tokens) -> Options:
    return Options(context=len(tokens) + DEEPEST + 2, batch=128, tentative=63)


def measure_gain(files: ModelFiles, out: Path, text: str, depth: int) -> float:
    """Time continuations of a text, plain and with drafts; return how many times as fast."""
    pair = PairFiles.locate(files.path, out, files.engine.name)
    drafting = f"{trial.footprint(out, files.engine.name).drafter or DRAFT}:{depth}"
    seconds = dict.fromkeys((modes.PLAIN, drafting, modes.AGAIN), 0.0)
    with modes.load(pair, Loading(backend=files.engine.name), [drafting]) as (lineup, _):
        tokens = lineup.target.tokenizer.encode(text)
        step = max((len(tokens) - PROMPT) // REPLIES, 1)
        settings = Settings(max_tokens=REPLY, ignore_end=True)
        for at in range(0, max(len(tokens) - PROMPT, 1), step)[:REPLIES]:
            question = Question(Prompt("text", ()), tokens[at : at + PROMPT], settings)
            for mode in lineup.modes:
                _, rounds = measure.ask(lineup.engine(mode), lineup.target, question)
                seconds[mode.name] += sum(one.seconds for one in rounds[1:])
    return (seconds[modes.PLAIN] + seconds[modes.AGAIN]) / 2 / seconds[drafting]


def verdict(gain: float, depth: int) -> str:
    """Report the measured gain."""
    result = f"measured on this text, {depth} tokens drafted a round: {gain:.2f} of plain decoding"
    return result if gain > 1 else f"{result}: it does not pay here, replies would be slower"
