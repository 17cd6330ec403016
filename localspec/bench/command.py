"""The command `localspec bench`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from localspec.backend import Footprint
from localspec.bench import machine, modes, picture, prompts
from localspec.bench.measure import questions, replies
from localspec.bench.modes import Kind, Lineup
from localspec.bench.page import page
from localspec.bench.prompts import Prompt
from localspec.bench.reply import Reply
from localspec.bench.report import Report, as_json, report, text
from localspec.commands import flags
from localspec.engine.settings import Settings
from localspec.errors import UsageError
from localspec.models.engines import backend, inspect
from localspec.models.locate import locate
from localspec.models.sources import place
from localspec.runtime.loaded_pair import PairFiles
from localspec.runtime.loading import Loading
from localspec.sampling.parameters import Sampling

FILE = click.Path(dir_okay=False, path_type=Path)
OPTIONS = (
    click.Option(["--modes"], metavar="A,B", help="Ways to decode, as plain,auto,ngram:8."),
    click.Option(["--prompts"], type=FILE, help="A JSONL file with category and prompt a line."),
    click.Option(["--category"], multiple=True, help="Only this one; may be given several times."),
    click.Option(["--limit"], type=click.IntRange(1), help="Most prompts of a category."),
    click.Option(["--repeat"], type=click.IntRange(1), default=1, help="Ask everything N times."),
    click.Option(["--max-tokens"], type=int, default=128, help="Most tokens a reply; 128."),
    click.Option(["--temperature"], type=float, default=0.0, help="0, the default, is greedy."),
    click.Option(
        ["--seed"], type=int, default=0, help="Of sampled replies, the same in all modes."
    ),
    click.Option(["--json"], type=FILE, help="Write every figure and reply to this file."),
    click.Option(["--html"], type=FILE, help="Write a page with drawings to this file."),
    click.Option(["--png"], type=FILE, help="Write the drawings to this file."),
)
for _option in OPTIONS:
    _option.expose_value = False
    _option.callback = lambda context, option, value: context.meta.update({option.name: value})

# Who guesses, and how far, is said by the modes.
LOADING = tuple(option for option in flags.LOADING if option.name not in ("proposer", "depth"))


@click.command(params=[*OPTIONS, *LOADING])
@click.argument("model", metavar="NAME_OR_PATH")
@click.pass_context
def bench(context: click.Context, model: str) -> None:
    """Measure what speculation brings on this machine, prompt by prompt against plain decoding.

    Modes are plain, auto, and proposers by name, also with a depth (suffix:8).
    """
    settings, loading = _settings(context), _loading(context)
    _, asked = _kinds(context, draft=True), _prompts(context)  # fail before anything is looked for
    _check_files(context)
    places = PairFiles.of(model, flags.draft(context), loading.backend)
    kinds = _kinds(context, draft=places.draft is not None)
    footprint = inspect(model, loading.backend)
    with modes.load(model, places, loading, kinds) as lineup:
        heading = _heading(context, model, footprint, lineup, len(asked))
        found, finished = _measured(context, lineup, asked, settings)
    names = [mode.name for mode in lineup.modes]
    _publish(context, report(heading, names, found))
    if not finished:
        raise click.Abort


def _kinds(context: click.Context, *, draft: bool) -> tuple[Kind, ...]:
    names = [name.strip() for name in (context.meta["modes"] or "").split(",") if name.strip()]
    return modes.kinds(names, draft=draft)


def _prompts(context: click.Context) -> list[Prompt]:
    wish = context.meta
    known = prompts.read(wish["prompts"]) if wish["prompts"] else prompts.built_in()
    return prompts.choose(known, wish["category"], wish["limit"])


def _settings(context: click.Context) -> Settings:
    wish = context.meta
    sampling = Sampling(temperature=wish["temperature"])
    return Settings(max_tokens=wish["max_tokens"], sampling=sampling, seed=wish["seed"])


def _loading(context: click.Context) -> Loading:
    context.meta.update(proposer="auto", depth=None)
    return flags.loading(context)


def _check_files(context: click.Context) -> None:
    """Refuse what cannot be written before minutes are spent on it."""
    for name in ("json", "html", "png"):
        path: Path | None = context.meta[name]
        if path is None:
            continue
        there = path.exists()
        try:
            path.open("ab").close()
        except OSError as error:
            raise UsageError(f"--{name} cannot be written: {error}") from error
        if not there:
            path.unlink()
    if context.meta["png"]:
        picture.require()


def _measured(
    context: click.Context, lineup: Lineup, asked: Sequence[Prompt], settings: Settings
) -> tuple[list[Reply], bool]:
    """All replies, or those there are when it is interrupted; and whether these are all."""
    found: list[Reply] = []
    repeat = context.meta["repeat"]
    todo = questions(lineup.target, asked, settings)
    length = len(todo) * len(lineup.modes) * repeat
    try:
        answers, hidden = replies(lineup, todo, repeat), not sys.stderr.isatty()
        with click.progressbar(answers, length, "asking", hidden, file=sys.stderr) as bar:
            found.extend(bar)  # keeps those that came before an interruption
    except KeyboardInterrupt:
        click.echo("interrupted: the figures are of what was answered", err=True)
        return found, False
    return found, True


def _heading(
    context: click.Context, model: str, footprint: Footprint, lineup: Lineup, asked: int
) -> list[tuple[str, str]]:
    wish = context.meta
    lines = [
        ("command", machine.command("localspec")),
        ("revision", machine.revision()),
        ("versions", machine.versions()),
        ("machine", machine.machine(backend(locate(model, wish["backend"]).engine).probe())),
        ("model", machine.weights(footprint)),
        ("path", str(footprint.path)),
    ]
    if wish["draft"] is not None:
        by_path = place(wish["draft"]).exists()  # which may be for the other engine
        draft = machine.weights(inspect(wish["draft"], "auto" if by_path else wish["backend"]))
        share = f"; can guess {lineup.pairing.share:.0%} of the tokens" if lineup.pairing else ""
        lines.append(("draft", draft + share))
    sampled = f"temperature {wish['temperature']:g}, seed {wish['seed']}"
    how = sampled if wish["temperature"] else "greedy"
    often = f"prompts: {asked}, repeats: {wish['repeat']}"
    return [*lines, ("asked", f"{often}, at most {wish['max_tokens']} tokens each, {how}")]


def _publish(context: click.Context, found: Report) -> None:
    wish = context.meta
    click.echo(text(found))
    if wish["json"]:
        wish["json"].write_text(as_json(found), encoding="utf-8")
    if wish["html"]:
        wish["html"].write_text(page(found), encoding="utf-8")
    if wish["png"]:
        picture.draw(found, wish["png"])
