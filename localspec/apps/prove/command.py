"""The command `localspec prove`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from localspec.apps.prove import prompts
from localspec.apps.prove.proof import ProofPlan, ProofProgress, attempt
from localspec.apps.prove.verdict_lines import verdict_lines
from localspec.base.errors import LocalSpecError, UsageError
from localspec.console.options.declare import (
    COUNT,
    NUMBER,
    READABLE,
    SECONDS,
    flag,
    option,
    options,
    read,
)
from localspec.console.options.loading import LoadingOptions, make_loading
from localspec.console.options.model_names import MODEL
from localspec.console.options.sections import SectionedCommand
from localspec.console.progress.progress_bar import duration
from localspec.core.sampling.parameters import Sampling


@dataclass(frozen=True, slots=True)
class ProveOptions:
    details: bool = flag("Each proposer and each difference, too.")
    seconds: float = option(
        SECONDS, "Seconds for the whole run; more time tries more.", "N", default=240.0
    )
    prompts: Path | None = option(
        READABLE, 'JSONL file; each line has a "prompt" or "messages".', "FILE"
    )
    max_tokens: int | None = option(
        COUNT, "Maximum tokens per reply.", "N", otherwise="8 to 64, by speed"
    )
    samples: int | None = option(
        COUNT, "Number of samples per proposer.", "N", otherwise="150 to 2,000, by time"
    )
    temperature: float = option(NUMBER, "Sampling temperature.", default=1.0)
    json: bool = flag("Verdict with all its figures as JSON.")


@click.command(cls=SectionedCommand, params=options(ProveOptions, LoadingOptions))
@click.argument("model", metavar="NAME_OR_PATH", type=MODEL)
@click.pass_context
def prove(context: click.Context, model: str) -> None:
    """Show that speculation changes nothing with this model on this machine.

    Greedy texts, with drafts of every kind and depth, alone and several at once, are compared
    with the plain ones, and samples drawn with drafts with the model's own distribution. How much
    is tried depends on the time. Exits with 0 if nothing but rounding makes a difference, and not
    even that where texts are equal to the bit, as with LocalSpec's products or --bit-exact, else
    with 1. Ctrl-C reports what there is.
    """
    options, load_options = read(context, ProveOptions), read(context, LoadingOptions)
    plan = proof_plan(options)
    click.echo(f"loading {model}; proving takes up to {duration(options.seconds)}", err=True)
    verdict = attempt(model, load_options.draft, make_loading(load_options), plan, ProofProgress())
    if options.json:
        click.echo(json.dumps(asdict(verdict), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(verdict_lines(verdict, details=options.details)))
    if not verdict.proven:
        raise LocalSpecError(f"this is no proof: {verdict.faults[0]}")


def proof_plan(options: ProveOptions) -> ProofPlan:
    """Plan a proof by the options; refuse those that leave nothing to try."""
    if options.temperature == 0:
        raise UsageError("temperature 0 is greedy, which is tried anyway; give one above 0")
    sampling = Sampling(temperature=options.temperature)
    conversations = prompts.read(options.prompts) if options.prompts else prompts.built_in()
    return ProofPlan(conversations, options.max_tokens, options.samples, sampling, options.seconds)
