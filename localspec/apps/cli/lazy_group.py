"""A group of commands whose modules are imported when they run, or for their own help.

The group's own help and the completion of commands' names come from a table.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from localspec.apps.cli.table import SECTIONS, ListedCommand

LISTED: dict[str, ListedCommand] = {
    command.name: command for row in SECTIONS.values() for command in row
}
HIDDEN = frozenset(command.name for command in LISTED.values() if not command.about)
ALIASES = {alias: command.name for command in LISTED.values() for alias in command.aliases}


class LazyCommands(MutableMapping[str, click.Command]):
    """The commands of the table by name, each imported when it is first asked for."""

    def __init__(self) -> None:
        self._imported: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._imported:
            module, _, attribute = LISTED[name].place.partition(":")
            self._imported[name] = getattr(import_module(f"localspec.{module}"), attribute)
        return self._imported[name]

    def __contains__(self, name: object) -> bool:
        return name in LISTED or name in self._imported

    def __iter__(self) -> Iterator[str]:
        """Leave out what other commands run."""
        return (name for name in LISTED | self._imported if name not in HIDDEN)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._imported[name] = command

    def __delitem__(self, name: str) -> None:
        del self._imported[name]


class LazyGroup(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Call a command by its own name, by which its settings are kept, also for an alias."""
        return super().resolve_command(ctx, [ALIASES.get(args[0], args[0]), *args[1:]])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(command.name) for command in LISTED.values() if command.about)
        for title, row in SECTIONS.items():
            rows = [(command.name.ljust(width), command.about) for command in row if command.about]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
        named = (f"{alias} ({name})" for alias, name in ALIASES.items())
        with formatter.indentation():
            formatter.write_paragraph()
            formatter.write_text(f"Other names: {', '.join(named)}.")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        commands = [
            CompletionItem(command.name, help=command.about)
            for command in LISTED.values()
            if command.about and command.name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]
