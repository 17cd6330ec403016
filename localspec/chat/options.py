"""The options of `localspec chat`."""

from __future__ import annotations

from dataclasses import dataclass, field

from localspec.commands.options.declare import TEXT, flag, option
from localspec.commands.options.loading import DraftingOptions, LoadingOptions
from localspec.commands.options.reply import ReplyOptions

LAST = ""  # conversation


@dataclass(frozen=True, slots=True)
class ChatOptions:
    # With a value or without one: what follows and is no conversation is the first argument.
    resume: str | None = field(
        default=None,
        metadata={
            "type": TEXT,
            "is_flag": False,
            "flag_value": LAST,
            "default": None,
            "metavar": "[NAME]",
            "help": "Continue the last conversation, or one by its number or beginning.",
        },
    )
    system: str = option(TEXT, "Use this system prompt.", "TEXT", default="")
    lens: bool = flag("Colour each token by the proposer that drafted it.")
    attach: str | None = option(TEXT, "Talk to the server at this address, or at unix:PATH.", "URL")
    key: str | None = option(
        TEXT,
        "API key of that server. LOCALSPEC_API_KEY sets it, too.",
        envvar="LOCALSPEC_API_KEY",
        secret=True,
    )


@dataclass(frozen=True, slots=True)
class ChatCommandOptions:
    """All options of a chat, and which of them were given."""

    chat: ChatOptions
    load: LoadingOptions
    drafting: DraftingOptions
    reply: ReplyOptions
    typed: frozenset[str]  # on the command line
    chosen: frozenset[str]  # there, in the environment or in a file
