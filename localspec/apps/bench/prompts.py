"""The prompts: ours by category, or a file's."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from localspec.base.errors import UsageError
from localspec.console.options import prompt_file
from localspec.console.options.prompt_file import Line
from localspec.formats.templates.message import Message

TEXTS = Path(__file__).parent / "texts"
FIELDS = {"category", "prompt", "messages", "prediction"}


@dataclass(frozen=True, slots=True)
class Prompt:
    category: str
    messages: tuple[Message, ...]
    prediction: str = ""  # a text that the reply is likely to repeat
    number: int = 0  # within its category

    @property
    def name(self) -> str:
        return f"{self.category} {self.number}"


def built_in() -> list[Prompt]:
    """Read the prompts that come with LocalSpec."""
    content = tomllib.loads((TEXTS / "prompts.toml").read_text(encoding="utf-8"))
    return _numbered(
        _from_entry(category, **entry) for category, entries in content.items() for entry in entries
    )


def read(path: Path) -> list[Prompt]:
    """Read the prompts of a JSONL file, which also have a category."""
    return _numbered(map(_from_line, prompt_file.read(path)))


def choose(prompts: Sequence[Prompt], categories: Sequence[str], limit: int | None) -> list[Prompt]:
    """Choose at most `limit` prompts of each category; of all where none is named."""
    available = list(dict.fromkeys(prompt.category for prompt in prompts))
    for category in categories:
        if category not in available:
            raise UsageError(f"there is no category {category!r}; known: {', '.join(available)}")
    return [
        prompt
        for prompt in prompts
        if prompt.category in (categories or available)
        and (limit is None or prompt.number <= limit)
    ]


def _from_entry(category: str, ask: str, document: str = "", predict: bool = False) -> Prompt:
    if not document:
        return Prompt(category, ({"role": "user", "content": ask},))
    text = (TEXTS / "documents" / document).read_text(encoding="utf-8")
    _, *language = document.removesuffix(".txt").split(".")
    parts = [f"```{''.join(language)}\n{text}```", ask]
    if predict:  # small models copy more faithfully when they know why
        parts.reverse()
    message = {"role": "user", "content": "\n\n".join(parts)}
    return Prompt(category, (message,), prediction=text if predict else "")


def _from_line(line: Line) -> Prompt:
    where, fields = line
    if strange := sorted(fields.keys() - FIELDS):
        allowed = ", ".join(sorted(FIELDS))
        raise UsageError(f"{where}: unknown field {strange[0]!r}; known: {allowed}")
    category, prediction = fields.get("category", ""), fields.get("prediction", "")
    if not isinstance(category, str) or not isinstance(prediction, str):
        name = "prediction" if isinstance(category, str) else "category"
        raise UsageError(f"{where}: {name} is not a text")
    if not category:
        raise UsageError(f"{where}: there is no category")
    return Prompt(category, tuple(prompt_file.messages(line)), prediction)


def _numbered(prompts: Iterable[Prompt]) -> list[Prompt]:
    seen: Counter[str] = Counter()
    numbered = []
    for prompt in prompts:
        seen[prompt.category] += 1
        numbered.append(replace(prompt, number=seen[prompt.category]))
    return numbered
