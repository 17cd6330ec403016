"""The command `localspec batch`: a file of requests, and the file of their answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from localspec.apps.batch.requests import open_ones
from localspec.apps.server.batches.lines import BatchRequest, answer_line
from localspec.base.errors import UsageError
from localspec.base.system.signals import handled
from localspec.console.options.declare import COUNT, READABLE, WRITABLE, option, options, read
from localspec.console.options.loading import LOADING, LoadingOptions, read_loading
from localspec.console.options.model_names import MODEL, name_or_path
from localspec.console.options.sections import SectionedCommand
from localspec.console.progress.progress_bar import REQUESTS, Progress
from localspec.running.runtime.loading import Loading

NO_LIMIT = 1e9  # seconds that a reply may take


@dataclass(frozen=True, slots=True)
class BatchOptions:
    slots: int = option(COUNT, "Number of requests that run at once.", default=8)


@click.command("batch", cls=SectionedCommand, params=options(*LOADING, BatchOptions))
@click.argument("model", metavar="NAME_OR_PATH", type=MODEL, shell_complete=name_or_path)
@click.argument("file", metavar="IN.jsonl", type=READABLE)
@click.argument("out", metavar="OUT.jsonl", type=WRITABLE)
@click.pass_context
def batch(context: click.Context, model: str, file: Path, out: Path) -> None:
    """Answer the requests in a file, several at once.

    A line is a request of OpenAI's batches, or only its body. Answers are appended to OUT.jsonl as
    they are done; the same command again goes on where an earlier one was interrupted.
    """
    if file.absolute() == out.absolute():
        raise UsageError(f"{out} would be written over: name another file for the answers")
    requests = list(open_ones(file, out))
    if not requests:
        click.echo(f"localspec: all requests in {file} have their answers in {out}", err=True)
        return
    chosen, draft = read(context, BatchOptions), read(context, LoadingOptions).draft
    failed = asyncio.run(run(model, requests, out, read_loading(context), draft, chosen.slots))
    if failed:
        click.echo(f"localspec: {failed:,} of {len(requests):,} were refused: see {out}", err=True)
        context.exit(1)


async def run(
    model: str,
    requests: list[BatchRequest],
    out: Path,
    loading: Loading,
    draft: str | None,
    slots: int,
) -> int:
    """Answer requests by a model; return how many were refused."""
    from localspec.apps.server.app import application
    from localspec.apps.server.batches.answering import answer_all, ask
    from localspec.apps.server.command import leave_at_once, named_models
    from localspec.apps.server.server_policy import ServerPolicy
    from localspec.running.models.recommended import ThoughtDefaults

    loading = replace(loading, options=replace(loading.options, slots=slots))
    offers = named_models([model], draft, loading, ThoughtDefaults())
    app = application(offers, ServerPolicy(reply_seconds=NO_LIMIT, read_ahead=False, page=False))
    failed = 0
    with out.open("ab") as file, Progress(len(requests), unit=REQUESTS) as count:

        def answered(request: BatchRequest, status: int, body: dict[str, Any]) -> None:
            nonlocal failed
            file.write(answer_line(request, status, body))
            file.flush()
            failed += status >= 400
            count(1)

        async with app.router.lifespan_context(app):
            with handled(leave_at_once, "SIGINT"):
                await app.state.host.preload(offers[0].name)
            await answer_all(iter(requests), partial(ask, app, ""), lambda _: slots, answered)
    return failed
