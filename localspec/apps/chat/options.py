"""The options of `localspec chat`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localspec.console.options.declare import TEXT, flag, option, optional, secret
from localspec.console.options.reply import ReplyOptions

if TYPE_CHECKING:
    from localspec.running.runtime.loading import Loading

LAST = ""  # conversation


@dataclass(frozen=True, slots=True)
class ChatOptions:
    # What follows and is no conversation is the first argument.
    resume: str | None = optional(
        TEXT,
        "Conversation to continue, by its number or beginning; alone, the last.",
        "[NAME]",
        alone=LAST,
    )
    system: str = option(TEXT, "System prompt.", "TEXT", default="")
    lens: bool = flag("Tokens coloured by the proposer that drafted them.")
    attach: str | None = option(TEXT, "Address of a server to talk to, or unix:PATH.", "URL")
    key: str | None = secret("API key of the server (env LOCALSPEC_API_KEY).", "LOCALSPEC_API_KEY")


@dataclass(frozen=True, slots=True)
class ChatCommandOptions:
    """All options of a chat, and which of them were given."""

    chat: ChatOptions
    loading: Loading
    draft: str | None
    reply: ReplyOptions
    typed: frozenset[str]  # on the command line
    chosen: frozenset[str]  # there, in the environment or in a file
