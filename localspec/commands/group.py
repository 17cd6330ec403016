"""The command `localspec launch-group`: one model on several machines."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

import click

from localspec.backend_spec import Launch
from localspec.commands.options.declare import COUNT, TEXT, option, options, read
from localspec.errors import UsageError
from localspec.models.engines import specs


@dataclass(frozen=True, slots=True)
class GroupOptions:
    hosts: str = option(TEXT, "The machines, this one first.", "ADDRESS,...", default="127.0.0.1")
    each: int = option(COUNT, "Processes on each of them; 1.", default=1)
    link: str = option(TEXT, "How they are connected: ring, jaccl, mpi; ring.", "NAME", default="")


@click.command(
    "launch-group",
    params=options(GroupOptions),
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def launch_group(context: click.Context, command: tuple[str, ...]) -> None:
    """Run a command of LocalSpec, as `serve FOLDER`, with its model divided among machines.

    MLX only. Each machine needs LocalSpec at the same place, the folder under the same path, and
    an ssh login from this one. What they tell each other is not encrypted.
    """
    given = read(context, GroupOptions)
    launchers = [each.launcher for each in specs().values() if each.launcher]
    if not launchers:
        raise UsageError("no engine here runs a model on several machines: MLX does")
    wish = Launch(given.hosts.split(","), given.each, given.link)
    context.exit(subprocess.run([*launchers[0](wish), *command], check=False).returncode)
