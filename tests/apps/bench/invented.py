"""Replies with figures that can be checked by hand."""

from __future__ import annotations

from localspec.apps.bench.prompts import Prompt
from localspec.apps.bench.reply import MeasuredReply, Round
from localspec.apps.bench.verdict import Speeds
from localspec.base.system.machine_load import MachineLoad

READING = Round(0, 0, 1, 0.5, 0.45)
PLAIN_ROUND = Round(0, 0, 1, 0.010, 0.009)  # 100 tokens a second
HALF_RIGHT = Round(4, 2, 3, 0.020, 0.017)  # 150 tokens a second
ALL_RIGHT = Round(4, 4, 5, 0.020, 0.017)  # 250 tokens a second


def prompt(category="chat", number=1):
    return Prompt(category, ({"role": "user", "content": "say something"},), number=number)


def reply(mode, *rounds, asked=None, repeat=0, tokens=None, text="a b c", finish="length"):
    emitted = 1 + sum(each.emitted for each in rounds)
    return MeasuredReply(
        mode=mode,
        prompt=asked or prompt(),
        repeat=repeat,
        prompt_tokens=3,
        tokens=tuple(range(emitted)) if tokens is None else tokens,
        text=text,
        finish=finish,
        rounds=(READING, *rounds),
    )


def plain(*rounds, **fields):
    """The two plain replies to a prompt."""
    return [reply(mode, *rounds, **fields) for mode in ("plain", "plain again")]


def run():
    """Two categories in two modes; the second chat prompt is answered in a loop."""
    second, edit = prompt("chat", 2), prompt("edit", 1)
    loop = "over and over, " * 8
    return [
        *plain(*[PLAIN_ROUND] * 8),
        reply("ngram:4", HALF_RIGHT, ALL_RIGHT),
        reply("ngram:4", *[ALL_RIGHT] * 3, asked=second, text=loop),
        *plain(*[PLAIN_ROUND] * 15, asked=second, text=loop),
        *plain(*[PLAIN_ROUND] * 6, asked=edit),
        reply("ngram:4", *[HALF_RIGHT] * 2, asked=edit, tokens=(7, 7, 7, 7, 7, 7, 7)),
    ]


MODES = ("plain", "ngram:4", "plain again")
HEADING = (
    ("command", "localspec bench MODEL"),
    ("model", "tiny, Q4_1"),
    ("machine", "a machine"),
    ("sampling", "greedy"),
)
QUIET = MachineLoad(own=0.9)
CROWD = MachineLoad(own=0.5, others=0.45)


def speeds(kind="chat", ratio=1.2, noise=0.0, tokens=48, plain=10.0, per_round=2.0, **modes):
    """A prompt's speeds; plain decoding is slower at first by this share."""
    modes = modes or {"auto": ratio}
    before, after = plain / (1 + noise / 2), plain * (1 + noise / 2)
    rates = {mode: plain * each for mode, each in modes.items()}
    return Speeds(kind, tokens, before, after, rates, dict.fromkeys(rates, per_round))
