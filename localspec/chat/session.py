"""A conversation as it is kept: what was said, with what model, and under which wishes."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import platformdirs

from localspec.errors import LocalSpecError, UsageError
from localspec.message import Message
from localspec.writing import write

VERSION = 1
WHO = ("user", "assistant")


@dataclass(slots=True)
class Said:
    """One message. An answer that was stopped, or cut, is marked as such."""

    role: str
    content: str
    thought: str = ""
    stopped: bool = False

    @property
    def message(self) -> Message:
        found: dict[str, str] = {"role": self.role, "content": self.content}
        return {**found, "reasoning_content": self.thought} if self.thought else found


@dataclass(slots=True)
class Session:
    model: str = ""
    system: str = ""
    said: list[Said] = field(default_factory=list)
    forgotten: int = 0  # messages that the model hears no more, for want of context
    wishes: dict[str, str] = field(default_factory=dict)  # by the names of /set
    name: str = field(default_factory=lambda: named(time.time()))

    def messages(self, question: str | None = None) -> list[Message]:
        """What the model is to hear."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        asked = [] if question is None else [{"role": "user", "content": question}]
        return [*system, *(each.message for each in self.said[self.forgotten :]), *asked]

    def forget(self) -> bool:
        """Leave the oldest turn away; False: there is none."""
        if self.forgotten >= len(self.said):
            return False
        self.forgotten += 1
        while self.forgotten < len(self.said) and self.said[self.forgotten].role != "user":
            self.forgotten += 1
        return True

    def take_back(self) -> str:
        """Undo the last question and its answer; return the question."""
        asked = [at for at, each in enumerate(self.said) if each.role == "user"]
        if not asked:
            raise UsageError("nothing was asked yet")
        question = self.said[asked[-1]].content
        del self.said[asked[-1] :]
        self.forgotten = min(self.forgotten, len(self.said))
        return question

    @property
    def answer(self) -> str:
        """The last one."""
        answers = [each.content for each in self.said if each.role == "assistant"]
        if not answers:
            raise UsageError("nothing was answered yet")
        return answers[-1]

    def keep(self) -> None:
        """Write it where it is found again, once there is something to keep."""
        if self.said:
            save(self, folder() / f"{self.name}.json")

    def markdown(self) -> str:
        """For people to read."""
        parts = [f"# A conversation with {self.model}"]
        if self.system:
            parts.append(f"> {self.system}".replace("\n", "\n> "))
        for each in self.said:
            who = "You" if each.role == "user" else self.model
            parts += [f"## {who}", each.content + ("\n\n(stopped)" if each.stopped else "")]
        return "\n\n".join(parts) + "\n"


def named(now: float) -> str:
    """By its time, so that names are in the order of their beginnings."""
    return f"{time.strftime('%Y-%m-%dT%H-%M-%S', time.localtime(now))}-{secrets.token_hex(2)}"


def folder() -> Path:
    return platformdirs.user_data_path("localspec", appauthor=False) / "chats"


def save(session: Session, place: Path) -> None:
    try:
        folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = {"version": VERSION, **asdict(session)}
        del kept["name"]  # a file may be given any
        write(place, json.dumps(kept, indent=1))
    except OSError as error:
        raise LocalSpecError(f"the conversation cannot be kept in {place}: {error}") from error


def load(place: Path) -> Session:
    """A conversation from a file that may be anything."""
    try:
        return _read(json.loads(place.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{place} cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UsageError(f"{place} is no conversation that was saved here: {error}") from error


def _read(kept: dict[str, object]) -> Session:
    if kept["version"] != VERSION:
        raise ValueError(f"its version is {kept['version']!r}, and {VERSION} is known")
    said, forgotten, wishes = kept["said"], kept["forgotten"], kept["wishes"]
    if not isinstance(said, list) or not isinstance(wishes, dict) or not isinstance(forgotten, int):
        raise TypeError("its parts have other types")
    return Session(
        _text(kept["model"]),
        _text(kept["system"]),
        [_said(each) for each in said],
        min(max(forgotten, 0), len(said)),
        {_text(name): _text(value) for name, value in wishes.items()},
    )


def _said(each: dict[str, object]) -> Said:
    role = _text(each["role"])
    if role not in WHO:
        raise ValueError(f"somebody in it is {role!r}")
    return Said(role, _text(each["content"]), _text(each["thought"]), each["stopped"] is True)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def latest() -> Iterator[Path]:
    """The files of conversations, the last one first."""
    return iter(sorted(folder().glob("*.json"), key=_changed, reverse=True))


def _changed(place: Path) -> float:
    try:
        return place.stat().st_mtime
    except OSError:
        return 0.0


def last(model: str = "") -> tuple[Session | None, Sequence[str]]:
    """The last conversation, with a model if it is given; and why others were passed over."""
    notices = []
    for place in latest():
        try:
            found = load(place)
        except UsageError as error:
            notices.append(str(error))
            continue
        if model in ("", found.model):
            found.name = place.stem
            return found, notices
    return None, notices
