"""The command `localspec launch`."""

from __future__ import annotations

import click

from localspec.apps.clients.agents import AGENTS
from localspec.apps.clients.options import AttachOptions, LaunchOptions, StartOptions
from localspec.apps.server.options import ServingOptions
from localspec.console.options import configuration
from localspec.console.options.declare import arguments, options, read
from localspec.console.options.loading import LOADING, LoadingOptions, read_loading
from localspec.console.options.sections import SectionedCommand

AGENT_ARGUMENTS = "localspec rest"


class WithRest(SectionedCommand):
    """Keeps the arguments after -- for another program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[AGENT_ARGUMENTS] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


@click.command(cls=WithRest, params=options(AttachOptions, LaunchOptions, StartOptions, *LOADING))
@click.argument("tool", type=click.Choice(list(AGENTS)))
@click.argument("model", metavar="[NAME_OR_PATH] [-- ARGUMENTS...]", default="")
@click.pass_context
def launch(context: click.Context, tool: str, model: str) -> None:
    """Run a coding agent on a model of yours, in its own terminal interface.

    It uses the server that runs already, or starts one for itself on a free port and ends it
    afterwards. Nothing of the agent's own settings is changed. What follows -- is for the agent.
    """
    from localspec.apps.clients.launch import (  # HTTP takes its time to import
        ServerRequest,
        run_agent,
        shell_lines,
    )

    agent_arguments: tuple[str, ...] = context.meta[AGENT_ARGUMENTS]
    attaching, launch_options = read(context, AttachOptions), read(context, LaunchOptions)
    server = ServerRequest(
        model=model,
        attach=attaching.attach,
        key=attaching.key or "",
        serving=serving(context),
        loading=read_loading(context),
        draft=read(context, LoadingOptions).draft,
        arguments=arguments(context, StartOptions, *LOADING),
        keeps=not launch_options.forgetful and read(context, StartOptions).cache_dir is None,
    )
    if launch_options.print:
        click.echo("\n".join(shell_lines(AGENTS[tool], agent_arguments, server)))
    else:
        context.exit(run_agent(AGENTS[tool], agent_arguments, server))


def serving(context: click.Context) -> ServingOptions:
    """Read how `localspec serve` is configured, by file and environment."""
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    commands = root.command.commands
    defaults = configuration.read(root.params["config"]).defaults("serve", commands)
    serve = commands["serve"]
    with serve.make_context("serve", ["any"], root, default_map=defaults) as serve_context:
        return read(serve_context, ServingOptions)
