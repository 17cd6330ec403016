"""The backend seam: the interface of an engine.

A backend is a module with `inspect`, `load` and `probe`, found by entry point. Only plain
numbers, dataclasses, numpy arrays and a `TokenSource` cross the seam: no engine type leaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from localspec.base.device import Device as Device
from localspec.base.errors import UsageError
from localspec.interfaces.adapter import Adapter as Adapter
from localspec.interfaces.draft_stopping import Pays, always
from localspec.interfaces.footprint import VECTOR_POOLINGS
from localspec.interfaces.footprint import DeviceNeeds as DeviceNeeds
from localspec.interfaces.footprint import Footprint as Footprint
from localspec.interfaces.footprint import Needs as Needs

if TYPE_CHECKING:  # commands that need no engine start without numpy
    import numpy as np
    from numpy.typing import NDArray

    from localspec.base.tokenizer import Tokenizer
    from localspec.base.tokens import LogitRows, Tokens
    from localspec.interfaces.draft import Draft
    from localspec.interfaces.media import Sight
    from localspec.interfaces.token_source import TokenSource

MAX_TENTATIVE = 512  # tokens of the longest draft
BATCH_MARGIN = 2  # tokens of a batch besides those that are tentative
SLOTS = 128  # half of the sequences llama.cpp can tell apart
MAX_HEAD_LAG = 64  # tokens that a head may be behind its target, before it reads them by itself
OWN_PRODUCTS = "localspec"
PRODUCTS = (OWN_PRODUCTS, "llama.cpp")
METAL_PRODUCTS = "own"  # LocalSpec's with MLX on Metal, too, where nobody has seen them run
NUMBERS = ("auto", "float16")
BY_LAYER = "layer"
SPLIT_MODES = (BY_LAYER, "row", "tensor")
CONTEXT = 32_768  # tokens, where a model was trained for more and none were asked for
TEXT_CONTEXT = 2_048  # the same of a model that reads whole texts
DRAFT_CONTEXT, MIN_DRAFT_CONTEXT = 2_048, 64  # tokens that a draft model reads, and the fewest
DEVICES = ("auto", "cpu")  # or the number of a GPU
CELLS = 1 << 24  # tokens in all slots; llama.cpp counts further, but not reliably


class Next(NamedTuple):
    """The choice of the token after a row: an engine may begin on it without being asked."""

    sampler: TokenSource
    position: int  # in the text


class Row(NamedTuple):
    """Tokens to append to one slot."""

    slot: int
    tokens: Tokens
    outputs: int = 1  # trailing positions whose logits are wanted
    tentative: int = 0  # trailing tokens of the slot that `truncate` may still take back
    next: Next | None = None  # where it is to be fed alone


@dataclass(frozen=True, slots=True)
class Roll:
    """A row to continue by up to `depth` of the model's own tokens."""

    row: Row
    depth: int
    sampler: TokenSource
    start: int  # position in the text of the first token to sample
    pays: Pays = always  # whether to go on, by the confidences of the tokens so far
    text: Tokens | None = None  # that the row ends; where known, rare tokens may go unscored


@dataclass(frozen=True, slots=True)
class Saved:
    """The content of a slot, in an engine's own form."""

    data: NDArray[np.uint8]
    whole: bool  # it serves only texts that begin with all of it


@dataclass(frozen=True, slots=True)
class Build:
    """An engine as it is installed."""

    version: str
    features: tuple[str, ...]  # what it was built for: "CUDA", "Metal", "AVX2" and so on
    drivers: tuple[str, ...] = ()  # of GPUs that it sees: what dies with one may run with the next
    unseen: tuple[str, ...] = ()  # kinds of GPUs that it was built for and sees none of
    why_unseen: str = ""  # the driver's words, if it said any
    options: tuple[str, ...] = ()  # it was built with, where that is known: another build is slower


Estimate = Callable[["Options"], Needs]
Progress = Callable[[float], None]  # hears the share of the weights that was read, from 0 to 1


def silent(_: float) -> None:
    """Report to nobody."""


class Rehearsal(Protocol):
    """A model that is laid out, with nothing of its weights loaded."""

    @property
    def footprint(self) -> Footprint: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    def needs(self, options: Options) -> Needs:
        """Count the bytes that loading would take; `UsageError` if this model cannot load so."""


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """The options of a draft model alone; None: as of its target.

    context: tokens of one text that it reads at once, the first few and the latest
    device: "auto", "cpu" or the number of a GPU
    gpu_layers: so many go to GPUs
    kv_type: of keys and values
    threads: of the processor
    """

    context: int = DRAFT_CONTEXT
    device: str = "auto"
    gpu_layers: int | None = None
    kv_type: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        check_device(self.device)
        within("draft context", self.context, MIN_DRAFT_CONTEXT, CELLS)
        within("draft threads", self.threads, 1, 1 << 16)
        within("draft gpu_layers", self.gpu_layers, 0, 1 << 16)
        if self.device == "cpu" and self.gpu_layers:
            layers = f"{self.gpu_layers} layers of the draft model are for a GPU"
            raise UsageError(f"{layers}, and its device is the CPU: omit one")


