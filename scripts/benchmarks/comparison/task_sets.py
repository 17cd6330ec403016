"""The task sets of a comparison: everyday prompts, coding tasks, sessions of an agent, or files."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localspec.apps.bench import prompts
from localspec.apps.bench.prompts import TEXTS
from localspec.base.errors import UsageError
from localspec.formats.templates.message import text_of

EVERYDAY, CODING, AGENT = "everyday", "coding", "agent"
OWN = Path(__file__).parent / "tasks"
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
COMPLETE = "Complete this Python function. Reply with the whole function.\n\n```python\n{}```"
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
    """A prompt, with the turns of its session before it: a user's, an assistant's, and so on."""

    category: str
    prompt: str
    history: tuple[str, ...] = ()


def read(names: Sequence[str] = (EVERYDAY,)) -> list[PeerPrompt]:
    """Return the prompts of task sets, each of which is LocalSpec's own or a file."""
    own = {EVERYDAY: everyday, CODING: coding, AGENT: agent}
    return [prompt for name in names for prompt in (own[name]() if name in own else of_file(name))]


def everyday() -> Iterator[PeerPrompt]:
    """Take the prompts of `localspec bench`, and questions without and with a document."""
    yield from map(of_prompt, prompts.built_in())
    for question in QUESTIONS:
        yield PeerPrompt("questions", question)
    for name, ask in ABOUT_DOCUMENTS:
        document = (TEXTS / "documents" / name).read_text(encoding="utf-8")
        yield PeerPrompt("retrieval", f"{document}\n\n{ask}")


def coding() -> Iterator[PeerPrompt]:
    """Take ten kinds of tasks that a coding model is given."""
    content = own_file("coding.toml")
    for kind, asks in content["tasks"].items():
        for ask in asks:
            for name, document in content["documents"].items():
                ask = ask.replace(f"{{{name}}}", document)
            yield PeerPrompt(kind, ask.strip())


def agent() -> Iterator[PeerPrompt]:
    """Take each turn of the sessions of a coding agent, after the turns before it."""
    content = own_file("agent.toml")
    for session in content["session"]:
        file, fence = session["file"], f"```{session['language']}\n{{}}```"
        first, *others = map(str.strip, session["asks"])
        file_turn = f"{session['name']}:\n{fence.format(file)}"
        turns = [f"{content['role']}\n\n{first}\n\n{file_turn}"]
        yield PeerPrompt("agent", turns[0])
        for replacements, ask in zip(session["edits"], others, strict=True):
            for old, new in replacements:
                file = file.replace(old, new)
            turns += [fence.format(file), ask]
            yield PeerPrompt("agent", ask, tuple(turns[:-1]))


def own_file(name: str) -> dict[str, Any]:
    return tomllib.loads((OWN / name).read_text(encoding="utf-8"))


def of_prompt(prompt: prompts.Prompt) -> PeerPrompt:
    content = "\n\n".join(text_of(message) for message in prompt.messages)
    return PeerPrompt(CATEGORIES.get(prompt.category, CONVERSATION), content)


def of_file(name: str) -> Iterator[PeerPrompt]:
    """Read JSON lines in the form of Spec-Bench, of HumanEval or of `localspec bench`.

    Beside those of Spec-Bench go the everyday prompts that repeat themselves.
    """
    path = Path(name)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        own = ", ".join((EVERYDAY, CODING, AGENT))
        raise UsageError(f"prompts cannot be read from {path}: {error}; own: {own}") from error
    fields = {field for entry in entries if isinstance(entry, dict) for field in entry}
    if "entry_point" in fields:
        yield from (PeerPrompt("completion", COMPLETE.format(entry["prompt"])) for entry in entries)
    elif "turns" in fields:
        yield from of_turns(path, entries)
        yield from (prompt for prompt in everyday() if prompt.category in REPEATING)
    else:
        yield from map(of_prompt, prompts.read(path))


def of_turns(path: Path, entries: Sequence[Mapping[str, list[str]]]) -> list[PeerPrompt]:
    """Take the first turn of each entry."""
    try:
        return [
            PeerPrompt(CATEGORIES.get(str(entry["category"]), CONVERSATION), str(entry["turns"][0]))
            for entry in entries
        ]
    except (KeyError, IndexError, TypeError) as error:
        raise UsageError(f"{path} has a line without category or turns") from error
