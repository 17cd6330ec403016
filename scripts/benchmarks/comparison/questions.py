"""The prompts that are chosen for a comparison, and the requests that are made of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain, zip_longest

from benchmarks.comparison.task_sets import PeerPrompt
from localspec.base.errors import UsageError
from localspec.formats.templates.message import Message

MOST_LETTERS = 3500  # of a short prompt
TOKEN_LETTERS = 4.25  # of a token, on average
ROLES = ("user", "assistant")

Session = Sequence[PeerPrompt]  # turns that are asked one after the other; mostly one


def sessions(prompts: Sequence[PeerPrompt]) -> list[Session]:
    """Put a prompt that has a history to those before it."""
    groups: list[list[PeerPrompt]] = []
    for prompt in prompts:
        if prompt.history:
            groups[-1].append(prompt)
        else:
            groups.append([prompt])
    return list(groups)


def by_category(prompts: Sequence[PeerPrompt], limit: int, seed: int) -> list[Session]:
    """Choose at most `limit` sessions of each category, category after category."""
    return [session for group in shuffled(prompts, seed) for session in group[:limit]]


def mixed(prompts: Sequence[PeerPrompt], count: int, seed: int) -> list[PeerPrompt]:
    """Choose at most `count` short prompts, of all categories in turn."""
    groups = [list(chain.from_iterable(group)) for group in shuffled(prompts, seed)]
    turns = chain.from_iterable(zip_longest(*groups))
    chosen = [prompt for prompt in turns if prompt is not None][:count]
    random.Random(seed).shuffle(chosen)
    return chosen


def shuffled(prompts: Sequence[PeerPrompt], seed: int) -> list[list[Session]]:
    groups: dict[str, list[Session]] = {}
    for session in sessions(prompts):
        if len(session[0].prompt) <= MOST_LETTERS:
            groups.setdefault(session[0].category, []).append(session)
    for _, group in sorted(groups.items()):
        random.Random(seed).shuffle(group)
    return [group for _, group in sorted(groups.items())]


def long_prompts(
    prompts: Sequence[PeerPrompt], tokens: int, count: int, seed: int
) -> list[PeerPrompt]:
    """Put other prompts together to some of about so many tokens."""
    letters, made = round(tokens * TOKEN_LETTERS), []
    for number in range(count):
        parts = sorted({prompt.prompt for prompt in prompts})
        random.Random(seed + number).shuffle(parts)
        joined = "\n\n".join(parts)
        if len(joined) < letters:
            raise UsageError(
                f"{tokens:,} tokens need prompts of {letters:,} letters, there are {len(joined):,}:"
                " name more with --prompts"
            )
        content = f"{joined[:letters]}\n\nWhat is all of this about? Tell it in full."
        made.append(PeerPrompt("long", content))
    return made


def body(
    prompt: PeerPrompt, mark: str, max_tokens: int, temperature: float, *, whole: bool = False
) -> dict[str, object]:
    """Make a request that begins as no other session does, so that no cache holds its beginning.

    A `whole` reply has a length of its own, from half of `max_tokens` to three halves: near-ties
    would else decide how much a server has to do.
    """
    if whole:
        max_tokens = round(max_tokens * (0.5 + random.Random(mark).random()))
    asked: dict[str, object] = {
        "messages": messages(prompt, mark),
        "max_tokens": max_tokens,
        "temperature": temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": whole,
    }
    if temperature > 0:
        seed = random.Random(mark).getrandbits(31)
        asked |= {"top_k": 40, "top_p": 0.95, "min_p": 0.0, "seed": seed}
    return asked


def messages(prompt: PeerPrompt, mark: str) -> list[Message]:
    first, *rest = (*prompt.history, prompt.prompt)
    turns = [f"({mark}) {first}", *rest]
    return [{"role": ROLES[at % 2], "content": turn} for at, turn in enumerate(turns)]
