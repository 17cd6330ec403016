"""The command `localspec serve` as the command line has it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from localspec.apps.server.options import ServingOptions
from localspec.base.errors import UsageError
from localspec.console.options.declare import arguments, options, read, typed_names
from localspec.console.options.loading import LOADING, LoadingOptions, read_loading
from localspec.console.options.model_names import MODEL, name_or_path
from localspec.console.options.sections import SectionedCommand


@click.command(cls=SectionedCommand, params=options(*LOADING, ServingOptions))
@click.argument(
    "names", metavar="[NAME_OR_PATH]...", nargs=-1, type=MODEL, shell_complete=name_or_path
)
@click.pass_context
def serve(context: click.Context, names: Sequence[str]) -> None:
    """Answer over HTTP, in the APIs of OpenAI and others.

    The others are those of Anthropic, Ollama and llama.cpp. Of several models the first is loaded
    at once, the others when a request asks for them. Without NAME_OR_PATH it is the model used
    last, or the first that is here.
    """
    from localspec.apps.server.command import (
        serve as answer,  # a web server takes its time to import
    )

    serving, aside = read(context, ServingOptions), {"host", "port"} & typed_names(context)
    if serving.unix is not None and aside:
        raise UsageError(f"a unix socket has no --{min(aside)}: omit it, or --unix")
    loading, options = read_loading(context), read(context, LoadingOptions)
    as_typed = arguments(context, LoadingOptions)
    answer(serving, loading, options.draft, names or [chosen(loading.backend)], as_typed)


def chosen(backend: str) -> str:
    """Choose a model where none is named, and report which."""
    from localspec.running.pulling.at_hand import first_at_hand

    model = first_at_hand(backend)
    click.echo(f"localspec: no model is named: serving {model.name} ({model.why})", err=True)
    return model.name
