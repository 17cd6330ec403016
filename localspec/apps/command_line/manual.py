"""The manual page: the help of all commands in the language of man(7)."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version

import click

from localspec.apps.command_line.lazy_group import LISTED
from localspec.console.options.sections import ALL


def manual(context: click.Context) -> str:
    """Return the page of the group and of each command that its help shows."""
    group = context.command
    context.meta[ALL] = True
    page = ManualFormatter()
    page.write(
        f'.TH LOCALSPEC 1 "" "LocalSpec {version("localspec")}" "User Commands"\n.ad l\n.nh\n'
    )
    page.write(f".SH NAME\nlocalspec \\- {escape(group.get_short_help_str(100))}\n")
    page.write(".SH SYNOPSIS\n")
    group.format_help(context, page)
    for listed in LISTED.values():
        if listed.about and isinstance(group, click.Group):
            command = group.commands[listed.name]
            page.write(f".SH {escape(listed.name.upper())}\n")
            command.format_help(click.Context(command, context, listed.name), page)
    return page.getvalue()


class ManualFormatter(click.HelpFormatter):
    """Writes what click writes as help as requests of man(7), which breaks lines itself."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        self.write(f"\\fB{escape(prog)}\\fR {escape(args)}\n")

    def write_heading(self, heading: str) -> None:
        self.write(f".SS {escape(heading)}\n")

    def write_paragraph(self) -> None:
        """Leave the distance between paragraphs to man(7)."""

    def write_text(self, text: str) -> None:
        for paragraph in text.split("\n\n"):
            self.write(f".PP\n{escape(paragraph)}\n")

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        for name, text in rows:
            self.write(f".TP\n\\fB{escape(name)}\\fR\n{escape(text)}\n")


def escape(text: str) -> str:
    """Return a text on one line, in which man(7) reads no request and changes no character."""
    text = " ".join(text.split()).replace("\\", "\\e")
    for character, name in (("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"), ("^", "\\(ha")):
        text = text.replace(character, name)
    text = text.replace("~", "\\(ti")
    return f"\\&{text}" if text.startswith(".") else text
