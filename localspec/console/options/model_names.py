"""Completion of models' names in the shell, from the catalogue's and the store's own files."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from localspec.running.models import catalogue, store


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
