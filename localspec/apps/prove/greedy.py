"""Greedy texts compared with and without speculation; a difference is rounding, or a defect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from localspec.apps.prove.cause import cause
from localspec.apps.prove.proposers import Proposers
from localspec.apps.prove.runs import ProofReply, ReplyRequest, run
from localspec.base.tokens import common_prefix, tokens_of
from localspec.interfaces.backend import Model
from localspec.interfaces.proposer import Proposer


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token that differs from plain decoding, and why."""

    place: int  # in the reply, from 1
    plain: str
    speculative: str
    margin: float | None  # between the two highest logits in plain decoding
    explained: bool  # the shape of the batches makes the difference, and nothing else
    why: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """One speculative reply compared with the plain one."""

    proposer: str
    prompt: int  # its number, from 1
    together: int  # how many replies were written at once
    depth: int
    drafted: int
    accepted: int
    difference: Difference | None

    @property
    def defective(self) -> bool:
        return self.difference is not None and not self.difference.explained


@dataclass(frozen=True, slots=True)
class Group:
    """Replies to be written at once: prompts from `first` on."""

    proposer: str
    first: int
    plain: Sequence[ProofReply]
    depths: Sequence[int]


def compare(
    model: Model, plain: Sequence[ProofReply], proposers: Proposers, tokens: int
) -> Iterator[Comparison]:
    """Run every proposer with every prompt, alone and beside others, at every depth in turn.

    All have had a prompt, alone and beside others, before any has the next ones.
    """
    groups = [
        (first, size) for size in sizes(model, len(plain)) for first in range(0, len(plain), size)
    ]
    for first, size in sorted(groups):
        some = plain[first : first + size]
        for shift, (name, make) in enumerate(proposers.items()):
            # The usual tentative is 8: by threes each proposer starts at another depth.
            depths = [1 + (first + at + 3 * shift) % model.tentative for at in range(len(some))]
            yield from _compare(model, make(), Group(name, first, some, depths), tokens)


def sizes(model: Model, prompts: int) -> list[int]:
    """Choose how many replies to write at once: one, and as many as there is room for."""
    return sorted({1, max(1, min(model.slots // 2, prompts))})


def _compare(model: Model, proposer: Proposer, group: Group, tokens: int) -> Iterator[Comparison]:
    requests = [
        ReplyRequest(tokens_of(reply.text[: reply.prompt]), tokens, depth)
        for reply, depth in zip(group.plain, group.depths, strict=True)
    ]
    for at, reply in enumerate(run(model, proposer, requests)):
        yield Comparison(
            proposer=group.proposer,
            prompt=group.first + at + 1,
            together=len(requests),
            depth=group.depths[at],
            drafted=reply.drafted,
            accepted=reply.accepted,
            difference=differ(model, group.plain[at], reply),
        )


def differ(model: Model, plain: ProofReply, reply: ProofReply) -> Difference | None:
    """Find the first place where a reply is not the plain one, or not what the model answered."""
    at = common_prefix(tokens_of(plain.text), tokens_of(reply.text))
    for either, name in ((plain, "plain decoding"), (reply, "speculation")):
        if (wrong := first_unfounded(either)) is not None:
            why = f"{name} did not say what the model answered to the text before"
            return _difference(model, plain, reply, wrong, why)
    if at == len(plain.text) == len(reply.text):
        return None
    if at == min(len(plain.text), len(reply.text)):
        return _difference(model, plain, reply, at, "one of the two ended there, and should not")
    reason = cause(model, plain, reply, at)
    return _difference(model, plain, reply, at, reason.why, explained=reason.rounding)


def first_unfounded(reply: ProofReply) -> int | None:
    """Find the first token that was not the model's answer to the text before it."""
    for at in range(reply.prompt, len(reply.text)):
        if at not in reply.answers or reply.answers[at].top_two.best != reply.text[at]:
            return at
    return None


def spelling(model: Model, token: int) -> str:
    text = model.tokenizer.token_bytes(token).decode("utf-8", "backslashreplace")
    return text or model.tokenizer.token_text(token)


def _difference(
    model: Model,
    plain: ProofReply,
    reply: ProofReply,
    at: int,
    why: str,
    *,
    explained: bool = False,
) -> Difference:
    one, other = (
        spelling(model, either.text[at]) if at < len(either.text) else "(the end)"
        for either in (plain, reply)
    )
    margin = plain.answers[at].top_two.lead if at in plain.answers else None
    return Difference(at - reply.prompt + 1, one, other, margin, explained, why)
