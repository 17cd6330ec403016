"""The command `localspec worker`: the devices of this machine, for models on another one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import click

from localspec.base.errors import UsageError
from localspec.base.system.addresses import is_loopback
from localspec.base.system.supervisor import supervise
from localspec.console.notices import tell
from localspec.console.options.declare import FOLDER, TEXT, flag, option, options, read
from localspec.console.options.size import SIZE
from localspec.interfaces.other_machines import Worker
from localspec.running.models.engines import all_engines

UNGUARDED = (
    "whoever reaches this address can read and write what is sent, and more: the protocol has no "
    "password. Better stay at 127.0.0.1 and come by a tunnel: ssh -NL {port}:127.0.0.1:{port} HERE"
)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    host: str = option(TEXT, "Address to listen at.", default="127.0.0.1")
    port: int = option(
        click.IntRange(0, 65535), "Port to listen at; 0: any free one.", default=50052
    )
    device: str = option(
        TEXT,
        "Device to offer: the CPU, or GPU number N, counted from 0.",
        "auto|cpu|N",
        default="auto",
    )
    memory: int | None = option(
        SIZE, "Memory to offer per device, e.g. 6GiB.", otherwise="all that is free"
    )
    cache: Path | None = option(FOLDER, "Folder that keeps weights, so that they are sent once.")
    verbose: bool = flag("Log of the engine on standard error.")


@click.command(params=options(WorkerOptions))
@click.pass_context
def worker(context: click.Context) -> None:
    """Let another machine's models use the devices of this one (GGUF only).

    There, give its address with --workers HOST:PORT. It serves one client at a time. The protocol
    is llama.cpp's RPC, which has no password: keep it on 127.0.0.1, and reach it from the other
    machine by `ssh -NL 50052:127.0.0.1:50052 THIS_MACHINE`.
    """
    options = read(context, WorkerOptions)
    workers = next((each.spec.workers for each in all_engines() if each.spec.workers), None)
    if workers is None:
        raise UsageError("no engine here serves devices to other machines: llama.cpp does")
    if not is_loopback(options.host):
        click.echo(f"localspec: WARNING: {UNGUARDED.format(port=options.port)}", err=True)
    child = supervise(tell)  # a driver that dies ends no worker

    def ready(line: str) -> None:
        tell(line)
        child.report_ready()

    workers.serve(Worker(**asdict(options)), ready)
