"""Models of several kinds in one server: what all have, and the refusal of the wrong one."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Protocol, get_args

from localspec.apps.server.faults import Refused, not_offered, refused
from localspec.base.tokenizer import Tokenizer
from localspec.interfaces.footprint import DOES, Kind
from localspec.interfaces.media import Kind as MediaKind
from localspec.running.memory.machine import Pool
from localspec.running.runtime.loaded_facts import LoadedFacts

WAYS: Mapping[Kind, str] = {
    "text": "one, too",
    "embedding": "one, too, such as all-minilm, or --pooling mean to have the first model do it",
    "reranking": "one, too, such as bge-reranker-v2-m3",
}
MEDIA: tuple[MediaKind, ...] = get_args(MediaKind)
WORDS: Mapping[MediaKind, str] = {"image": "pictures", "audio": "sounds"}


class Resident(Protocol):
    """A loaded model, whatever it does."""

    tokenizer: Tokenizer
    facts: LoadedFacts
    context: int
    slots: int

    @property
    def kept_bytes(self) -> int: ...

    def devices(self) -> list[Pool]: ...

    def close(self) -> None: ...


def wrong_kind(name: str, does: Kind, asked: Kind, other: str) -> Refused:
    """Refuse a model that does something else, and name another that does what was asked for."""
    way = f"ask for {other}" if other else missing(asked)
    text = f"{name} {DOES[does]}, and this is for a model that {DOES[asked]}: {way}"
    return refused(text, "model")


def takes_none(name: str, able: Set[MediaKind], asked: Set[MediaKind], other: str) -> Refused:
    """Refuse pictures or sounds for a model, and name another that takes them in."""
    takes = " and ".join(["text", *(WORDS[kind] for kind in MEDIA if kind in able)])
    lacks = " and ".join(WORDS[kind] for kind in MEDIA if kind in asked) or "pictures or sounds"
    way = f"ask for {other}" if other else f"no model is served that takes {lacks}"
    return refused(f"{name} takes {takes} only, and the request has {lacks}: {way}", "model")


def nothing_for(asked: Kind) -> Refused:
    """Refuse what no served model does."""
    return not_offered(missing(asked))


def missing(asked: Kind) -> str:
    return f"no model is served that {DOES[asked]}: give localspec serve {WAYS[asked]}"
