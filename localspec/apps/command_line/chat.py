"""The command `localspec chat` as the command line has it."""

from __future__ import annotations

import click

from localspec.apps.chat.options import ChatCommandOptions, ChatOptions
from localspec.console.options.declare import options, read, set_names, typed_names
from localspec.console.options.loading import LOADING, LoadingOptions, read_loading
from localspec.console.options.model_names import name_or_path
from localspec.console.options.reply import ReplyOptions
from localspec.console.options.sections import SectionedCommand

# What a chat takes of the catalogue where nobody chose: the makers' own recommendation.
RECOMMENDED = dict.fromkeys(("temperature", "top_k", "top_p", "min_p"), "the makers'")


@click.command(
    cls=SectionedCommand,
    params=options(*LOADING, ReplyOptions, ChatOptions, otherwise=RECOMMENDED),
)
@click.argument("name", metavar="[NAME_OR_PATH]", default="", shell_complete=name_or_path)
@click.argument("question", default="")
@click.pass_context
def chat(context: click.Context, name: str, question: str) -> None:
    """Talk to a model in the terminal, or ask it one question.

    With a QUESTION it answers that and exits; what comes through a pipe is put before the
    question. Without NAME_OR_PATH it is the model used last, or the best that is here.
    """
    from localspec.apps.chat.command import chat as talk  # a terminal's libraries take their time

    options = ChatCommandOptions(
        chat=read(context, ChatOptions),
        loading=read_loading(context),
        draft=read(context, LoadingOptions).draft,
        reply=read(context, ReplyOptions),
        typed=typed_names(context),
        chosen=set_names(context),
    )
    talk(options, name, question, context.obj)
