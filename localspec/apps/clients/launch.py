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

from localspec.apps.chat import choice
from localspec.apps.clients.agents import Agent, Setup
from localspec.apps.clients.endpoint import Endpoint
from localspec.apps.clients.running import configured_endpoint, endpoint_at
from localspec.apps.clients.started import SLOTS, Start, free_port, run_server
from localspec.apps.server.options import FOR_AGENTS, ServingOptions
from localspec.base.errors import DoesNotFit, UsageError
from localspec.base.system import folders
from localspec.base.system.signals import ENDINGS, handled, held_back, leaving
from localspec.console.options.configuration import HIDDEN
from localspec.console.questions.interactive_load import locate_or_pull
from localspec.interfaces.backend import CONTEXT
from localspec.running.memory.planner import plan_pair
from localspec.running.models.locate import locate
from localspec.running.models.ollama_names import listed_name
from localspec.running.runtime.drafter_choice import pair_files
from localspec.running.runtime.loading import Loading, choose_proposers

KEPT = "4GiB"  # of prompts, on disk
LARGE_CONTEXT = 65_536  # tokens of context, by which an agent need not summarise so soon


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """The server to find or to start for an agent."""

    model: str  # empty: any
    attach: str | None
    key: str
    serving: ServingOptions  # as `localspec serve` is configured
    loading: Loading
    draft: str | None
    arguments: tuple[str, ...]  # for a server that is started
    keeps: bool = False  # whether that keeps prompts on disk, where nothing else is configured


def run_agent(agent: Agent, arguments: Sequence[str], request: ServerRequest) -> int:
    """Run an agent in the foreground, with its server; return its exit code."""
    program = shutil.which(agent.program)
    if program is None:
        raise UsageError(f"{agent.program} is not installed: {agent.install}")
    with leaving(), tempfile.TemporaryDirectory(prefix="localspec-") as name:
        folder = Path(name)
        with agent_server(request, folder) as server:
            setup = agent.setup(server, folder)
            for path, text in setup.files.items():
                path.write_text(text, encoding="utf-8")
            return foreground([program, *setup.arguments, *arguments], setup)


@contextmanager
def agent_server(request: ServerRequest, folder: Path) -> Iterator[Endpoint]:
    server = running_endpoint(request)
    if server is not None:
        report(server, "already running", request)
        yield server
        return
    start = plan_start(request)
    click.echo(f"localspec: loading {start.model}", err=True)
    with run_server(start, folder) as server:
        report(server, "until the agent ends", request)
        yield server


def running_endpoint(request: ServerRequest) -> Endpoint | None:
    if request.attach is not None:
        return endpoint_at(request.attach, request.key, request.model)
    return configured_endpoint(request.serving, request.key, request.model)


def report(server: Endpoint, how: str, request: ServerRequest) -> None:
    model = f"{server.model} with {server.context:,} tokens of context"
    click.echo(f"localspec: {model} at {server.address}, {how}", err=True)
    context = request.loading.options.context or 0
    if context > server.context:
        limit = f"it has {server.context:,} tokens of context, fewer than --context {context}"
        click.echo(f"localspec: {limit}", err=True)
    if server.context < FOR_AGENTS:
        few = f"agents send 8,000 to 20,000 tokens with a first request, and need {FOR_AGENTS:,}"
        click.echo(f"localspec: {few} of context and more", err=True)


def plan_start(request: ServerRequest) -> Start:
    """Choose the named model, else the one used last, and its context."""
    name = listed_name(request.model) or choice.without_asking(request.loading)
    if not name:
        raise UsageError("no model is installed yet: name one of `localspec list`")
    locate_or_pull(name, request.loading)
    requested = request.loading.options.context
    context = requested or choose_context(name, request)
    larger = ("--context", str(context)) if not requested and context == LARGE_CONTEXT else ()
    return Start(name, (*request.arguments, *larger, *prompt_cache(request)), context, free_port())


def prompt_cache(request: ServerRequest) -> tuple[str, ...]:
    """Keep what is read for the next time: an agent begins with the same 10,000 tokens."""
    if not request.keeps or request.serving.cache_dir is not None:
        return ()
    return ("--cache-dir", str(folders.cache() / "prompts"), "--cache-size", KEPT)


def choose_context(name: str, request: ServerRequest, large: int = LARGE_CONTEXT) -> int:
    """Choose a large context if the plan needs no concession for it, else the default."""
    loading = replace(request.loading, options=replace(request.loading.options, slots=SLOTS))
    files = pair_files(locate(name, loading.backend), request.draft, loading)
    with files.examine() as examined:
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

    process: subprocess.Popen[bytes] | None = None
    with handled(leave_to_program, "SIGINT"):
        try:
            with held_back(*ENDINGS):  # else they could come while the program is started
                process = subprocess.Popen(command, env=environment(setup))
            code = process.wait()
        finally:
            if process:
                process.terminate()
                process.wait()
    return 128 - code if code < 0 else code


def environment(setup: Setup) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if k not in setup.variables}
    return inherited | {k: v for k, v in setup.variables.items() if v is not None}


def shell_lines(agent: Agent, arguments: Sequence[str], request: ServerRequest) -> Iterator[str]:
    """Write the commands that `launch` would run, as lines of a shell."""
    server = running_endpoint(request)
    if server is None:
        start = plan_start(request)
        yield shlex.join(["localspec", *start.arguments])
        server = Endpoint(start.address, start.model, start.context)
    server = replace(server, key=server.key and HIDDEN)
    folder = Path(tempfile.gettempdir()) / "localspec-launch"
    setup = agent.setup(server, folder)
    for path, text in setup.files.items():
        yield f"# {path}"
        yield from (f"#   {line}" for line in text.splitlines())
    unset = [f"-u {name}" for name, value in setup.variables.items() if value is None]
    variables = [f"{k}={shlex.quote(v)}" for k, v in setup.variables.items() if v is not None]
    command = shlex.join([agent.program, *setup.arguments, *arguments])
    yield " \\\n  ".join(["env", *unset, *variables, command])
    if shutil.which(agent.program) is None:
        yield f"# {agent.program} is not installed: {agent.install}"
