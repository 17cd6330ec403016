"""The command `localspec launch-group`: one model on several machines."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import click

from localspec.base.errors import UsageError
from localspec.console.options.declare import COUNT, TEXT, option, options, read
from localspec.interfaces.other_machines import MEMBERS
from localspec.running.models import engines

ANY_WORDS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@dataclass(frozen=True, slots=True)
class GroupOptions:
    hosts: str = option(
        TEXT, "Machines to run on, this one first.", "ADDRESS,...", default="127.0.0.1"
    )
    each: int = option(COUNT, "Number of processes per machine.", default=1)
    link: str = option(
        TEXT, "Connection between them: ring, jaccl or mpi.", "NAME", default="", otherwise="ring"
    )


@click.command("launch-group", params=options(GroupOptions), context_settings=ANY_WORDS)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def launch_group(context: click.Context, command: tuple[str, ...]) -> None:
    """Run a command with its model divided among machines.

    COMMAND is one of LocalSpec's, e.g. `serve FOLDER`. MLX only. Each machine needs LocalSpec at
    the same place, the folder under the same path, and an ssh login from this one. What they send
    each other is not encrypted.
    """
    options = read(context, GroupOptions)
    hosts = options.hosts.split(",")
    if len(hosts) * options.each < 2:
        raise UsageError("a group has at least two processes: name more --hosts, or --each 2")
    for engine in engines.all_engines():
        if group := engine.spec.group:
            joining = [sys.executable, "-m", "localspec", "join-group", engine.name, *command]
            launcher = group.launcher(hosts, options.each, options.link)
            started = subprocess.run([*launcher, *joining], check=False)
            context.exit(started.returncode)
    raise UsageError("no engine here runs a model on several machines: MLX does")


@click.command("join-group", hidden=True, context_settings=ANY_WORDS)
@click.argument("engine")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def join_group(context: click.Context, engine: str, command: tuple[str, ...]) -> None:
    """Be one process of a group: lead it by running a command, or follow."""
    group = engines.engine(engine).spec.group
    assert group  # see `launch_group`
    member = group.join()
    if not member.leads:
        return member.follow()
    os.environ[MEMBERS] = str(member.size)
    root = context.find_root().command
    assert isinstance(root, click.Group)
    try:
        root.main(list(command), prog_name="localspec", standalone_mode=False)
    finally:
        member.end()
