"""Near-ties: where texts part, llama-server is asked how far apart the two next tokens are.

It reads the prompt and the text up to there once more. Rounding depends on the sizes of batches, so
two servers, or one with and without drafts, part where two tokens are nearly as likely.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import httpx

from benchmarks.comparison.measure import Start, Volley, section_bodies
from benchmarks.comparison.plan import Setting
from benchmarks.comparison.sides import LLAMA_SERVER, SIDES
from benchmarks.comparison.summary import Leads, Place
from benchmarks.serving.process import post
from localspec.base.tokens import common_prefix, tokens_of

NEAR = 0.5  # in logarithms of chances: the most that rounding turned (docs/lab/rounding.md)
LIKELIEST = 10  # tokens that are asked for
DEEPEST = 2500  # tokens of a prompt that is read once more; longer ones take too long
SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Difference:
    """A reply that is not the first side's, and that one."""

    place: Place
    text: str
    other: str


def differences(volleys: Sequence[Volley]) -> Iterator[Difference]:
    """Yield the replies that are not those of the first side, prompt by prompt."""
    yardstick = volleys[0].side
    texts = {
        (volley.side, volley.round, volley.section, number): reply
        for volley in volleys
        for number, reply in enumerate(volley.replies)
    }
    for place, reply in sorted(texts.items(), key=lambda item: item[0][1:]):
        first = texts[yardstick, *place[1:]]
        if reply.text != first.text and reply.prompt_tokens <= DEEPEST:
            yield Difference(place, reply.text, first.text)


def near_ties(setting: Setting, volleys: Sequence[Volley], start: Start) -> Leads:
    """Return the replies that part from the first side's at a near-tie, with the token's lead.

    Replies that ran beside others are left out: nobody promises their texts.
    """
    parted = list(differences(volleys)) if setting.streams == 1 and not setting.temperature else []
    if not parted:
        return {}
    with (
        start(SIDES[LLAMA_SERVER], 1, setting.context) as server,
        httpx.Client(base_url=server.address, timeout=SECONDS, trust_env=False) as client,
    ):
        leads = {
            difference.place: lead(client, prompt_of(setting, difference.place), difference)
            for difference in parted
        }
    return {place: margin for place, margin in leads.items() if margin <= NEAR}


def prompt_of(setting: Setting, place: Place) -> object:
    _, number, section, reply = place
    return section_bodies(setting, number, section, 1)[reply]["messages"]


def lead(client: httpx.Client, messages: object, difference: Difference) -> float:
    """Return how much likelier one next token is than the other; infinity if it is too far."""
    prompt = post(client, "/apply-template", {"messages": messages})["prompt"]
    one, other = encode(client, difference.text), encode(client, difference.other)
    at = common_prefix(tokens_of(one), tokens_of(other))
    tokens = [*encode(client, prompt, special=True), *one[:at]]
    wish = {"n_predict": 1, "n_probs": LIKELIEST, "temperature": 0.0, "cache_prompt": True}
    places = post(client, "/completion", {**wish, "prompt": tokens})["completion_probabilities"]
    chances = {token["id"]: token["logprob"] for token in places[0]["top_logprobs"]}
    return gap(chances, one[at : at + 1], other[at : at + 1])


def encode(client: httpx.Client, text: str, *, special: bool = False) -> list[int]:
    fields = {"content": text, "add_special": special, "parse_special": special}
    tokens: list[int] = post(client, "/tokenize", fields)["tokens"]
    return tokens


def gap(chances: dict[int, float], one: Sequence[int], other: Sequence[int]) -> float:
    """Return the distance of the further of two tokens to the likeliest.

    A text that ended has no token: it is the likeliest, or the next after the other text's.
    """
    ordered = sorted(chances.values(), reverse=True)
    far = [ordered[0] - chances.get(token, -float("inf")) for token in (*one, *other)]
    if len(far) < 2 and not any(far):
        return ordered[0] - ordered[1] if far else 0.0
    return max(far)
