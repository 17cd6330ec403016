"""The chat as `localspec chat` starts it, with models that say what is written here."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from localspec.apps.chat import talk
from localspec.apps.chat.command import Beginning, run_at_terminal
from localspec.apps.chat.session import Session, last
from localspec.base.errors import BackendError, UnknownModel
from localspec.console.speakers.local import LocalSpeaker
from localspec.core.proposers.first_of import FirstOf
from localspec.core.proposers.forced import ForcedProposer
from localspec.core.proposers.prediction import PredictionProposer
from localspec.core.proposers.suffix import SuffixProposer
from localspec.core.requests.engine import Engine
from localspec.core.requests.settings import Settings
from localspec.running.runtime.runtime import Runtime
from tests.apps.server.scripted import END, START, Bytes, Paused

SLOW = 0.02  # seconds that a forward of the slow model takes
NAMES = ("scripted", "slow", "stuck", "broken", "late")
REPLIES = {
    "poem": "Roses are **red**,\nviolets are `blue`.\n\n```python\nprint('sugar')\n```\n",
    "numbers": "\n".join(f"line {number}" for number in range(1, 31)),
    "json": '{"city": "Bern"}',
    "nothing": "",
}


def reply(message: str) -> str:
    if message in REPLIES:
        return REPLIES[message]
    if len(message) > 200:
        lines = message.splitlines()
        return f"{len(lines)} lines, {len(message)} characters, the last: {lines[-1]}"
    return f"You said: {message}"


def script(tokenizer: Bytes):
    """Answer the last message."""

    def logits(context: Sequence[int]):
        last = len(context) - 1 - context[::-1].index(START)
        asked = bytes(each for each in context[: last - 1][-1 << 17 :] if each < START)
        question = asked.rpartition(b"user\n")[2].decode("utf-8", "replace").strip()
        written = tokenizer.encode(reply(question))
        at = len(context) - last - 1 - len(b"assistant\n")
        array = np.zeros(tokenizer.size, np.float32)
        array[int(written[at]) if 0 <= at < len(written) else END] = 20.0
        return array

    return logits


def wait_for(place: Path) -> None:
    """Wait until a test makes a file."""
    while not place.exists():
        time.sleep(0.005)


class Waiting(Paused):
    """Answers when a test lets it."""

    def forward(self, rows):
        wait_for(Path("answers"))
        return super().forward(rows)


class Scripted:
    """A source to models that need no files."""

    def __init__(self, context: int) -> None:
        self._context = context

    def names(self) -> Sequence[str]:
        return NAMES

    def about(self, name: str) -> str:
        return f"{self._context:,} tokens" if name == "scripted" else ""

    def who_sees(self) -> str:
        return ""

    def check(self, name: str) -> None:
        if name not in NAMES:
            raise UnknownModel(f"there is no model {name!r}; there are: {', '.join(NAMES)}")

    def open(self, name: str) -> LocalSpeaker:
        if name == "broken":
            raise BackendError("its weights are of no use")
        if name == "stuck":
            time.sleep(60)
        if name == "late":
            wait_for(Path("loaded"))
        tokenizer = Bytes()
        kind = Waiting if name == "late" else Paused
        model = kind(script(tokenizer), tokenizer)
        model.context, model.slots = self._context, 1
        model.batch = 64 if name == "slow" else 4096
        model.pause = SLOW if name == "slow" else 0.0
        proposers = {
            "forced": ForcedProposer(),
            "prediction": PredictionProposer(),
            "suffix": SuffixProposer(),
        }
        runtime = Runtime(Engine(model, FirstOf(proposers), 4))
        return LocalSpeaker(name, runtime, (f"{name}, {self._context:,} tokens of context",))

    def usual(self, name: str) -> Settings:
        return Settings()


def main(model: str = "scripted", context: int = 8192, *, resume: bool = False) -> None:
    talk.is_on_battery = lambda: True  # what is read ahead would depend on how fast one types
    kept, notices = last() if resume else (None, ())
    run_at_terminal(Scripted(context), Beginning(model, kept or Session(), notices, resumes=resume))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
