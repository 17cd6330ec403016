"""What keys write that came in while nothing read them: lines that Enter ended, and a draft."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

ENTER = (Keys.ControlM, Keys.ControlJ)
LEAVE = "\x04"  # Ctrl-D, which means that on an empty line
QUOTE = '"""'


class TypedLine(NamedTuple):
    """A line that was typed, and the keys after it."""

    text: str
    is_sent: bool  # whether Enter ended it; else it is a draft
    after: Sequence[KeyPress] = ()


def judged(bursts: Iterable[Sequence[KeyPress]]) -> list[KeyPress]:
    """Join bursts of keys; take Enter for a part of a paste where more came at once after it.

    Most terminals mark a paste, and what is in marks is no Enter to begin with.
    """
    keys: list[KeyPress] = []
    follows = False  # whether the burst before was a paste: its last line may come late
    for burst in bursts:
        ends = [at for at, key in enumerate(burst) if key.key in ENTER]
        text = [at for at, key in enumerate(burst) if key.key is not Keys.CPRResponse]
        follows = bool(ends) and (follows or ends[0] < text[-1])
        keys += [
            KeyPress(Keys.BracketedPaste, key.data) if follows and key.key in ENTER else key
            for key in burst
        ]
    return keys


def first_line(keys: Sequence[KeyPress]) -> TypedLine:
    """Find the first line that Enter ended and that says anything; else all keys are a draft.

    Enter after Escape (Alt-Enter), or within three quotes, begins a line.
    """
    start = 0
    for at, key in enumerate(keys):
        if key.key not in ENTER or (at and keys[at - 1].key is Keys.Escape):
            continue
        text = text_of(keys[start:at])
        if not text.strip():
            start = at + 1
        elif not is_open(text) and LEAVE not in text:
            return TypedLine(text, True, keys[at + 1 :])
    return TypedLine(text_of(keys[start:]), False)


def text_of(keys: Sequence[KeyPress]) -> str:
    """Return the text that keys write; Enter begins a line, and is left out at the end."""
    text = ""
    for key in keys:
        match key.key:
            case Keys.BracketedPaste:
                text += pasted(key.data)
            case Keys.ControlM | Keys.ControlJ:
                text += "\n"
            case Keys.ControlI:
                text += "\t"
            case Keys.ControlD:
                text += LEAVE
            case Keys.ControlH:
                text = text[:-1]
            case character if character == key.data and character.isprintable():
                text += character
    return text.rstrip("\n")


def pasted(text: str) -> str:
    """Replace the line ends of a paste, which terminals write as Enter does."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_open(text: str) -> bool:
    """Return whether three quotes begin a message that has not ended yet."""
    start = text.lstrip()
    return start.startswith(QUOTE) and not (len(start) >= 6 and start.rstrip().endswith(QUOTE))
