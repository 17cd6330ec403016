"""The command `localspec generate`: one answer, and its figures."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localspec.base.errors import UsageError
from localspec.console.options.declare import (
    INTEGER,
    READABLE,
    flag,
    option,
    options,
    read,
    repeated,
    set_names,
)
from localspec.console.options.loading import LOADING, LoadingOptions, read_loading
from localspec.console.options.model_names import MODEL, name_or_path
from localspec.console.options.reply import (
    ReplyOptions,
    set_sampling_fields,
    settings,
    with_usual,
)
from localspec.console.options.sections import SectionedCommand

if TYPE_CHECKING:
    from localspec.core.requests.worker import Stream
    from localspec.running.runtime.runtime import Prompt


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    image: tuple[Path, ...] = repeated(READABLE, "Picture before the prompt. May repeat.", "FILE")
    raw: bool = flag("The prompt as it is, without the model's chat template.")
    json: bool = flag("Text and figures as JSON.")
    logprobs: int | None = option(
        INTEGER,
        "Log-probability of each token and its N likeliest alternatives (needs --json).",
        "N",
    )


@click.command(cls=SectionedCommand, params=options(*LOADING, ReplyOptions, GenerateOptions))
@click.argument("model", metavar="NAME_OR_PATH", type=MODEL, shell_complete=name_or_path)
@click.argument("prompt")
@click.pass_context
def generate(context: click.Context, model: str, prompt: str) -> None:
    """Answer one prompt, and exit.

    If PROMPT is `-`, standard input is the prompt. A model with a chat template is asked through
    it, unless --raw is given.
    """
    from localspec.console.questions.interactive_load import (
        locate_and_load,  # engines take their time to import
    )

    shown = read(context, GenerateOptions)
    if shown.logprobs is not None and not shown.json:
        raise UsageError("--logprobs are part of the result as JSON: add --json")
    # A wrong option fails before anything is loaded.
    reply_settings = settings(read(context, ReplyOptions), shown.logprobs)
    options = read(context, LoadingOptions)
    loading = read_loading(context)
    text = sys.stdin.read() if prompt == "-" else prompt
    if loading.options.members == 1:
        context.obj(again=False)  # forks, before an engine is imported: the parent reports its end
    request: Prompt = text
    check_images(shown)  # in the process that loads: what it imports does not survive a fork
    if shown.image:
        request = [{"role": "user", "content": text, "images": list(shown.image)}]
    with locate_and_load(model, options.draft, loading, shown=bool(shown.image)) as runtime:
        chosen = set_sampling_fields(set_names(context))
        own_settings = with_usual(runtime.facts.usual.sampling, reply_settings, chosen)
        if sys.stderr.isatty() and "temperature" not in chosen:
            click.secho(f"sampling: {runtime.facts.usual}", err=True, dim=True)
        stream = runtime.stream(request, own_settings, raw=shown.raw)
        if shown.json:
            record = asdict(stream.result)
            del record["timings"]["gaps"]
            click.echo(json.dumps(record, indent=2, ensure_ascii=False))
        else:
            show(stream)


def check_images(shown: GenerateOptions) -> None:
    """Refuse files that are no pictures."""
    from localspec.formats.pictures.decoding import size_of
    from localspec.running.runtime.message_media import file_data

    if shown.image and shown.raw:
        raise UsageError("--image goes through the chat template: leave --raw out")
    for path in shown.image:
        try:
            size_of(file_data(path))
        except UsageError as error:
            raise UsageError(f"--image {path}: {error}") from error


def show(stream: Stream) -> None:
    """Print thoughts and answer as they come; figures follow on a terminal's stderr."""
    thinks = False
    for chunk in stream:
        between = "\n\n" if chunk.text and (thinks or chunk.reasoning) else ""
        click.echo(chunk.reasoning + between + chunk.text, nl=False)
        thinks = not chunk.text and (thinks or bool(chunk.reasoning))
        sys.stdout.flush()
    click.echo()
    for notice in stream.result.notices:
        click.echo(f"localspec: {notice}", err=True)
    if sys.stderr.isatty():
        from localspec.apps.chat.status import status
        from localspec.console.speakers.local import end_of

        click.secho(status(end_of(stream.result)), err=True, dim=True)
