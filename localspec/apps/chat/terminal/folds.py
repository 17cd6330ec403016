"""Long texts of an input line, each drawn as one sign."""

from __future__ import annotations

import re

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

MAX_LINES, MAX_CHARACTERS = 10, 1000  # of a text that is drawn as it is
FIRST, LAST = 0xD800, 0xDBFF  # halves of characters, which no terminal can send
SIGN = re.compile(f"[{chr(FIRST)}-{chr(LAST)}]")


class Folds:
    """Keeps long texts by the sign that stands for each in a line."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def folded(self, text: str) -> str:
        """Put signs for the long texts in it that are kept, or one for all of it.

        Line ends after a long text are dropped: they would only draw empty lines.
        """
        for sign, part in reversed(self._texts.items()):
            text = text.replace(part, sign)
        is_long = len(text) > MAX_CHARACTERS or text.count("\n") >= MAX_LINES
        sign = chr(FIRST + len(self._texts))
        if is_long and sign <= chr(LAST):
            self._texts[sign] = self.whole(text).rstrip("\n")
            text = sign
        return text.rstrip("\n") if SIGN.search(text) else text

    def whole(self, text: str) -> str:
        return SIGN.sub(lambda sign: self._texts.get(sign[0], sign[0]), text)

    def drawn(self, sign: str) -> str:
        text = self._texts.get(sign, "")
        count = text.count("\n") + 1
        return f"[pasted {count:,} lines]" if count > 1 else f"[pasted {len(text):,} characters]"


class FoldedText(Processor):
    """Draws the signs of a line."""

    def __init__(self, folds: Folds) -> None:
        self._folds = folds

    def apply_transformation(self, line: TransformationInput) -> Transformation:
        if not SIGN.search(fragment_list_to_text(line.fragments)):
            return Transformation(line.fragments)
        drawn: StyleAndTextTuples = []
        places = [0]  # where each character is drawn, and what follows the last one
        for style, character, *_ in explode_text_fragments(line.fragments):
            is_sign = SIGN.match(character)
            text = self._folds.drawn(character) if is_sign else character
            drawn.append((f"{style} ansicyan" if is_sign else style, text))
            places.append(places[-1] + len(text))

        def place(at: int) -> int:
            return places[min(at, len(places) - 1)]

        def character_at(place: int) -> int:
            return max(at for at, start in enumerate(places) if start <= place)

        return Transformation(drawn, source_to_display=place, display_to_source=character_at)
