"""The corpora and replies that are stored on this machine, and their end."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from localspec.base.system import folders
from localspec.base.tokenizer import Tokenizer
from localspec.core.corpus import replies

UNUSED_SECONDS = 30 * 86400.0  # after which an index is removed
SAMPLES, SAMPLE_STEP = 1024, 128  # tokens by which vocabularies are told apart
SAMPLE_TEXT = "Naïve café, 1,234.5 €:\n\tdef add(a, b): return a + b  # 数\n"


class Stored(NamedTuple):
    """Count the replies and indexes that are stored, and their bytes."""

    replies: int = 0
    reply_bytes: int = 0
    indexes: int = 0
    index_bytes: int = 0


NOTHING = Stored()


def indexes() -> Path:
    return folders.cache() / "corpus"


def index_folder(root: Path, vocabulary: str) -> Path:
    """Return the folder of the segments of a root for models of one vocabulary."""
    return indexes() / f"{vocabulary}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}"


def vocabulary_id(tokenizer: Tokenizer) -> str:
    """Identify a vocabulary, whatever its padding."""
    samples = range(0, min(tokenizer.size, SAMPLES * SAMPLE_STEP), SAMPLE_STEP)
    spellings = [tokenizer.token_text(token) for token in samples]
    facts = repr((tokenizer.kind, spellings, tokenizer.encode(SAMPLE_TEXT).tolist()))
    return hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def drop_unused(used: Sequence[Path]) -> None:
    """Remove indexes that were not used for long, but for these."""
    now = time.time()
    for folder in used:
        with suppress(OSError):
            os.utime(folder)
    for folder in index_folders():
        with suppress(OSError):
            if now - folder.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(folder)


def index_folders() -> list[Path]:
    with suppress(OSError):
        return [folder for folder in indexes().iterdir() if folder.is_dir()]
    return []


def stored() -> Stored:
    """Measure what is stored."""
    sizes = [size for _, size, _ in replies.replies(replies.kept_folder())]
    indexed = [file.stat().st_size for file in indexes().rglob("*") if file.is_file()]
    return Stored(len(sizes), sum(sizes), len(index_folders()), sum(indexed))


def forget() -> Stored:
    """Remove kept replies and all indexes; return what that was."""
    gone = stored()
    for folder in (replies.kept_folder(), indexes()):
        if folder.exists():
            shutil.rmtree(folder)
    return gone