@dataclass(frozen=True, slots=True)
class Options:
    """The options to load a model with; None leaves the choice to the engine.

    slots: texts that are worked on at once
    context: tokens of one text; of all together where slots share a pool
    shared: whether slots share one KV cache, where the engine can do either
    batch: most tokens in one forward
    micro_batch: so many of them are computed at once; None: all
    tentative: most tokens a row may mark as tentative: the longest draft
    kv_type: of keys and values: "auto" is 16 bits as suits the engine; or "q8_0", "q4_0"
    flash_attention: whether to use it; None: where the engine can
    gpu_layers: so many go to GPUs, the last ones; None: all that fit
    split: shares of the GPUs in the layers; none: the engine's own
    split_mode: what is divided among GPUs: whole layers, or the rows of each matrix
    cpu_moe: layers, the first ones, whose experts stay on the host
    threads: of the processor; None: one for each fast core
    threads_batch: the same for forwards of several tokens; None: as many
    mmap: map weights from their file also where reading them makes tokens faster
    mlock: keep weights in memory, whatever else needs room
    direct_io: read weights past the system's cache of files
    products: whose products of matrices are computed, where the engine has a choice
    compute: numbers to compute in: "auto", as the model was made, or "float16" for bfloat16
    members: processes that run the model together, where the engine can
    adapters: LoRAs to put on the weights; an engine may take one only, or none
    bit_exact: round alike in batches of any width, where the engine can; slower
    head: the file of a drafting head to load, too: this one or one beside it
    projector: the file that turns pictures or sounds into embeddings, to load, too
    projector_on_host: the projector does not go to a GPU
    pooling: how a model that continues text turns whole ones into vectors, too; empty: it does not
    drafting: the model will be asked to roll rather than to verify
    draft: options of a draft model alone
    verbose: let the engine write its log to stderr
    """

    slots: int = 1
    context: int | None = None
    shared: bool | None = None
    batch: int = 512
    micro_batch: int | None = None
    tentative: int = 8
    kv_type: str = "auto"
    flash_attention: bool | None = None
    gpu_layers: int | None = None
    split: tuple[float, ...] = ()
    split_mode: str = BY_LAYER
    cpu_moe: int | None = None
    threads: int | None = None
    threads_batch: int | None = None
    mmap: bool = False
    mlock: bool = False
    direct_io: bool = False
    products: str = OWN_PRODUCTS
    compute: str = "auto"
    members: int = 1
    adapters: tuple[Adapter, ...] = ()
    bit_exact: bool = False
    head: Path | None = None
    projector: Path | None = None
    projector_on_host: bool = False
    pooling: str = ""
    drafting: bool = False
    draft: DraftOptions = field(default_factory=DraftOptions)
    verbose: bool = False

    @property
    def own_products(self) -> bool:
        """Whether LocalSpec's products may be used; weights are packed for them, so not mapped."""
        return self.products in (OWN_PRODUCTS, METAL_PRODUCTS) and not self.mmap

    def __post_init__(self) -> None:
        choices = {
            "products": (*PRODUCTS, METAL_PRODUCTS),
            "compute": NUMBERS,
            "split_mode": SPLIT_MODES,
            "pooling": ("", *VECTOR_POOLINGS),
        }
        for name, names in choices.items():
            if (value := getattr(self, name)) not in names:
                raise UsageError(f"{name} is {value!r}, known: {', '.join(filter(None, names))}")
        within("slots", self.slots, 1, SLOTS)
        within("context", self.context, 1, CELLS // self.slots)
        if self.direct_io and (self.mmap or self.mlock):
            raise UsageError("direct_io reads weights once, past the cache: omit mmap and mlock")
        for name in ("threads", "threads_batch", "micro_batch"):
            within(name, getattr(self, name), 1, 1 << 16)
        within("gpu_layers", self.gpu_layers, 0, 1 << 16)
        within("cpu_moe", self.cpu_moe, 0, 1 << 16)
        within("tentative", self.tentative, 0, MAX_TENTATIVE)
        within("batch", self.batch, self.tentative + BATCH_MARGIN, 1 << 16)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Options:
        """Read what `asdict` wrote as JSON."""
        adapters = tuple(Adapter(Path(a["path"]), a["scale"]) for a in data["adapters"])
        files = {name: data[name] and Path(data[name]) for name in ("head", "projector")}
        draft, split = DraftOptions(**data["draft"]), tuple(data["split"])
        return cls(**{**data, "draft": draft, "split": split, "adapters": adapters, **files})


def check_device(device: str) -> None:
    """Refuse what is no name of a device."""
    if device not in DEVICES and not str(device).isdecimal():
        raise UsageError(f"device is {device!r}; it must be auto, cpu or a GPU's number")


def within(name: str, value: int | None, low: int, high: int) -> None:
    """Refuse an option that is no whole number, or out of bounds."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise UsageError(f"{name} is {value!r}; it must be a whole number from {low:,} to {high:,}")
    if value is not None and not low <= value <= high:
        raise UsageError(f"{name} is {value:,}; it must be from {low:,} to {high:,}")


@runtime_checkable
class Follower(Protocol):
    """Something that reads along with a target, some tokens late."""

    def behind(self, slot: int) -> int | None:
        """Count the tokens of a slot that it has yet to read; None: it does not follow this text.

        It reads by itself before it is more than `MAX_HEAD_LAG` behind, and before it drafts.
        """

    def catch_up(self, slots: Sequence[int]) -> None:
        """Read the unread tokens of these slots now."""

    def leave(self, slot: int) -> None:
        """Note that nothing will be drafted for the text in a slot: it may follow it no more."""


class Head(Follower, Protocol):
    """A drafting head that reads its target's hidden states, which stay inside the backend."""

    proposer: str  # the name by which it drafts

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        """Draft from the target's state of each slot; a row is the newest token alone."""


class Model(Protocol):
    """One loaded model. One thread calls it."""

    tokenizer: Tokenizer
    vocabulary: int  # width of a row of logits
    slots: int
    context: int  # tokens that one slot can hold
    pool: int  # tokens that all slots can hold together; `ContextFull` beyond
    batch: int
    tentative: int
    head: Head | None  # if it was loaded with one
    sight: Sight | None  # if it was loaded with a projector

    def forward(self, rows: Sequence[Row]) -> Sequence[LogitRows]:
        """Append every row in one batch; float32 [outputs, vocabulary] per row, in row order.

        They are valid until the next call. After an error, `truncate` returns how many
        tokens are left. For a model with a sight, rows may have runs
        (`localspec.interfaces.media`): those that are `whole` complete. A row with more tokens
        than `batch` comes alone, and is one.
        """

    def truncate(self, slot: int, length: int) -> int:
        """Forget all but the first `length` tokens of a slot; return how many remain.

        Attention keeps exactly `length`. A recurrent model may only be able to go back to a
        checkpoint, so fewer may remain: feed the rest again. In the middle of a run, what comes
        before it remains. Any length is safe to ask for.
        """

    def copy(self, source: int, target: int, length: int) -> int:
        """Replace the content of `target` by the first `length` tokens of `source`.

        Returns how many it now holds: `length`, one less where the newest must be read again, those
        before a run where it ends within one, or 0 where that cannot be done.
        """

    def save(self, slot: int, most: int) -> Saved | None:
        """Copy the content of a slot, to `restore` later, and in other processes.

        None where this cannot be done or takes more than `most` bytes.
        """

    def restore(self, slot: int, data: NDArray[np.uint8], length: int) -> int:
        """Replace the content of a slot by the `length` tokens that were saved as `data`.

        Returns how many it now holds: `length`, or 0 where that cannot be done. The data must come
        from `save`, by the same weights, build and options: not every engine would notice.
        """

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        """Continue each row by the model's own tokens, the engine's own way.

        A row stops early where it no longer pays. Its tokens count as tentative; the last one has
        not been fed.
        """

    def free_head(self) -> None:
        """Free the drafting head for good; slots keep their texts. `head` is None from then on."""

    def close(self) -> None:
        """Free everything; calling it twice is safe."""


class Backend(Protocol):
    def inspect(self, path: Path) -> Footprint:
        """Read a model's headers. Safe for hostile files."""

    def load(self, path: Path, options: Options, tell: Progress = silent) -> Model:
        """Load a model; raises `OutOfMemory` where that is the reason. It need not use `tell`."""

    def rehearse(self, path: Path) -> AbstractContextManager[Rehearsal]:
        """Lay a model out, without loading it. A hostile file may end the process."""

    def build(self) -> Build: ...

    def probe(self) -> list[Device]:
        """List the devices that this engine was built for and can see."""
