"""Runs a coding agent with a server of LocalSpec behind it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import click

from localspec.backend import CONTEXT
from localspec.chat import choice
from localspec.clients.agents import Agent, Setup
from localspec.clients.endpoint import Endpoint
from localspec.clients.running import answering, found
from localspec.clients.started import SLOTS, Start, free_port, started
from localspec.commands.configuration import HIDDEN
from localspec.commands.interactive_load import locate_or_pull
from localspec.errors import DoesNotFit, UsageError
from localspec.memory.planner import plan_pair
from localspec.runtime.loading import Loading, choose_proposers
from localspec.runtime.pair_files import PairFiles
from localspec.server.options import FOR_AGENTS, ServingOptions
from localspec.system.signals import handled, leaving

LARGE = 65_536  # tokens of context, by which an agent need not summarise so soon


@dataclass(frozen=True, slots=True)
class Wanted:
    """The server that an agent is to have."""

    model: str  # empty: any
    attach: str | None
    key: str
    serving: ServingOptions  # as `localspec serve` is configured
    loading: Loading
    draft: str | None
    arguments: tuple[str, ...]  # for a server that is started


def launch(agent: Agent, arguments: Sequence[str], wanted: Wanted) -> int:
    """Run an agent in the foreground, with a server for as long as it takes; its exit code."""
    program = shutil.which(agent.program)
    if program is None:
        raise UsageError(f"{agent.program} is not installed: {agent.install}")
    with leaving(), tempfile.TemporaryDirectory(prefix="localspec-") as name:
        folder = Path(name)
        with served(wanted, folder) as server:
            setup = agent.setup(server, folder)
            for path, text in setup.files.items():
                path.write_text(text, encoding="utf-8")
            return foreground([program, *setup.arguments, *arguments], setup)


@contextmanager
def served(wanted: Wanted, folder: Path) -> Iterator[Endpoint]:
    server = existing(wanted)
    if server is not None:
        tell(server, "that runs already", wanted)
        yield server
        return
    start = beginning(wanted)
    click.echo(f"localspec: loading {start.model}", err=True)
    with started(start, folder) as server:
        tell(server, "for as long as this takes", wanted)
        yield server


def existing(wanted: Wanted) -> Endpoint | None:
    if wanted.attach is not None:
        return answering(wanted.attach, wanted.key, wanted.model)
    return found(wanted.serving, wanted.key, wanted.model)


def tell(server: Endpoint, how: str, wanted: Wanted) -> None:
    what = f"{server.model} with {server.context:,} tokens of context"
    click.echo(f"localspec: {what} at {server.address}, {how}", err=True)
    asked = wanted.loading.options.context or 0
    if asked > server.context:
        have = f"--context {asked} asks for more than that server has"
        click.echo(f"localspec: {have}: {server.context:,} tokens", err=True)
    if server.context < FOR_AGENTS:
        few = f"agents send 8,000 to 20,000 tokens with a first request, and need {FOR_AGENTS:,}"
        click.echo(f"localspec: {few} of context and more", err=True)


def beginning(wanted: Wanted) -> Start:
    """Choose the model that is named, or else was used last, and its context."""
    name = wanted.model or choice.without_asking(wanted.loading)
    if not name:
        raise UsageError("there is no model here yet: name one; `localspec list` tells of some")
    locate_or_pull(name, wanted.loading)
    asked = wanted.loading.options.context
    context = asked or roomy(name, wanted)
    larger = ("--context", str(context)) if not asked and context == LARGE else ()
    return Start(name, (*wanted.arguments, *larger), context, free_port())


def roomy(name: str, wanted: Wanted, large: int = LARGE) -> int:
    """Choose a large context if it takes no concession, else what is planned by default."""
    loading = replace(wanted.loading, options=replace(wanted.loading.options, slots=SLOTS))
    places = PairFiles.locate(name, wanted.draft, loading.backend, alone=loading.alone)
    with places.examine() as examined:
        trained = examined.target.footprint().context or large
        usual = min(trained, CONTEXT)
        if trained < large:
            return usual
        _, options = choose_proposers(examined, loading)
        options = replace(options, context=large)
        try:
            plan = plan_pair(*examined, options, loading.limits, insists=loading.insists)
        except DoesNotFit:
            return usual
    return usual if plan.concessions else large


def foreground(command: Sequence[str], setup: Setup) -> int:
    """Give the terminal, and Ctrl-C with it, to a program; return its exit code."""

    def leave_to_program(number: int, frame: FrameType | None) -> None:
        pass

    with handled(leave_to_program, "SIGINT"):
        process = subprocess.Popen(command, env=environment(setup))
        try:
            code = process.wait()
        finally:
            process.terminate()
            process.wait()
    return 128 - code if code < 0 else code


def environment(setup: Setup) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in setup.variables}
    return kept | {k: v for k, v in setup.variables.items() if v is not None}


def shown(agent: Agent, arguments: Sequence[str], wanted: Wanted) -> Iterator[str]:
    """Write what would be run as lines of a shell."""
    server = existing(wanted)
    if server is None:
        start = beginning(wanted)
        yield shlex.join(["localspec", *start.arguments])
        server = Endpoint(start.address, start.model, start.context)
    server = replace(server, key=server.key and HIDDEN)
    folder = Path(tempfile.gettempdir()) / "localspec-launch"
    setup = agent.setup(server, folder)
    for path, text in setup.files.items():
        yield f"# {path}"
        yield from (f"#   {line}" for line in text.splitlines())
    gone = [f"-u {name}" for name, value in setup.variables.items() if value is None]
    told = [f"{k}={shlex.quote(v)}" for k, v in setup.variables.items() if v is not None]
    command = shlex.join([agent.program, *setup.arguments, *arguments])
    yield " \\\n  ".join(["env", *gone, *told, command])
    if shutil.which(agent.program) is None:
        yield f"# {agent.program} is not installed: {agent.install}"
