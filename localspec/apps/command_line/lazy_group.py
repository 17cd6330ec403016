"""A group of commands whose modules are imported when they run, or for their own help.

The group's own help and the completion of commands' names come from a table, and from what other
packages add.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from localspec.apps.command_line.added import added, load
from localspec.apps.command_line.table import SECTIONS, ListedCommand

LISTED: dict[str, ListedCommand] = {
    command.name: command for row in SECTIONS.values() for command in row
}
HIDDEN = frozenset(command.name for command in LISTED.values() if not command.about)
ALIASES = {alias: command.name for command in LISTED.values() for alias in command.aliases}


class LazyCommands(MutableMapping[str, click.Command]):
    """The commands by name, each imported when it is first asked for; the table's come first."""

    def __init__(self) -> None:
        self._imported: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._imported:
            self._imported[name] = listed(name) if name in LISTED else load(added()[name])
        return self._imported[name]

    def __contains__(self, name: object) -> bool:
        return name in LISTED or name in self._imported or name in added()

    def __iter__(self) -> Iterator[str]:
        """Leave out what other commands run."""
        names = dict.fromkeys((*LISTED, *self._imported, *added()))
        return (name for name in names if name not in HIDDEN)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._imported[name] = command

    def __delitem__(self, name: str) -> None:
        del self._imported[name]


def listed(name: str) -> click.Command:
    module, _, attribute = LISTED[name].place.partition(":")
    command: click.Command = getattr(import_module(f"localspec.{module}"), attribute)
    return command


def about(name: str) -> str:
    """Describe a command that a package adds, without importing it."""
    package = added()[name].module.partition(".")[0]
    is_own = name in LISTED or name in ALIASES
    return f"of {package}" + (": not used, as LocalSpec has one" if is_own else "")


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
        sections = {
            title: [(command.name, command.about) for command in row if command.about]
            for title, row in SECTIONS.items()
        }
        sections["Of other packages"] = [(name, about(name)) for name in sorted(added())]
        width = max(len(name) for rows in sections.values() for name, _ in rows)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(width), text) for name, text in rows])
        named = (f"{alias} ({name})" for alias, name in ALIASES.items())
        with formatter.indentation():
            formatter.write_paragraph()
            formatter.write_text(f"Other names: {', '.join(named)}.")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        texts = {name: about(name) for name in added()}
        texts |= {command.name: command.about for command in LISTED.values() if command.about}
        commands = [
            CompletionItem(name, help=text)
            for name, text in texts.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]
