"""Replies that follow a JSON schema, beside free replies to the same requests."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import httpx
import jsonschema

from benchmarks.serving.asking import Body, StreamedReply, apart, greedy, hear, user
from benchmarks.serving.process import Bench
from benchmarks.serving.table import median, milliseconds, table

CONTEXT = 2048
LENGTH = 160
SUBJECTS = (
    "a ferry captain",
    "a school cook",
    "a bee keeper",
    "a night nurse",
    "a piano tuner",
    "a tram driver",
    "a glass blower",
)
HEAD = (
    "schema",
    "free, tokens/s",
    "in schema, tokens/s",
    "ratio",
    "without drafts",
    "first token, free",
    "in schema",
    "complete and valid",
    "accepted of drafted, in schema",
)
DRAFT_COUNTS = re.compile(r'localspec_(drafted|accepted)_total{.*proposer="([^"]+)".*} (\S+)')

Schema = Mapping[str, object]


def record(**properties: Schema) -> Schema:
    """Make a schema of an object that has these properties and nothing else."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def text(letters: int) -> Schema:
    return {"type": "string", "maxLength": letters}


def some(items: Schema, least: int, most: int) -> Schema:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def number(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


CASES: Mapping[str, tuple[str, Schema]] = {
    "record": (
        "Write a JSON object that describes {}: full_name, age, years_of_experience, home_town "
        "and favourite_tool.",
        record(
            full_name=text(40),
            age=number(18, 99),
            years_of_experience=number(0, 60),
            home_town=text(30),
            favourite_tool=text(30),
        ),
    ),
    "list of records": (
        "Write a JSON object with the tasks of {} today: each has a title, a priority (low, "
        "medium or high), minutes and done.",
        record(
            tasks=some(
                record(
                    title=text(40),
                    priority={"enum": ["low", "medium", "high"]},
                    minutes=number(1, 480),
                    done={"type": "boolean"},
                ),
                3,
                4,
            )
        ),
    ),
    "nested": (
        "Write a JSON object for an order of {}: customer with name and address (street, town, "
        "postcode), items with article and quantity, and whether it is express.",
        record(
            customer=record(
                name=text(30),
                address=record(
                    street=text(30),
                    town=text(20),
                    postcode={"type": "string", "pattern": "^[0-9]{5}$"},
                ),
            ),
            items=some(record(article=text(30), quantity=number(1, 50)), 1, 3),
            express={"type": "boolean"},
        ),
    ),
    "judgement": (
        "Is the work of {} hard? Answer with a JSON object: verdict (yes, no or unclear), "
        "confidence_in_per_cent and reason.",
        record(
            verdict={"enum": ["yes", "no", "unclear"]},
            confidence_in_per_cent=number(0, 100),
            reason=text(160),
        ),
    ),
    "words": (
        "Write a JSON object with ten words that {} uses every day.",
        record(words=some(text(20), 10, 10)),
    ),
}


@dataclass(frozen=True, slots=True)
class ReplyPair:
    """A reply without and one with the schema, also without drafts; and the draft counts."""

    free: StreamedReply
    bound: StreamedReply
    plain_free: StreamedReply
    plain_bound: StreamedReply
    drafts: Counter[tuple[str, str]]
    valid: bool


def measure(bench: Bench) -> bool:
    """Print the table; False if replies in any schema come slower than free ones."""
    options = ("--slots", "2", "--context", str(CONTEXT))
    with bench.ours("ours", *options) as server:
        pairs_by_case = asyncio.run(ask(server.client(), min(bench.rounds, len(SUBJECTS))))
    print("## Schemas\n")
    print(table(HEAD, [row(name, pairs) for name, pairs in pairs_by_case.items()]))
    print("\nTokens a second after the first round; first tokens in milliseconds.")
    return all(ratio(pairs) >= 1 for pairs in pairs_by_case.values())


async def ask(client: httpx.AsyncClient, rounds: int) -> dict[str, list[ReplyPair]]:
    pairs_by_case: dict[str, list[ReplyPair]] = {name: [] for name in CASES}
    async with client:
        await hear(client, greedy([user("Say hello.")], 8))
        for at in range(rounds):
            for name in CASES:
                pairs_by_case[name].append(await pair(client, name, at))
    return pairs_by_case


async def pair(client: httpx.AsyncClient, name: str, at: int) -> ReplyPair:
    """Ask for all four replies, in an order that alternates; none finds its prompt in a cache."""
    request, schema = CASES[name]
    named = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
    kinds: list[Body] = [{}, {"response_format": named}]
    ways: list[Body] = [{}, {"localspec": {"plain": True}}]
    heard: dict[tuple[int, int], StreamedReply] = {}
    drafts = Counter[tuple[str, str]]()
    for plain, bound in product((0, 1), (at % 2, 1 - at % 2)):
        body = greedy(
            [apart(4 * at + 2 * plain + bound), user(request.format(SUBJECTS[at]))], LENGTH
        )
        before = await drafted(client)
        heard[plain, bound] = await hear(client, {**body, **kinds[bound], **ways[plain]})
        if bound and not plain:
            drafts = await drafted(client)
            drafts.subtract(before)
    valid = follows(heard[0, 1].text, schema)
    return ReplyPair(heard[0, 0], heard[0, 1], heard[1, 0], heard[1, 1], drafts, valid)


async def drafted(client: httpx.AsyncClient) -> Counter[tuple[str, str]]:
    """Read the tokens drafted and accepted until now, by proposer."""
    counts = Counter[tuple[str, str]]()
    for kind, who, figure in DRAFT_COUNTS.findall((await client.get("/metrics")).text):
        counts[who, kind] += int(float(figure))
    return counts


def follows(reply: str, schema: Schema) -> bool:
    try:
        jsonschema.validate(json.loads(reply), schema)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def row(name: str, pairs: Sequence[ReplyPair]) -> list[str]:
    free, bound = [pair.free for pair in pairs], [pair.bound for pair in pairs]
    drafts = sum((pair.drafts for pair in pairs), Counter[tuple[str, str]]())
    whom = sorted({who for who, _ in drafts})
    return [
        name,
        *(f"{median([rate(reply) for reply in side]):.1f}" for side in (free, bound)),
        f"{ratio(pairs):.2f}",
        f"{median([rate(pair.plain_bound) / rate(pair.plain_free) for pair in pairs]):.2f}",
        *(milliseconds([reply.first for reply in side], 50)[0] for side in (free, bound)),
        f"{sum(pair.valid for pair in pairs)} of {len(pairs)}",
        ", ".join(f"{who} {drafts[who, 'accepted']} of {drafts[who, 'drafted']}" for who in whom),
    ]


def rate(heard: StreamedReply) -> float:
    return heard.timings["predicted_per_second"] or 0.0


def ratio(pairs: Sequence[ReplyPair]) -> float:
    return median([rate(pair.bound) / rate(pair.free) for pair in pairs])
