"""How a model is to be loaded: options of the engine, proposers, memory, texts to draft from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from localspec.base.errors import UsageError
from localspec.core.decoding.prompt_pace import MAX_GAP
from localspec.core.proposers import registry
from localspec.interfaces.backend import Options
from localspec.interfaces.media import Kind
from localspec.running.memory.planner import Limits
from localspec.running.models import engines
from localspec.running.runtime.pair_files import PairFiles


@dataclass(frozen=True, slots=True)
class Loading:
    """How to load: engine options, proposers, draft length, memory limits.

    options: of the engine, as slots and context
    proposer: names with commas between them, "none", or "auto"
    depth: tokens to draft in a round; None: what pays, by measurement
    backend: the engine; "auto": a file or a folder decides for itself
    limits: the devices and the memory that may be used
    cache_dir: where long texts are kept for another time; None: nowhere
    cache_bytes: most bytes in that folder
    restores: whether the text that was used last is restored from there before it is asked for
    cache_ram: bytes of memory for texts that slots had to give up
    max_gap: seconds that replies may pause while a prompt is read
    corpus: files and folders of texts that replies may repeat
    learn: keep replies on this machine, and draft from them the next time
    shares_replies: whether a reply may be drafted from replies to others
    reply_owner: whose replies are kept and drafted from; those of others are kept apart
    """

    options: Options = field(default_factory=Options)
    proposer: str = "auto"
    depth: int | None = None
    backend: str = engines.AUTO
    limits: Limits = field(default_factory=Limits)
    cache_dir: Path | None = None
    cache_bytes: int = 8 << 30
    restores: bool = False
    cache_ram: int = 0
    max_gap: float = MAX_GAP
    corpus: tuple[Path, ...] = ()
    learn: bool = False
    shares_replies: bool = True
    reply_owner: str = ""

    def __post_init__(self) -> None:
        engines.check(self.backend)
        registry.parse(self.proposer)
        self._check_corpus()
        if self.depth is not None and not 0 <= self.depth <= self.options.tentative:
            raise UsageError(f"depth is {self.depth}; it must be 0 to {self.options.tentative}")

    def _check_corpus(self) -> None:
        if missing := [path for path in self.corpus if not Path(path).expanduser().exists()]:
            raise UsageError(f"there is no file or folder {missing[0]} for the corpus")
        if self.has_corpus and self.proposer == "none":
            raise UsageError("proposer is none, and a corpus is for drafts only: omit one")
        if self.learn and not self.shares_replies:
            raise UsageError("replies that are not to be shared cannot be learned from")

    @property
    def has_corpus(self) -> bool:
        """Whether drafts come from texts on disk, too."""
        return bool(self.corpus) or self.learn

    @property
    def alone(self) -> bool:
        """Whether the model's own drafter would have nothing to do."""
        drafters = {registry.DRAFT, *registry.HEADS}
        return self.proposer != "auto" and not drafters & set(registry.parse(self.proposer))

    @property
    def insists(self) -> bool:
        """Whether the given draft model must be used."""
        return self.proposer != "auto"

    def projector_of(self, files: PairFiles) -> Path | None:
        """Return the projector that a model is loaded with if there is room for it."""
        beside = None if self.limits.text_only else files.target.projector
        return self.options.projector or beside

    def media_of(self, files: PairFiles) -> frozenset[Kind]:
        """Return the kinds of media that a model takes if there is room for its projector."""
        projector = self.projector_of(files)
        projectors = files.target.engine.spec.projectors
        return projectors.describe(projector).kinds if projector and projectors else frozenset()
