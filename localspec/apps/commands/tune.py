"""The command `localspec tune`: measure a pair thoroughly, and print what was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import click

from localspec.apps.commands import draft_advice
from localspec.base.errors import BackendError, UsageError
from localspec.base.system.processors import CROWDED, RivalWatch
from localspec.console.options.declare import option, options, read
from localspec.console.options.loading import LoadingOptions, make_loading
from localspec.console.options.model_names import MODEL, name_or_path
from localspec.console.options.sections import SectionedCommand
from localspec.running.runtime import kept_calibrations
from localspec.running.runtime.calibration import MIN_CONTEXT, Calibration, Points, calibrate
from localspec.running.runtime.loaded_pair import load_models
from localspec.running.runtime.long_drafts import with_long_drafts
from localspec.running.runtime.pair_files import PairFiles
from localspec.running.runtime.resolved_pair import resolve_pair

BAR_WIDTH = 40  # characters of the longest bar


@dataclass(frozen=True, slots=True)
class TuneOptions:
    seconds: float = option(click.FloatRange(1, 3600), "Seconds to measure.", default=15.0)


@click.command(cls=SectionedCommand, params=options(LoadingOptions, TuneOptions))
@click.argument("model", metavar="NAME_OR_PATH", type=MODEL, shell_complete=name_or_path)
@click.pass_context
def tune(context: click.Context, model: str) -> None:
    """Measure what forwards and drafts take on this machine, and remember it.

    The length of drafts is chosen by these costs. Loading a pair for the first time measures them
    for about a second, and replies correct them; this measures longer, so that the first replies
    are faster. Let nothing else run meanwhile.
    """
    options, seconds = read(context, LoadingOptions), read(context, TuneOptions).seconds
    request = make_loading(options)
    with PairFiles.locate(model, options.draft, request.backend).examine() as examined:
        engine_options = with_long_drafts(request, examined.target)
        resolved = resolve_pair(examined, engine_options, request.limits, insists=True)
    with load_models(resolved, insists=True) as loaded:
        if (tokens := loaded.pair.target.context) < MIN_CONTEXT:
            raise UsageError(
                f"--context is {tokens}; to measure takes at least {MIN_CONTEXT} tokens"
            )
        key = kept_calibrations.key_of(loaded)
        rivals = RivalWatch()
        calibration = calibrate(loaded.pair.target, loaded.pair.draft, seconds)
        share = rivals.share()
    for line in lines(calibration):
        click.echo(line)
    if not calibration.steady:
        raise BackendError(
            "more tokens took less time than fewer: the machine was busy, and nothing was kept; "
            "try again when it is idle, or with more --seconds"
        )
    click.echo("")
    for line in draft_advice.describe(calibration):
        click.echo(line)
    busy = share > CROWDED
    if busy:
        click.echo(
            f"other programs took {share:.0%} of the processors: this is measured again once they "
            "are free",
            err=True,
        )
    calibration = replace(calibration, busy=busy)
    kept_calibrations.keep(key, calibration, kept_calibrations.pair_title(loaded))


def lines(calibration: Calibration) -> Iterator[str]:
    """Format the curves, in milliseconds and as multiples of one token of plain decoding."""
    plain = calibration.target[min(calibration.target)]
    yield from curve("tokens checked at once", calibration.target, plain)
    attention = calibration.attention.row + calibration.attention.token
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
