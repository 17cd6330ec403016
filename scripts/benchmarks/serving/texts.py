"""Long texts that no other begins like."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import localspec
from benchmarks.serving.asking import apart, user
from localspec.bench.prompts import TEXTS

SOURCES = Path(localspec.__file__).parent


def conversation(number: int, letters: int) -> list[dict[str, object]]:
    """Make a question about as many letters of documents and code."""
    files = chain(sorted(TEXTS.glob("documents/*")), sorted(SOURCES.glob("*.py")))
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)[:letters]
    return [apart(number), user(f"{text}\n\nName one thing that was said above.")]
