"""The `localspec` command."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from localspec.apps.command_line.extras import install_command
from localspec.apps.command_line.lazy_group import LazyCommands, LazyGroup
from localspec.base.errors import LocalSpecError, UsageError
from localspec.base.system import standard_streams
from localspec.base.system.supervisor import Supervise, supervise, unsupervised
from localspec.console.options import configuration
from localspec.console.options.declare import READABLE

FAILED, USAGE, INTERRUPTED = 1, 2, 130
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # on the disk, and within quotas and limits
REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)  # a file, by the system


def main() -> None:
    """Run the command line; commands that load a model fork, to report an engine's death."""
    standard_streams.make_usable()
    sys.exit(run(sys.argv[1:], partial(supervise, report_death)))


def report_death(ending: str) -> None:
    """Report that a signal ended an engine."""
    advice = "if a graphics card or its driver failed, `--device cpu` does without"
    click.echo(f"localspec: {ending}; {advice}", err=True)
    from localspec.base.system import (
        defects,  # whose imports a run that goes well need not wait for
    )

    defects.keep_death(ending)


def run(arguments: Sequence[str], supervise: Supervise = unsupervised) -> int:
    """Run one command; 0, or 1 failed, 2 wrong usage, 130 interrupted, with one line on stderr."""
    try:
        code = commands.main(
            list(arguments), prog_name="localspec", standalone_mode=False, obj=supervise
        )
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        if origin := configuration.origin(error):
            click.echo(f"localspec: {origin}", err=True)
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except ModuleNotFoundError as error:
        install = install_command(error.name or "")
        if not install:
            raise
        click.echo(f"localspec: {error.name} is not installed: {install}", err=True)
        return FAILED
    except LocalSpecError as error:
        click.echo(f"localspec: {error}", err=True)
        keep_defect(error)
        return USAGE if isinstance(error, UsageError) else FAILED
    except BrokenPipeError:  # who read the output has gone
        standard_streams.discard_output()
        return FAILED
    except Exception as error:
        keep_defect(error)
        if not (isinstance(error, OSError) and report_refusal(error)):
            raise
        return FAILED
    return code or 0


def report_refusal(error: OSError) -> bool:
    """Report what the system refused; False for errors that are defects."""
    if error.errno in NO_ROOM:
        standard_streams.discard_output()
        file = error.filename or "a file, or the output,"
        click.echo(f"localspec: {file} cannot be written: {error.strerror}", err=True)
        return True
    if error.errno in REFUSED and error.filename:
        click.echo(f"localspec: {error.strerror}: {error.filename}", err=True)
        return True
    return False


def keep_defect(error: Exception) -> None:
    """Keep an error for `doctor --report`."""
    from localspec.base.system import (
        defects,  # whose imports a run that goes well need not wait for
    )

    defects.keep(error)


def print_manual(context: click.Context, _: click.Parameter, requested: bool) -> None:
    """Print the manual page, and exit."""
    if requested:
        from localspec.apps.command_line.manual import manual  # all commands are imported for it

        click.echo(manual(context), nl=False)
        context.exit()


CONTEXT = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "auto_envvar_prefix": configuration.PREFIX,
}


@click.group(cls=LazyGroup, commands=LazyCommands(), context_settings=CONTEXT)
@click.option("--config", type=READABLE, help="File of options, instead of the user's own.")
@click.option(
    "--man",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    allow_from_autoenv=False,
    callback=print_manual,
    help="Print the manual page, for man(1), and exit.",
)
@click.version_option(package_name="localspec", allow_from_autoenv=False)
@click.pass_context
def commands(context: click.Context, config: Path | None) -> None:
    """Run language models on this machine, faster, and change nothing they say."""
    name = context.invoked_subcommand or ""
    file = configuration.read(config)
    context.default_map = {name: file.defaults(name, commands.commands)}
    context.obj = context.obj or unsupervised
