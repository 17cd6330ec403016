"""Values as models write them, passed on as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

MAX_DEPTH = 200  # containers within one another; readers of JSON give up not far above
BLANK = re.compile(r"[ \t\r\n]+")
PLAIN = {'"': re.compile(r'[^"\\\x00-\x1f]+'), "'": re.compile(r"[^\"'\\\x00-\x1f]+")}
WORD = re.compile(r"[A-Za-z0-9+.-]+")
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
WORDS = {"true": "true", "false": "false", "null": "null"}
WORDS |= {"True": "true", "False": "false", "None": "null"}
ENDS = {"{": "}", "[": "]"}
AFTER_QUOTE = ",:)]}"
AFTER = {"{": "key", "[": "item", "}": "key", "]": "item"}


class Scanner:
    """Reads one value piece by piece, in time that grows with its length.

    Quotes and words of Python, line ends within strings, backslashes before common letters and a
    comma after the last item are understood and come out as JSON has them.
    """

    def __init__(self) -> None:
        self.whole = False
        self.broken = False
        self._read: Callable[[str, int], int] = self._structure
        self._expected = "value"  # or "item" or "key", which may be missing, or "colon" or "next"
        self._ends: list[str] = []  # what closes the containers that are open, innermost last
        self._quote = ""
        self._digits = 0
        self._held: list[str] = []  # a comma, half an escape or half a word
        self._ready: list[str] = []

    def scan(self, text: str, at: int) -> int:
        """Read on in a text; return where the value ended or broke, or the end of the text."""
        while at < len(text) and not (self.whole or self.broken):
            at = self._read(text, at)
        return at

    def end(self) -> None:
        """End the text: a number or a word at the very end is whole."""
        if self._read == self._word:
            self._end_word()
        elif self._read == self._after_quote:
            self._end_quoted()

    def take(self) -> str:
        """The JSON that became sure since the last call."""
        ready = "".join(self._ready)
        self._ready.clear()
        return ready

    def held(self) -> str:
        """Return what was read but is not known to be JSON."""
        return "".join(self._held)

    def _put(self, text: str) -> None:
        self._ready += self._held
        self._held.clear()
        self._ready.append(text)

    def _structure(self, text: str, at: int) -> int:
        if blank := BLANK.match(text, at):
            (self._held or self._ready).append(blank[0])
            return blank.end()
        letter = text[at]
        if self._ends and letter == self._ends[-1] and self._expected in ("item", "key", "next"):
            self._close()
        elif self._expected == "next" and letter == ",":
            self._held.append(letter)
            self._expected = AFTER[self._ends[-1]]
        elif self._expected == "colon" and letter == ":":
            self._put(letter)
            self._expected = "value"
        elif self._expected in ("colon", "next"):
            self.broken = True
            return at
        else:
            return self._begin(letter, at)
        return at + 1

    def _begin(self, letter: str, at: int) -> int:
        if letter in PLAIN:
            self._quote = letter
            self._put('"')
            self._read = self._string
            return at + 1
        if self._expected == "key" or (letter in ENDS and len(self._ends) == MAX_DEPTH):
            self.broken = True
            return at
        if letter in ENDS:
            self._put(letter)
            self._ends.append(ENDS[letter])
            self._expected = AFTER[letter]
            return at + 1
        self._put("")
        self._read = self._word
        return at

    def _close(self) -> None:
        if self._expected != "next":
            self._held[:1] = []  # the comma after the last item
        self._put(self._ends.pop())
        self._end_value()

    def _end_value(self) -> None:
        self._read = self._structure
        self._expected = "colon" if self._expected == "key" and self._quote else "next"
        self._quote = ""
        self.whole = not self._ends

    def _string(self, text: str, at: int) -> int:
        if plain := PLAIN[self._quote].match(text, at):
            self._put(plain[0])
            return plain.end()
        letter = text[at]
        if letter == self._quote == "'":
            self._held.append(letter)
            self._read = self._after_quote
        elif letter == self._quote:
            self._put('"')
            self._end_value()
        elif letter == "\\":
            self._held.append(letter)
            self._read = self._escape
        else:
            self._put(json.dumps(letter)[1:-1])
        return at + 1

    def _after_quote(self, text: str, at: int) -> int:
        """End a string at a single quote before a comma, colon or bracket, as some escape none."""
        if blank := BLANK.match(text, at):
            self._held.append(blank[0])
            return blank.end()
        if text[at] in AFTER_QUOTE:
            self._end_quoted()
            return at
        inner = self.held()
        self._held.clear()
        self._put(json.dumps(inner)[1:-1])
        self._read = self._string
        return at

    def _end_quoted(self) -> None:
        self._held.clear()
        self._put('"')
        self._end_value()

    def _escape(self, text: str, at: int) -> int:
        letter = text[at]
        self._read = self._string
        if letter in '"\\/bfnrtu':
            self._put(letter)
            if letter == "u":
                self._digits = 4
                self._read = self._hexadecimal
            return at + 1
        self._held.clear()
        self._put(letter if letter == "'" else "\\\\")
        return at + (letter == "'")

    def _hexadecimal(self, text: str, at: int) -> int:
        if text[at] not in "0123456789abcdefABCDEF":
            self.broken = True
            return at
        self._put(text[at])
        self._digits -= 1
        if not self._digits:
            self._read = self._string
        return at + 1

    def _word(self, text: str, at: int) -> int:
        if word := WORD.match(text, at):
            self._held.append(word[0])
            return word.end()
        self._end_word()
        return at

    def _end_word(self) -> None:
        word = self.held()
        value = WORDS.get(word) or (word if NUMBER.fullmatch(word) else "")
        if not value:
            self.broken = True
            return
        self._held.clear()
        self._put(value)
        self._end_value()


def as_json(text: str) -> str | None:
    """Return a whole text as JSON, or None if it is no value."""
    scanner = Scanner()
    text = text.strip(" \t\r\n")
    if scanner.scan(text, 0) == len(text):
        scanner.end()
        return scanner.take() if scanner.whole else None
    return None
