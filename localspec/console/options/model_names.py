"""Names of models on the command line, and their completion in the shell."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem
from click.types import FuncParamType

from localspec.running.models import catalogue, store
from localspec.running.models.ollama_names import listed_name

MODEL: click.ParamType[str] = FuncParamType(listed_name)


def listed(_: click.Context, __: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Complete the names of the catalogue."""
    return beginning(catalogue.names(), prefix)


def pulled(_: click.Context, __: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Complete the names of models that were pulled."""
    return beginning({pair.name for pair in store.everything()}, prefix)


def name_or_path(_: click.Context, __: click.Parameter, prefix: str) -> list[CompletionItem]:
    """Complete names, and paths where no name begins like that."""
    names = beginning({*catalogue.names(), *(pair.name for pair in store.everything())}, prefix)
    return names or [CompletionItem(prefix, type="file")]


def beginning(names: set[str], prefix: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(names) if name.startswith(prefix)]
