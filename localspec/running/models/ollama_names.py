"""Models by Ollama's names for them: `qwen3:8b`, `llama3.2`, `qwen2.5:7b-instruct-q8_0`."""

from __future__ import annotations

import re
from collections.abc import Collection

from localspec.running.models import catalogue, store
from localspec.running.models.sources import expand_home, is_there

NAME = re.compile(r"(?P<family>[a-z][a-z0-9.-]*)(:(?P<tag>[a-z0-9][a-z0-9._-]*))?", re.I | re.ASCII)
WEIGHTS = re.compile(r"-(?:(?:instruct|it|chat)-)?(?P<weights>q\d\w*|b?f16)$")
TUNED = re.compile(r"-(instruct|it|chat|qat)\b")
WORDS = re.compile(r"[a-z]+|\d+(?:\.\d+)?")  # of a name: it is the same with other dashes
MAX_LETTERS = 100  # of a name
# The sizes that Ollama means where a name has none, and the catalogue has several.
USUAL = {"qwen3": "8b", "qwen2.5": "7b", "qwen2.5-coder": "7b", "llama3.2": "3b", "gemma4": "e4b"}


def listed_name(text: str) -> str:
    """Return the catalogue's name for one of Ollama's; any other text as it is."""
    if not NAME.fullmatch(text) or is_known(text):
        return text
    return meant(text, catalogue.names()) or text


def meant(text: str, names: Collection[str]) -> str:
    """Return which of some names a name of Ollama's means; "" where it is none, or several."""
    match = NAME.fullmatch(text[:MAX_LETTERS])
    if not match:
        return ""
    family, tag = match["family"].lower(), (match["tag"] or "latest").lower()
    weights = WEIGHTS.search(tag)
    size = TUNED.sub("", tag[: weights.start()] if weights else tag)
    sought = words(family), words(USUAL.get(family, "") if size == "latest" else size)
    fitting = [name for name in names if is_meant(words(name), *sought)]
    if len(fitting) != 1:
        return ""
    return fitting[0] + (f":{weights['weights']}" if weights else "")


def is_known(text: str) -> bool:
    """Whether a text is a path, or a name that is taken already, and so means itself."""
    if text.partition(":")[0] in catalogue.names():
        return True
    return is_there(expand_home(text)) or bool(store.find(text))


def is_meant(name: list[str], family: list[str], size: list[str]) -> bool:
    """Whether a name consists of a family and a size; of none, whether any size follows."""
    if size:
        return name == family + size
    return name[: len(family)] == family and len(name) == len(family) + 2 and name[-1] == "b"


def words(text: str) -> list[str]:
    return WORDS.findall(text)
