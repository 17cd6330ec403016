"""A command in a child process, so that a signal which ends an engine is reported in a line."""

from __future__ import annotations

import click


def start_supervised(context: click.Context) -> None:
    """Fork, and go on in the child; the parent waits, and reports what ended the child.

    Call it before an engine is imported. The group put the function that forks into `context.obj`.
    """
    context.obj(again=False)
