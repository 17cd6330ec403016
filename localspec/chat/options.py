"""The options of `localspec chat`."""

from __future__ import annotations

from dataclasses import dataclass, field

from localspec.commands.options.declare import TEXT, flag, option, secret
from localspec.commands.options.loading import CorpusOptions, DraftingOptions, LoadingOptions
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
            "help": "Conversation to continue, by its number or beginning; alone, the last.",
        },
    )
    system: str = option(TEXT, "System prompt.", "TEXT", default="")
    lens: bool = flag("Tokens coloured by the proposer that drafted them.")
    attach: str | None = option(TEXT, "Address of a server to talk to, or unix:PATH.", "URL")
    key: str | None = secret("API key of the server (env LOCALSPEC_API_KEY).", "LOCALSPEC_API_KEY")


@dataclass(frozen=True, slots=True)
class ChatCommandOptions:
    """All options of a chat, and which of them were given."""

    chat: ChatOptions
    load: LoadingOptions
    drafting: DraftingOptions
    corpus: CorpusOptions
    reply: ReplyOptions
    typed: frozenset[str]  # on the command line
    chosen: frozenset[str]  # there, in the environment or in a file
