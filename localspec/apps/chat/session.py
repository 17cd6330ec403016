"""A conversation as it is kept: messages, model and settings."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from localspec.apps.chat.files import data_url, quote
from localspec.base.errors import LocalSpecError, UsageError
from localspec.base.system import folders, kept_json
from localspec.base.system.atomic_write import whole, write
from localspec.formats.templates.message import Json, Message

VERSION = 1
WHO = ("user", "assistant")
LARGEST = 64 << 20  # bytes of a file that is read
MAX_PICTURES = 48 << 20  # bytes of all pictures in it, in base64
MAX_TITLE = 60  # characters
STOPPED = "\n\n(stopped)"


@dataclass(slots=True)
class ChatMessage:
    """One message; an answer that was stopped, or cut at its length, is marked as such."""

    role: str
    content: str
    thought: str = ""
    stopped: bool = False
    files: dict[str, str] = field(default_factory=dict)  # that a question came with, by path
    pictures: dict[str, str] = field(default_factory=dict)  # the same, in base64

    @staticmethod
    def empty() -> ChatMessage:
        """Return a question without anything."""
        return ChatMessage("user", "")

    def with_content(self, content: str, without: Collection[str] = ()) -> ChatMessage:
        """Return it with another content, and without some of its files."""
        files = {path: text for path, text in self.files.items() if path not in without}
        pictures = {path: data for path, data in self.pictures.items() if path not in without}
        return replace(self, content=content, files=files, pictures=pictures)

    @property
    def text(self) -> str:
        """The whole text as the model gets it, with files."""
        return "\n\n".join((self.content, *(quote(*file) for file in self.files.items())))

    @property
    def message(self) -> Message:
        """The message as requests have it, pictures before the text."""
        content: Json = self.text
        if self.pictures:
            urls = [{"url": data_url(picture)} for picture in self.pictures.values()]
            parts: list[Json] = [{"type": "image_url", "image_url": url} for url in urls]
            content = [*parts, {"type": "text", "text": self.text}]
        fields: dict[str, Json] = {"role": self.role, "content": content}
        return {**fields, "reasoning_content": self.thought} if self.thought else fields


@dataclass(slots=True)
class Session:
    model: str = ""
    system: str = ""
    said: list[ChatMessage] = field(default_factory=list)
    forgotten: int = 0  # messages that the model hears no more, for want of context
    wishes: dict[str, str] = field(default_factory=dict)  # by the names of /set
    name: str = field(default_factory=lambda: new_name(time.time()))
    seen: str = ""  # the digest of its file, as it was last read or written

    def messages(self, question: ChatMessage) -> list[Message]:
        """The messages for the model, the system message first."""
        system: list[Message] = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, *(message.message for message in (*self.said[self.forgotten :], question))]

    @property
    def pictures(self) -> list[str]:
        """The pictures in its messages, in base64."""
        return [picture for message in self.said for picture in message.pictures.values()]

    def forget(self) -> bool:
        """Leave out the oldest turn; return False if there is none."""
        if self.forgotten >= len(self.said):
            return False
        self.forgotten += 1
        while self.forgotten < len(self.said) and self.said[self.forgotten].role != "user":
            self.forgotten += 1
        return True

    @property
    def title(self) -> str:
        """Return the beginning of the first question."""
        lines = (line.strip() for message in self.said[:1] for line in message.content.splitlines())
        title = next(filter(None, lines), "without a question")
        return title if len(title) <= MAX_TITLE else f"{title[: MAX_TITLE - 3].rstrip()}..."

    @property
    def question(self) -> ChatMessage:
        """The last question."""
        return self.said[self._last_question]

    def before(self) -> Session:
        """The conversation before the last question."""
        messages = self.said[: self._last_question]
        return replace(self, said=messages, forgotten=min(self.forgotten, len(messages)))

    @property
    def _last_question(self) -> int:
        questions = [at for at, message in enumerate(self.said) if message.role == "user"]
        if not questions:
            raise UsageError("nothing was asked yet")
        return questions[-1]

    @property
    def answer(self) -> str:
        """The last answer."""
        answers = [message.content for message in self.said if message.role == "assistant"]
        if not answers:
            raise UsageError("nothing was answered yet")
        return answers[-1]

    def keep(self) -> None:
        """Save to the same file, or to a new one if another process has changed it."""
        path = folder() / f"{self.name}.json"
        if self.seen and path.exists() and digest(path) != self.seen:
            self.name = new_name(time.time())
            path = folder() / f"{self.name}.json"
        self.seen = save(self, path)

    def discard(self) -> None:
        """Remove its file, if it has one."""
        path = folder() / f"{self.name}.json"
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise LocalSpecError(f"{path} cannot be removed: {error.strerror or error}") from error

    def markdown(self) -> str:
        """Format the conversation for reading."""
        parts = [f"# A conversation with {self.model}"]
        if self.system:
            parts.append(f"> {self.system}".replace("\n", "\n> "))
        for message in self.said:
            who = "You" if message.role == "user" else self.model
            pictures = [f"![picture](<{path}>)" for path in message.pictures]
            parts += [f"## {who}", *pictures, message.text + STOPPED * message.stopped]
        return "\n\n".join(parts) + "\n"


def new_name(now: float) -> str:
    """Name a file by its time, so that names sort by age."""
    return f"{time.strftime('%Y-%m-%dT%H-%M-%S', time.localtime(now))}-{secrets.token_hex(2)}"


def folder() -> Path:
    return folders.data() / "chats"


def save(session: Session, path: Path) -> str:
    """Write a file that only its owner can read; return its digest."""
    record = {"version": VERSION, **asdict(session)}
    del record["name"], record["seen"]  # which are the file's
    try:
        write(path, json.dumps(record, indent=1))
        return digest(path)
    except OSError as error:
        why = error.strerror or error
        raise LocalSpecError(f"the conversation cannot be kept in {path}: {why}") from error


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load(path: Path) -> Session:
    """Load a conversation; the file may hold anything."""
    try:
        if not path.is_file():
            raise UsageError(f"{path} {'is no file' if path.exists() else 'is not there'}")
        if (size := path.stat().st_size) > LARGEST:
            raise UsageError(f"{path} has {size:,} bytes; at most {LARGEST:,} are read")
        return _session_of(kept_json.read(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except KeyError as error:
        raise UsageError(f"{path} is no conversation that was saved here: no {error}") from error
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path} is no conversation that was saved here: {error}") from error


def _session_of(record: Mapping[str, object]) -> Session:
    if record["version"] != VERSION:
        raise ValueError(f"it is of another version than {VERSION}")
    messages, forgotten = record["said"], record["forgotten"]
    if not isinstance(messages, list) or not isinstance(forgotten, int):
        raise TypeError("its parts are of other types")
    return Session(
        _text(record["model"]),
        _text(record["system"]),
        [_message(entry) for entry in messages],
        min(max(forgotten, 0), len(messages)),
        _texts(record["wishes"]),
    )


def _message(entry: object) -> ChatMessage:
    if not isinstance(entry, dict):
        raise TypeError("a message is no JSON object")
    role, content, thought = (_text(entry[name]) for name in ("role", "content", "thought"))
    if role not in WHO:
        raise ValueError(f"a message is by neither {' nor '.join(WHO)}")
    files, pictures = _texts(entry["files"]), _texts(entry.get("pictures", {}))
    for picture in pictures.values():
        base64.b64decode(picture, validate=True)
    return ChatMessage(role, content, thought, entry["stopped"] is True, files, pictures)


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise TypeError("its parts are of other types")
    return {_text(name): _text(part) for name, part in value.items()}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("what should be text is none")
    return whole(value)


def latest() -> Iterator[Path]:
    """List the files of conversations, the newest first."""
    return iter(sorted(folder().glob("*.json"), key=_changed_at, reverse=True))


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def open_session(path: Path) -> Session:
    """Load a conversation to go on with in the same file."""
    session = load(path)
    session.name, session.seen = path.stem, digest(path)
    return session


def last(model: str = "") -> tuple[Session | None, list[str]]:
    """Load the newest conversation, of one model if possible; report why others are skipped."""
    notices: list[str] = []
    others: list[Session] = []
    for path in latest():
        try:
            session = open_session(path)
        except (UsageError, OSError) as error:
            notices.append(str(error))
            continue
        if model in ("", session.model):
            return session, notices
        others.append(session)
    return (others[0] if others else None), notices
