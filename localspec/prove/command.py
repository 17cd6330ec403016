"""`localspec prove`: the command."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TypeVar

import click

from localspec.commands import flags
from localspec.errors import LocalSpecError, UsageError
from localspec.prove import prompts
from localspec.prove.proof import Wishes, attempt
from localspec.prove.words import lines
from localspec.sampling.parameters import Sampling

T = TypeVar("T")

# Who guesses, and how far, is not for the user to choose: everything there is, at every depth.
CHOSEN = {"proposer": "auto", "depth": None}

PROOF = (
    click.Option(
        ["--prompts"],
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help='JSON objects with "prompt" or "messages", one a line; else a few of many kinds.',
    ),
    click.Option(
        ["--max-tokens"], type=click.IntRange(1), default=64, help="Most tokens of a reply; 64."
    ),
    click.Option(
        ["--samples"],
        type=click.IntRange(1),
        help="Samples of each guesser; else 2,000, or what a minute brings.",
    ),
    click.Option(["--temperature"], type=float, default=1.0, help="To sample at; 1 if not given."),
)

for _option in PROOF:
    _option.expose_value = False
    _option.callback = lambda context, option, value: context.meta.update({option.name: value})


@click.command(params=[*(each for each in flags.LOADING if each.name not in CHOSEN), *PROOF])
@click.argument("model", metavar="NAME_OR_PATH")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict with all its figures.")
@click.pass_context
def prove(context: click.Context, model: str, as_json: bool) -> None:
    """Show that speculation changes nothing with this model on this machine.

    Greedy texts, with guesses of every kind and depth, alone and several at once, are held against
    the plain ones, and what is sampled with guesses against the model's own law. Exits with 0 if
    nothing but rounding makes a difference, and with --bit-exact not even that, else with 1.
    Ctrl-C reports what there is.
    """
    wanted = wished(context)
    context.meta.update(CHOSEN)
    loading, progress = flags.loading(context), Progress()
    verdict = attempt(model, flags.draft(context), loading, wanted, progress)
    if as_json:
        click.echo(json.dumps(asdict(verdict), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(lines(verdict)))
    if not verdict.proven:
        raise LocalSpecError(f"this is no proof: {verdict.faults[0]}")


def wished(context: click.Context) -> Wishes:
    """What is to be proven, as the command line says it."""
    wish = context.meta
    if wish["temperature"] == 0:
        raise UsageError("temperature 0 is greedy, which is tried anyway; give one above 0")
    sampling = Sampling(temperature=wish["temperature"])
    file = wish["prompts"]
    conversations = prompts.read(file) if file else prompts.built_in()
    return Wishes(conversations, wish["max_tokens"], wish["samples"], sampling)


class Progress:
    """Bars on stderr. Ctrl-C ends what is under way early; a second one ends the program."""

    def __init__(self) -> None:
        self.stopped = False

    def __call__(self, items: Iterable[T], length: int, label: str) -> Iterator[T]:
        if self.stopped:
            return
        with click.progressbar(items, length, label, file=sys.stderr) as bar:
            for item in bar:
                yield item
                if self.stopped:
                    return

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let Ctrl-C wait for the model: what it holds must be known for what comes after."""
        usual = signal.getsignal(signal.SIGINT)

        def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
            self.stopped = True
            signal.signal(signal.SIGINT, usual)

        signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, usual)
