"""The prompts: ours by category, or a file's."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from localspec.errors import UsageError
from localspec.templates.message import Message

CATEGORIES = ("chat", "code", "edit", "summarise", "extract", "translate", "reason")
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
    return _numbered(prompt for category in CATEGORIES for prompt in _built_in(category))


def read(path: Path) -> list[Prompt]:
    """Read the prompts of a JSONL file; raise a UsageError with the line's number for a bad one."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"prompts cannot be read from {path}: {error}") from error
    prompts = _numbered(
        _from_line(line, f"{path}, line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    )
    if not prompts:
        raise UsageError(f"{path} has no prompts; give one JSON object a line")
    return prompts


def choose(prompts: Sequence[Prompt], categories: Sequence[str], limit: int | None) -> list[Prompt]:
    """Choose at most `limit` prompts of each category; of all where none is named."""
    known = list(dict.fromkeys(prompt.category for prompt in prompts))
    for category in categories:
        if category not in known:
            raise UsageError(f"there is no category {category!r}; known: {', '.join(known)}")
    return [
        prompt
        for prompt in prompts
        if prompt.category in (categories or known) and (limit is None or prompt.number <= limit)
    ]


def _built_in(category: str) -> list[Prompt]:
    entries = tomllib.loads((TEXTS / f"{category}.toml").read_text(encoding="utf-8"))["prompt"]
    return [_from_entry(category, **entry) for entry in entries]


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


def _from_line(line: str, where: str) -> Prompt:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON: {error}") from error
    if not isinstance(entry, dict):
        raise UsageError(f'{where}: not an object like {{"category": ..., "prompt": ...}}')
    if strange := sorted(entry.keys() - FIELDS):
        known = ", ".join(sorted(FIELDS))
        raise UsageError(f"{where}: unknown field {strange[0]!r}; known: {known}")
    for name in ("category", "prompt", "prediction"):
        if not isinstance(entry.get(name, ""), str):
            raise UsageError(f"{where}: {name} is not a text")
    if not entry.get("category"):
        raise UsageError(f"{where}: there is no category")
    return Prompt(entry["category"], _messages(entry, where), entry.get("prediction", ""))


def _messages(entry: dict[str, object], where: str) -> tuple[Message, ...]:
    if ("prompt" in entry) == ("messages" in entry):
        raise UsageError(f"{where}: give either a prompt or messages")
    messages = entry.get("messages", [{"role": "user", "content": entry.get("prompt")}])
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        raise UsageError(f"{where}: messages are a list of objects with role and content")
    return tuple(messages)


def _is_message(value: object) -> bool:
    return (
        isinstance(value, dict)
        and {"role", "content"} <= value.keys()
        and all(isinstance(text, str) for text in value.values())
    )


def _numbered(prompts: Iterable[Prompt]) -> list[Prompt]:
    seen: Counter[str] = Counter()
    numbered = []
    for prompt in prompts:
        seen[prompt.category] += 1
        numbered.append(replace(prompt, number=seen[prompt.category]))
    return numbered
