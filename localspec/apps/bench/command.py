"""The command `localspec bench`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import click

from localspec.apps.bench import drafters, earlier_run, modes, prompts, share
from localspec.apps.bench.against import compare
from localspec.apps.bench.earlier_run import BenchRun
from localspec.apps.bench.measure import questions
from localspec.apps.bench.prompts import Prompt
from localspec.apps.bench.report import Report, as_json, report, text
from localspec.apps.bench.setup import describe_drafter, setup_of, sums
from localspec.apps.bench.timed_run import run
from localspec.apps.bench.verdict import AUTO
from localspec.base.errors import LocalSpecError, UsageError
from localspec.base.system import processors
from localspec.base.system.processors import ProcessorTimes
from localspec.console.options.declare import (
    COUNT,
    INTEGER,
    NUMBER,
    READABLE,
    SECONDS,
    TEXT,
    WRITABLE,
    arguments,
    flag,
    option,
    options,
    read,
    repeated,
)
from localspec.console.options.loading import LoadingOptions, make_loading
from localspec.console.options.model_names import MODEL
from localspec.console.options.sections import SectionedCommand
from localspec.console.progress.loading_line import LoadingLine
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.running.runtime.drafter_choice import remember_fastest
from localspec.running.runtime.loading_options import Loading
from localspec.running.runtime.pair_files import PairFiles

ANSWERING = 150.0  # seconds: with loading, and what a slow machine adds, some three minutes
LOAD_SECONDS = 1.0  # of looking at other programs before
PROMPTS_OF_A_CATEGORY = 2


@dataclass(frozen=True, slots=True)
class BenchOptions:
    draft: tuple[str, ...] = repeated(
        TEXT,
        "Smaller model, or drafting head, that drafts; none: without. Several are compared, and "
        "the fastest drafts from then on where none is named.",
        "NAME_OR_PATH",
    )
    details: bool = flag("More modes; drafts, costs and forecasts, too.")
    seconds: float = option(
        SECONDS, "Seconds for the answers, once the model is loaded.", "N", default=ANSWERING
    )
    modes: str = option(
        TEXT,
        "Modes to measure, e.g. auto,lookup,ngram:8.",
        "A,B",
        default="",
        otherwise="those that suit the model",
    )
    prompts: Path | None = option(
        WRITABLE,
        "JSONL file; each line has a category and a prompt, or is a request of a batch.",
        otherwise="built-in prompts",
    )
    category: tuple[str, ...] = repeated(TEXT, "Category of the prompts to ask. May repeat.")
    limit: int | None = option(COUNT, "Prompts per category.", "N", otherwise="2, of a file all")
    repeat: int = option(COUNT, "Number of times that each prompt is asked.", "N", default=1)
    max_tokens: int | None = option(
        INTEGER, "Maximum tokens per reply.", "N", otherwise="32 to 128, by speed"
    )
    temperature: float = option(NUMBER, "Sampling temperature; 0: greedy.", default=0.0)
    seed: int = option(INTEGER, "Seed of sampled replies, the same in all modes.", default=0)
    json: Path | None = option(WRITABLE, "File for all figures and replies.")
    against: Path | None = option(
        READABLE, "File of an earlier --json to compare with; a fall beyond the noise exits with 1."
    )
    share: Path | None = option(
        WRITABLE,
        "File that a row for a public table is added to, with nothing private; takes twice as "
        "long, since `prove` follows.",
    )


@click.command(cls=SectionedCommand, params=options(BenchOptions, LoadingOptions))
@click.argument("model", metavar="NAME_OR_PATH", type=MODEL)
@click.pass_context
def bench(context: click.Context, model: str) -> None:
    """Measure whether speculation pays on this machine, and advise.

    Each prompt is answered plainly, with drafts, and plainly once more. Modes are auto (as
    LocalSpec comes), lookup (the same without a draft model), and proposers by name, also with a
    depth (suffix:8). With several --draft, each is loaded in turn and answers the same prompts.
    """
    bench_options, loading_options = read(context, BenchOptions), read(context, LoadingOptions)
    loading = make_loading(loading_options)
    if len(set(bench_options.draft)) > 1:
        compare_drafters(model, bench_options, loading)
    else:
        bench_pair(context, model, bench_options, loading)


def bench_pair(
    context: click.Context, model: str, bench_options: BenchOptions, loading: Loading
) -> None:
    """Measure a model with one drafter, or with what it has of its own."""
    draft = next(iter(bench_options.draft), None)
    earlier = earlier_run.read(bench_options.against) if bench_options.against else None
    if earlier:
        bench_options = _as_before(bench_options, earlier)
    settings = _settings(bench_options)
    names = [name.strip() for name in bench_options.modes.split(",") if name.strip()]
    modes.kinds(names, modes.ANY)  # fail before anything is looked for
    prompts_to_ask = _prompts(bench_options)
    _check_files(bench_options)
    files = PairFiles.locate(model, draft, loading.backend)
    warn_of_others(processors.watched(LOAD_SECONDS))
    with ExitStack() as closing:
        with LoadingLine(model) as line:
            opened = modes.load(files, loading, names, line, details=bench_options.details)
            lineup, resolved = closing.enter_context(opened)
        drafter = describe_drafter(lineup.drafter, chosen_by_user=bool(draft))
        weights = sums(resolved) if bench_options.json or bench_options.share or earlier else ()
        setup = setup_of(lineup, resolved, settings, drafter, weights)
        if earlier:
            earlier_run.require_comparable(earlier, setup)
        asked = questions(lineup.target, prompts_to_ask, settings)
        deadline = time.monotonic() + bench_options.seconds
        outcome = run(lineup, asked, bench_options.repeat, deadline)
    measurements = report(setup, outcome)
    click.echo(text(measurements, details=bench_options.details))
    if bench_options.json:
        _write("--json", bench_options.json, as_json(measurements))
    if outcome.interrupted:
        raise click.Abort
    if bench_options.share:
        words = [model, f"--seconds={bench_options.seconds}", *arguments(context, LoadingOptions)]
        row = share.row(model, resolved, measurements, built_in=bench_options.prompts is None)
        _share(bench_options.share, row, words)
    if bench_options.against and earlier:
        _compare(bench_options.against, earlier, measurements)


def compare_drafters(model: str, bench_options: BenchOptions, loading: Loading) -> None:
    """Measure several drafters in turn by the same prompts, and keep which one is fastest."""
    _refuse_for_several(bench_options)
    pairs = {
        draft: PairFiles.locate(model, draft, loading.backend) for draft in bench_options.draft
    }
    usual = PairFiles.locate(model, None, loading.backend)  # what would draft otherwise
    if usual.draft and usual.draft.path not in {
        pair.draft.path for pair in pairs.values() if pair.draft
    }:
        pairs[str(usual.draft.path)] = usual
    prompts_to_ask, settings = _prompts(bench_options), _settings(bench_options)
    warn_of_others(processors.watched(LOAD_SECONDS))
    reports: dict[str, Report] = {}
    for draft, files in pairs.items():
        with ExitStack() as closing:
            with LoadingLine(f"{model}, drafted by {draft}") as line:
                opened = modes.load(files, loading, (AUTO,), line)
                lineup, resolved = closing.enter_context(opened)
            asked = questions(lineup.target, prompts_to_ask, settings)
            deadline = time.monotonic() + bench_options.seconds / len(pairs)
            outcome = run(lineup, asked, bench_options.repeat, deadline)
        if outcome.interrupted:
            raise click.Abort
        reports[draft] = report(setup_of(lineup, resolved, settings, None), outcome, lambda: 0.0)
        # The others are asked no more than this one answered.
        answered = {reply.prompt.name for reply in outcome.replies}
        prompts_to_ask = [prompt for prompt in prompts_to_ask if prompt.name in answered]
        longest = max(len(reply.tokens) for reply in outcome.replies)
        settings = replace(settings, max_tokens=longest)
    ranking = drafters.rank(reports)
    click.echo(ranking)
    chosen = ranking.chosen
    if chosen and remember_fastest(pairs[chosen.name], chosen.name, chosen.ratio.value, loading):
        click.echo(
            "\nThis is kept: it holds wherever no --draft is named, until versions or files "
            "change; `localspec forget` removes it."
        )


def _refuse_for_several(bench_options: BenchOptions) -> None:
    """Refuse what is about one drafter where several are compared."""
    values = {
        "--details": bench_options.details,
        "--modes": bench_options.modes,
        "--json": bench_options.json,
        "--against": bench_options.against,
        "--share": bench_options.share,
    }
    for name, value in values.items():
        if value:
            raise UsageError(f"{name} is for one --draft, and here are several: omit it")


def warn_of_others(times: ProcessorTimes) -> None:
    """Say before minutes are spent that the machine is too busy to compare."""
    if times.others > processors.CROWDED:
        click.echo(
            f"localspec: other programs take {times.others:.0%} of the processors: what is "
            "measured beside them says little; end them first (Ctrl-C stops this)",
            err=True,
        )


def _as_before(bench_options: BenchOptions, earlier: BenchRun) -> BenchOptions:
    """Measure the modes, and replies of the length, of the earlier run where these are open."""
    measured = ",".join(mode for mode in earlier.modes if mode not in (modes.PLAIN, modes.AGAIN))
    tokens = earlier.longest if bench_options.max_tokens is None else bench_options.max_tokens
    return replace(bench_options, modes=bench_options.modes or measured, max_tokens=tokens)


def _compare(path: Path, earlier: BenchRun, measurements: Report) -> None:
    """Print what changed since an earlier run; fail if something fell."""
    now = BenchRun.of(measurements)
    comparison = compare(path, earlier, now, measurements.setup.drafter)
    click.echo(f"\n{comparison.text()}")
    if comparison.falls:
        raise LocalSpecError(f"this fell: {'; '.join(map(str, comparison.falls))}")


def _share(path: Path, row: dict[str, object], arguments: Sequence[str]) -> None:
    """Add a row to a file, after a proof, and show all that is in it."""
    row["prove"] = share.prove(arguments)
    _write("--share", path, f"{json.dumps(row)}\n", mode="a")
    click.echo(f"\nThis row was added to {path}, and sent nowhere:\n{json.dumps(row, indent=2)}")


def _write(option: str, path: Path, text: str, mode: Literal["w", "a"] = "w") -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise LocalSpecError(f"{option} cannot be written: {error}") from error


def _prompts(bench_options: BenchOptions) -> list[Prompt]:
    """Choose prompts, the first of each category before the second, so that a run may end early."""
    available = prompts.read(bench_options.prompts) if bench_options.prompts else prompts.built_in()
    limit = bench_options.limit or (None if bench_options.prompts else PROMPTS_OF_A_CATEGORY)
    return sorted(
        prompts.choose(available, bench_options.category, limit), key=lambda prompt: prompt.number
    )


def _settings(bench_options: BenchOptions) -> Settings:
    sampling = Sampling(temperature=bench_options.temperature)
    return Settings(max_tokens=bench_options.max_tokens, sampling=sampling, seed=bench_options.seed)


def _check_files(bench_options: BenchOptions) -> None:
    """Refuse files that cannot be written before minutes are spent."""
    for name, path in (("--json", bench_options.json), ("--share", bench_options.share)):
        if path:
            _check_file(name, path)
    new, earlier = bench_options.json, bench_options.against
    if new and earlier and new.resolve() == earlier.resolve():
        raise UsageError("--json would overwrite the file of --against: name another one")


def _check_file(option: str, path: Path) -> None:
    existed = path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise UsageError(f"{option} cannot be written: {error}") from error
    if not existed:
        path.unlink()
