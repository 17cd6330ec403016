"""The command `localspec tune`: the fastest way to load a model here, and what drafts cost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import mean

import click

from localspec.apps.commands import draft_advice
from localspec.apps.tuning.candidates import Candidates, Table
from localspec.apps.tuning.search import Choice, Search, including
from localspec.base.errors import BackendError, UsageError
from localspec.base.system.processors import CROWDED, RivalWatch
from localspec.console.options.declare import flag, option, options, read
from localspec.console.options.loading import LoadingOptions, make_loading
from localspec.console.options.model_names import MODEL, name_or_path
from localspec.console.options.sections import SectionedCommand
from localspec.interfaces.backend import Options
from localspec.interfaces.coordinate import Coordinate
from localspec.running.memory.planner import plan_pair
from localspec.running.models.locate import ModelFiles
from localspec.running.runtime import kept_calibrations, tuning
from localspec.running.runtime.calibration import MIN_CONTEXT, Calibration, Points, calibrate
from localspec.running.runtime.loaded_pair import load_models
from localspec.running.runtime.loading import choose_proposers
from localspec.running.runtime.loading_options import Loading
from localspec.running.runtime.long_drafts import with_long_drafts
from localspec.running.runtime.pair_files import ExaminedPair, PairFiles, require_text
from localspec.running.runtime.resolved_pair import resolve_pair
from localspec.running.runtime.tuning import Tuning

BAR_WIDTH = 40  # characters of the longest bar
COST_SHARE, COST_SECONDS = 1 / 12, 15.0  # of the time, and at most, for what drafts cost
EACH_SHARE = 1 / 60  # of the time, to measure one choice besides loading it
LAST_ONES = 5  # choices for which there must be time: the next, and twice the best and the usual
KV_TYPES = Coordinate("kv_type", ("auto", "q8_0", "q4_0"))


@dataclass(frozen=True, slots=True)
class TuneOptions:
    seconds: float = option(click.FloatRange(1, 3600), "Seconds to take, about.", default=180.0)
    costs: bool = flag("Only what forwards and drafts cost, without a search.")
    kv_types: bool = flag("Search among types of the KV cache, too, which change replies.")
    forget: bool = flag("No measurement: the model is loaded as usual from now on.")


@click.command(cls=SectionedCommand, params=options(LoadingOptions, TuneOptions))
@click.argument("model", metavar="NAME_OR_PATH", type=MODEL, shell_complete=name_or_path)
@click.pass_context
def tune(context: click.Context, model: str) -> None:
    """Find the fastest way to load a model on this machine, and keep it.

    Threads, batches, huge pages, and what goes to which card: one after the other is tried, each
    time in a process of its own, and the fastest that writes the same text and has as much room is
    used from then on, where no option says otherwise. The search begins with the options that are
    given. Then it is measured what forwards and drafts cost, by which the length of drafts is
    chosen. Let nothing else run meanwhile.
    """
    tune_options, loading_options = read(context, TuneOptions), read(context, LoadingOptions)
    loading = make_loading(loading_options)
    files = PairFiles.locate(model, loading_options.draft, loading.backend)
    if tune_options.forget:
        existed = tuning.forget(files.target)
        click.echo("it is loaded as usual" if existed else "it was loaded as usual before")
        return
    cost_seconds = min(COST_SECONDS, COST_SHARE * tune_options.seconds)
    with files.examine() as examined:
        require_text(examined.target.footprint())
        if not tune_options.costs:
            seconds = tune_options.seconds - cost_seconds
            loading = search(examined, loading, seconds, kv_types=tune_options.kv_types)
        measure_costs(examined, loading, cost_seconds)


def search(examined: ExaminedPair, loading: Loading, seconds: float, *, kv_types: bool) -> Loading:
    """Search for the fastest options, keep them, and return how to load with them."""
    end = time.monotonic() + seconds
    target = examined.target.files
    options = choose_proposers(examined, loading)[1]
    require_room(options)
    usual, start, coordinates = begin(examined, loading, options, kv_types=kv_types)
    if not coordinates:
        click.echo(f"{target.engine} leaves nothing to search\n")
        return loading
    table = Table(usual, click.echo)
    candidates = Candidates(
        lambda chosen: plan_pair(*examined, chosen, loading.limits, insists=loading.insists),
        examined.target.measure,
        replace(options, **usual),
        seconds * EACH_SHARE,
        table.add,
    )

    def has_time() -> bool:
        return time.monotonic() + LAST_ONES * candidates.last < end

    outcome = Search(candidates.score, has_time).run(usual, start, coordinates)
    changes = {name: value for name, value in outcome.choice.items() if value != usual[name]}
    click.echo(f"\nFastest: {tuning.as_typed(changes)}, {outcome.gain:.2f} times the usual speed.")
    if (share := mean(candidates.rivals)) > CROWDED:
        click.echo(
            f"Other programs took {share:.0%} of the processors, so that this may be chance and is "
            "not used: repeat it when the machine is free.\n"
        )
        return loading
    chosen = replace(loading, options=replace(loading.options, **outcome.choice))
    keep(target, Tuning.of_today(changes, outcome.gain, tuning.circumstances(target, chosen)))
    return chosen


def keep(target: ModelFiles, fastest: Tuning) -> None:
    """Let a model be loaded as was fastest from now on."""
    kept = tuning.keep(target, fastest)
    if not fastest.changes:
        click.echo("Nothing was faster by 3% than the usual way to load it, which stays.\n")
    elif kept:
        click.echo("It is used from now on; `localspec tune --forget` undoes that.\n")


def begin(
    examined: ExaminedPair, loading: Loading, options: Options, *, kv_types: bool
) -> tuple[Choice, Choice, Sequence[Coordinate]]:
    """Return the usual choice, the one to begin with, and what is searched."""
    target = examined.target
    offer = target.files.engine.spec.coordinates
    coordinates = list(offer(target.footprint(), options)) if offer else []
    coordinates += [KV_TYPES] if kv_types else []
    kept = tuning.find_tuning(target.files, loading)
    begun = kept.apply(loading).options if kept else options
    usual = {one.option: getattr(Options(), one.option) for one in coordinates}
    start = {one.option: getattr(begun, one.option) for one in coordinates}
    return usual, start, including(coordinates, start)


def require_room(options: Options) -> None:
    """Refuse a context that is too short to measure in."""
    if options.context is not None and options.context < MIN_CONTEXT:
        raise UsageError(
            f"--context is {options.context}; to measure takes at least {MIN_CONTEXT} tokens"
        )


def measure_costs(examined: ExaminedPair, loading: Loading, seconds: float) -> None:
    """Measure what forwards and drafts cost, print it, and keep it."""
    engine_options = with_long_drafts(loading, examined.target)
    require_room(engine_options)
    resolved = resolve_pair(examined, engine_options, loading.limits, insists=True)
    with load_models(resolved, insists=True) as loaded:
        key = kept_calibrations.key_of(loaded)
        rivals = RivalWatch()
        calibration = calibrate(loaded.pair.target, loaded.pair.draft, seconds)
        share = rivals.share()
    if share > CROWDED or not calibration.steady:
        sign = "more tokens took less time than fewer"
        if share > CROWDED:
            sign = f"other programs took {share:.0%} of the processors"
        raise BackendError(
            f"costs are neither shown nor kept, since the machine was busy: {sign}; try again when "
            "it is idle, or with more --seconds"
        )
    for line in (*lines(calibration), "", *draft_advice.describe(calibration)):
        click.echo(line)
    kept_calibrations.keep(key, calibration, kept_calibrations.pair_title(loaded))


def lines(calibration: Calibration) -> Iterator[str]:
    """Format the curves, in milliseconds and as multiples of one token of plain decoding."""
    plain = calibration.target[min(calibration.target)]
    yield from curve("tokens checked at once", calibration.target, plain)
    attention = calibration.attention.row + calibration.attention.token
    if attention:
        yield f"{'after 1,000 more':>22}{attention * 1e6:10.2f} ms for one token"
    for by, points in calibration.drafting.items():
        yield ""
        yield from curve(f"tokens drafted by {by}", points, plain)
        yield f"{'to read one':>22}{calibration.reading[by] * 1e3:10.2f} ms"


def curve(title: str, points: Points, plain: float) -> Iterator[str]:
    longest = max(points.values())
    yield title
    for size, seconds in sorted(points.items()):
        bar = "█" * max(round(BAR_WIDTH * seconds / longest), 1)
        yield f"{size:22}{seconds * 1e3:10.2f} ms{seconds / plain:8.2f}  {bar}"
