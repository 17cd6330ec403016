"""The options of `localspec chat`."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.commands.options.declare import TEXT, flag, option
from localspec.commands.options.loading import DraftingOptions, LoadingOptions
from localspec.commands.options.reply import ReplyOptions


@dataclass(frozen=True, slots=True)
class ChatOptions:
    resume: bool = flag("Continue the last conversation.")
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
class ChatWanted:
    """All options of a chat, and which of them were given."""

    chat: ChatOptions
    load: LoadingOptions
    drafting: DraftingOptions
    reply: ReplyOptions
    typed: frozenset[str]  # on the command line
    chosen: frozenset[str]  # there, in the environment or in a file
