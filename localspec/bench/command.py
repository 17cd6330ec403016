"""The command `localspec bench`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from localspec.bench import machine, modes, picture, prompts
from localspec.bench.measure import questions, replies
from localspec.bench.modes import Lineup
from localspec.bench.page import page
from localspec.bench.prompts import Prompt
from localspec.bench.reply import MeasuredReply
from localspec.bench.report import Report, as_json, report, text
from localspec.commands.options.declare import (
    COUNT,
    INTEGER,
    NUMBER,
    TEXT,
    WRITABLE,
    option,
    options,
    read,
    repeated,
)
from localspec.commands.options.loading import LoadingOptions
from localspec.commands.options.loading import loading as how_to_load
from localspec.engine.settings import Settings
from localspec.errors import UsageError
from localspec.pairing.vocabulary import Match
from localspec.runtime.loaded_pair import PairFiles, ResolvedPair
from localspec.sampling.parameters import Sampling


@dataclass(frozen=True, slots=True)
class BenchOptions:
    modes: str = option(TEXT, "Ways to decode, as plain,auto,ngram:8.", "A,B", default="")
    prompts: Path | None = option(WRITABLE, "A JSONL file with category and prompt a line.")
    category: tuple[str, ...] = repeated(TEXT, "Only this one; may be given several times.")
    limit: int | None = option(COUNT, "Most prompts of a category.")
    repeat: int = option(COUNT, "Ask everything N times.", default=1)
    max_tokens: int = option(INTEGER, "Most tokens a reply; 128.", default=128)
    temperature: float = option(NUMBER, "0, the default, is greedy.", default=0.0)
    seed: int = option(INTEGER, "Of sampled replies, the same in all modes.", default=0)
    json: Path | None = option(WRITABLE, "Write every figure and reply to this file.")
    html: Path | None = option(WRITABLE, "Write a page with drawings to this file.")
    png: Path | None = option(WRITABLE, "Write the drawings to this file.")


@click.command(params=options(BenchOptions, LoadingOptions))
@click.argument("model", metavar="NAME_OR_PATH")
@click.pass_context
def bench(context: click.Context, model: str) -> None:
    """Measure what speculation brings on this machine, prompt by prompt against plain decoding.

    Modes are plain, auto, and proposers by name, also with a depth (suffix:8).
    """
    wanted, loaded = read(context, BenchOptions), read(context, LoadingOptions)
    loading = how_to_load(loaded)
    settings = _settings(wanted)
    names = _names(wanted)
    modes.kinds(names, modes.ANY)  # fail before anything is looked for
    asked = _prompts(wanted)
    _check_files(wanted)
    places = PairFiles.of(model, loaded.draft, loading.backend)
    with modes.load(places, loading, names) as (lineup, known):
        heading = [*_heading(known, lineup.pairing), ("asked", _asked(wanted, len(asked)))]
        found, finished = _measured(wanted.repeat, lineup, asked, settings)
    _publish(wanted, report(heading, [mode.name for mode in lineup.modes], found))
    if not finished:
        raise click.Abort


def _names(wanted: BenchOptions) -> list[str]:
    return [name.strip() for name in wanted.modes.split(",") if name.strip()]


def _prompts(wanted: BenchOptions) -> list[Prompt]:
    known = prompts.read(wanted.prompts) if wanted.prompts else prompts.built_in()
    return prompts.choose(known, wanted.category, wanted.limit)


def _settings(wanted: BenchOptions) -> Settings:
    sampling = Sampling(temperature=wanted.temperature)
    return Settings(max_tokens=wanted.max_tokens, sampling=sampling, seed=wanted.seed)


def _check_files(wanted: BenchOptions) -> None:
    """Refuse files that cannot be written before minutes are spent."""
    for name, path in (("json", wanted.json), ("html", wanted.html), ("png", wanted.png)):
        if path is None:
            continue
        there = path.exists()
        try:
            path.open("ab").close()
        except OSError as error:
            raise UsageError(f"--{name} cannot be written: {error}") from error
        if not there:
            path.unlink()
    if wanted.png:
        picture.require()


def _measured(
    repeat: int, lineup: Lineup, asked: Sequence[Prompt], settings: Settings
) -> tuple[list[MeasuredReply], bool]:
    """Measure all replies, or those before an interruption; tell whether these are all."""
    found: list[MeasuredReply] = []
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


def _heading(known: ResolvedPair, pairing: Match | None) -> list[tuple[str, str]]:
    target, draft = known.target, known.draft
    lines = [
        ("command", machine.command("localspec")),
        ("revision", machine.revision()),
        ("versions", machine.versions()),
        ("machine", machine.machine(target.engine.devices)),
        ("model", machine.weights(target.footprint)),
        ("path", str(target.files.path)),
    ]
    if draft is not None:
        share = f"; can draft {pairing.share:.0%} of the tokens" if pairing else ""
        lines.append(("draft", machine.weights(draft.footprint) + share))
    return lines


def _asked(wanted: BenchOptions, asked: int) -> str:
    sampled = f"temperature {wanted.temperature:g}, seed {wanted.seed}"
    how = sampled if wanted.temperature else "greedy"
    often = f"prompts: {asked}, repeats: {wanted.repeat}"
    return f"{often}, at most {wanted.max_tokens} tokens each, {how}"


def _publish(wanted: BenchOptions, report: Report) -> None:
    click.echo(text(report))
    if wanted.json:
        wanted.json.write_text(as_json(report), encoding="utf-8")
    if wanted.html:
        wanted.html.write_text(page(report), encoding="utf-8")
    if wanted.png:
        picture.draw(report, wanted.png)
