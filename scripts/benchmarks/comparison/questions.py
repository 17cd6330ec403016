"""The prompts of a comparison by category, each under a mark of its own."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from localspec.bench import prompts
from localspec.bench.prompts import TEXTS
from localspec.errors import UsageError
from localspec.templates.message import Message, text_of

CONVERSATION = "conversation"
CATEGORIES: Mapping[str, str] = {  # of files, and what they are called in tables
    "translation": "translation",
    "translate": "translation",
    "qa": "questions",
    "rag": "retrieval",
    "summarization": "summarisation",
    "summarise": "summarisation",
    "math_reasoning": "mathematics",
    "math": "mathematics",
    "reason": "mathematics",
    "coding": "coding",
    "code": "coding",
    "extraction": "extraction",
    "extract": "extraction",
    "edit": "code edit",
}
REPEATING = ("code edit", "extraction")  # replies that say again what the prompt says
MOST_LETTERS = 3500  # of a short prompt
LONG_LETTERS = 17_000  # about 4,000 tokens
QUESTIONS = (
    "who wrote the first dictionary of the english language",
    "what is the largest lake in africa by area",
    "why does bread rise when it is left in a warm place",
    "which planets of the solar system have rings",
)
ABOUT_DOCUMENTS = (
    ("ferry.txt", "When does the ferry leave, and what may delay it?"),
    ("lighthouse.txt", "What is said about how the lighthouse was built?"),
    ("minutes.txt", "What was decided, and by whom?"),
    ("letter.txt", "What does the writer of the letter want?"),
)


@dataclass(frozen=True, slots=True)
class PeerPrompt:
    category: str
    prompt: str


def read(path: Path | None) -> list[PeerPrompt]:
    """Return the prompts of a file, with LocalSpec's own repetitive ones; else all its own."""
    own = [*map(of_prompt, prompts.built_in()), *asked_of_documents()]
    if path is None:
        return own
    return [*from_file(path), *(question for question in own if question.category in REPEATING)]


def from_file(path: Path) -> list[PeerPrompt]:
    """Read JSON lines with `category`, and `turns` (of which the first is asked) or `prompt`."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise UsageError(f"prompts cannot be read from {path}: {error}") from error
    if not any(isinstance(entry, dict) and "turns" in entry for entry in entries):
        return [of_prompt(prompt) for prompt in prompts.read(path)]
    try:
        return [
            PeerPrompt(CATEGORIES.get(entry["category"], CONVERSATION), str(entry["turns"][0]))
            for entry in entries
        ]
    except (KeyError, IndexError, TypeError) as error:
        raise UsageError(f"{path} has a line without category or turns") from error


def of_prompt(prompt: prompts.Prompt) -> PeerPrompt:
    content = "\n\n".join(text_of(message) for message in prompt.messages)
    return PeerPrompt(CATEGORIES.get(prompt.category, CONVERSATION), content)


def asked_of_documents() -> Iterator[PeerPrompt]:
    """Ask without and with a document, which the prompts of `localspec bench` lack."""
    for question in QUESTIONS:
        yield PeerPrompt("questions", question)
    for name, ask in ABOUT_DOCUMENTS:
        document = (TEXTS / "documents" / name).read_text(encoding="utf-8")
        yield PeerPrompt("retrieval", f"{document}\n\n{ask}")


def by_category(questions: Sequence[PeerPrompt], limit: int, seed: int) -> list[PeerPrompt]:
    """Choose at most `limit` short prompts of each category, category after category."""
    return [question for group in shuffled(questions, seed) for question in group[:limit]]


def mixed(questions: Sequence[PeerPrompt], count: int, seed: int) -> list[PeerPrompt]:
    """Choose `count` short prompts, of all categories in turn."""
    turns = chain.from_iterable(zip_longest(*shuffled(questions, seed)))
    chosen = [question for question in turns if question is not None][:count]
    if len(chosen) < count:
        raise SystemExit(f"{count} different prompts are wanted, {len(chosen)} are there")
    random.Random(seed).shuffle(chosen)
    return chosen


def shuffled(questions: Sequence[PeerPrompt], seed: int) -> list[list[PeerPrompt]]:
    groups: dict[str, list[PeerPrompt]] = {}
    for question in questions:
        if len(question.prompt) <= MOST_LETTERS:
            groups.setdefault(question.category, []).append(question)
    for _, group in sorted(groups.items()):
        random.Random(seed).shuffle(group)
    return [group for _, group in sorted(groups.items())]


def long_prompts(questions: Sequence[PeerPrompt], count: int, seed: int) -> list[PeerPrompt]:
    """Put other prompts together to some of about 4,000 tokens."""
    made = []
    for number in range(count):
        parts = sorted({question.prompt for question in questions})
        random.Random(seed + number).shuffle(parts)
        joined = "\n\n".join(parts)[:LONG_LETTERS]
        made.append(PeerPrompt("long", f"{joined}\n\nWhat is all of this about? Tell it in full."))
    return made


def body(
    question: PeerPrompt, mark: str, max_tokens: int, temperature: float, *, whole: bool = False
) -> dict[str, object]:
    """Make a request that begins as no other does, so that nothing of it comes from a cache.

    A `whole` reply has a length of its own, from half of `max_tokens` to three halves: near-ties
    would else decide how much a server has to do.
    """
    if whole:
        max_tokens = round(max_tokens * (0.5 + random.Random(mark).random()))
    content: Message = {"role": "user", "content": f"({mark}) {question.prompt}"}
    asked: dict[str, object] = {
        "messages": [content],
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
