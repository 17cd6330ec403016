"""The corpora of one model, and the thread that keeps their segments up to date."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

import numpy as np

from localspec.base.errors import LocalSpecError
from localspec.base.interruption import Interrupted, Patience, check_patience
from localspec.base.tokenizer import Tokenizer
from localspec.base.tokens import NONE, Tokens
from localspec.core.corpus import files, replies, stored
from localspec.core.corpus.match import Match, longest_match
from localspec.core.corpus.replies import MIN_TOKENS, KeptReplies, UnkeptReply
from localspec.core.corpus.segment import Key, Segment
from localspec.core.corpus.segment_files import read, update
from localspec.core.corpus.source import Source, SourceFacts

# The pause is longer where a look and what it led to took more than a share of that. The first one
# may take minutes, and says little about the next.
LONG_PAUSE_SECONDS, SHARE = 60.0, 0.02
REPLY_PAUSE_SECONDS = 3600.0  # replies of this process are drafted from without an index
NICENESS = 19

LOG = logging.getLogger("localspec")


class Corpus:
    """Texts that replies may repeat. Any thread may call it; `close` ends its own thread."""

    def __init__(
        self, sources: Sequence[Source], tokenizer: Tokenizer, store: KeptReplies | None = None
    ) -> None:
        self.segments: Sequence[Segment] = ()
        self.vocabulary = tokenizer.size
        self._sources, self._tokenizer, self._store = sources, tokenizer, store
        self._unkept: SimpleQueue[UnkeptReply] = SimpleQueue()
        self._patience = Patience()
        self._woken = threading.Event()
        for source in sources:
            source.segments = read(source.folder)
        self._collect()
        self._thread = threading.Thread(target=self._keep_up, name="localspec-corpus", daemon=True)
        self._thread.start()

    def longest_match(self, text: Tokens) -> Match | None:
        """Find the longest run at the end of a text."""
        return longest_match(self.segments, text)

    def look_for_changes(self) -> None:
        """Look soon whether files changed."""
        for source in self._sources:
            source.look_requested = True
        self._woken.set()

    def learn(self, lead: Sequence[int], reply: Sequence[int]) -> None:
        """Keep a reply, and the end of its prompt, if replies are kept."""
        if self._store and len(reply) >= MIN_TOKENS:
            self._unkept.put(UnkeptReply(lead, reply))
            self._woken.set()

    def facts(self) -> list[SourceFacts]:
        """Describe each source as it is now."""
        return [source.facts() for source in self._sources]

    def close(self) -> None:
        """End the thread; replies that wait are kept first."""
        self._patience.over = True
        self._woken.set()
        self._thread.join()

    def _keep_up(self) -> None:
        if sys.platform == "linux":  # where each thread has a priority of its own
            os.nice(NICENESS)
        with self._patience.lent(), suppress(Interrupted):
            while True:
                check_patience()
                self._woken.clear()
                self._keep_replies()
                for source in self._sources:
                    if source.look_requested and not source.wait():
                        self._update(source)
                waits = [source.wait() for source in self._sources if source.look_requested]
                self._woken.wait(min(waits, default=None))
        self._keep_replies()

    def _update(self, source: Source) -> None:
        """Bring the segments of a source up to date."""
        source.look_requested, begun, fault = False, time.monotonic(), ""
        try:
            self._index(source)
        except (OSError, LocalSpecError, MemoryError) as error:
            fault = f"cannot be indexed: {error}"
        source.end_look(fault)
        now = time.monotonic()
        pause = min((now - begun) / SHARE, LONG_PAUSE_SECONDS)
        source.due = now + max(source.pause_seconds, pause)

    def _index(self, source: Source) -> None:
        def tokenise(key: Key) -> Tokens:
            check_patience()
            self._keep_replies()
            pieces = files.pieces(files.text_of(key))
            tokens = (self._tokenizer.encode(piece, special=source.learned) for piece in pieces)
            return np.concatenate([NONE, *tokens])

        source.is_current = False
        source.listing = files.listing(source.root)
        for segments in update(source.folder, source.segments, source.listing.keys, tokenise):
            source.segments = segments
            self._collect()

    def _keep_replies(self) -> None:
        with suppress(Empty):
            while self._store:
                text = replies.text_of(self._unkept.get_nowait(), self._tokenizer)
                try:
                    self._store.keep(text)
                except (OSError, LocalSpecError) as error:
                    LOG.warning("a reply cannot be kept: %s", error)

    def _collect(self) -> None:
        self.segments = [s for source in self._sources for s in source.segments.values()]


def open_corpus(
    roots: Sequence[Path], tokenizer: Tokenizer, *, learns: bool, owner: str = ""
) -> Corpus:
    """Open the corpora under these roots, and that of an owner's replies if these are kept."""
    vocabulary = stored.vocabulary_id(tokenizer)
    whole = [Path(root).expanduser().resolve() for root in roots]
    sources = [Source(root, stored.index_folder(root, vocabulary)) for root in whole]
    store = None
    if learns:
        root = replies.folder_of(owner)
        store = KeptReplies(root)
        index = stored.index_folder(root, vocabulary)
        sources.append(Source(root, index, learned=True, pause_seconds=REPLY_PAUSE_SECONDS))
    stored.drop_unused([source.folder for source in sources])
    return Corpus(sources, tokenizer, store)
