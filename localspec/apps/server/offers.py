"""The models that clients can ask for, by their names and by what they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from difflib import get_close_matches

from localspec.apps.server.kinds import Resident, nothing_for, wrong_kind
from localspec.apps.server.offered_adapters import OfferedAdapters
from localspec.base.errors import ModelFileError, UnknownModel
from localspec.base.tokenizer import Tokenizer
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.interfaces.backend import Footprint
from localspec.interfaces.footprint import Kind
from localspec.interfaces.media import Kind as MediaKind
from localspec.running.models.ollama_names import meant
from localspec.running.runtime.phases import TellPhase

Load = Callable[[TellPhase], Resident]


@dataclass(frozen=True, slots=True)
class ServedOffer:
    """A model that clients can ask for."""

    name: str
    load: Load
    vocabulary: Callable[[], AbstractContextManager[Tokenizer]]  # without the weights
    usual: Sampling  # as its makers recommend
    engine: str
    format: str  # of its files
    drafter: str = ""
    context: int = 0  # expected, before it is loaded
    aliases: tuple[str, ...] = ()  # other names for it
    created: int = 0
    bytes: int = 0  # of its weights
    family: str = ""
    quantisation: str = ""
    slots: int = 1
    path: str = ""
    parameters: str = ""  # how many, as its makers write it
    footprint: Footprint | None = None  # what the headers of its files say
    reasoning_budget: int = -1  # tokens of thought, where a request leaves that open; -1: no limit
    reasoning_budget_message: str = ""  # that ends a thought whose budget is spent
    adapters: OfferedAdapters = field(default_factory=OfferedAdapters)
    pooling: str = ""  # by which a model that continues text turns texts into vectors, too
    media: frozenset[MediaKind] = frozenset()  # what it takes in beside texts, by its files
    pinned: bool = False  # whether only a client that asks for it unloads it
    idle_seconds: float | None = None  # after which it is unloaded, if not after the server's
    bench: tuple[str, ...] = ()  # how `localspec bench` is called for it; empty: not from here

    def answers_to(self, name: str) -> bool:
        return name in self.aliases or name in self.adapters.names

    @property
    def names(self) -> list[str]:
        """List the names of the model and of its adapters, as a client may choose among them."""
        return [self.name, *self.adapters.names]

    @property
    def kind(self) -> Kind:
        """Return what it does."""
        return self.footprint.kind if self.footprint else "text"

    def does(self, kind: Kind | None) -> bool:
        """Return whether it does this, of no kind anything."""
        return kind in (None, self.kind) or (kind == "embedding" and bool(self.pooling))


class Offers(dict[str, ServedOffer]):
    """Offers by name, the first of which answers for names that are not known."""

    def __init__(self, offers: Mapping[str, ServedOffer], *, strict: bool = False) -> None:
        super().__init__(offers)
        self._strict = strict  # whether a name must be known

    def knows(self, name: str) -> bool:
        return self._find(name) is not None

    def _find(self, name: str) -> ServedOffer | None:
        short = name.removesuffix(":latest")
        others = (offer for offer in self.values() if not name or offer.answers_to(short))
        offer = self.get(name) or self.get(short) or next(others, None)
        return offer or self.get(meant(short, self))

    def named(self, name: str) -> ServedOffer:
        """Find an offer by name; an empty name is the first, and `:latest` is ignored."""
        offer = self._find(name)
        if offer is None:
            near = get_close_matches(name, self, n=1)
            served = f"did you mean {near[0]}?" if near else f"served: {', '.join(self)}"
            raise UnknownModel(f"there is no model {name[:200]!r} here; {served}")
        return offer

    def answering(self, name: str, kind: Kind | None = "text") -> ServedOffer:
        """Return the offer that answers for a name: the first of a kind, where it is unknown.

        A model of another kind is refused; of no kind, any will do.
        """
        able = self.of_kind(kind)
        named = self._find(name) if name else None
        if named is None:
            if kind and self and not able:
                raise nothing_for(kind)
            return able[0] if able and not (name and self._strict) else self.named(name)
        if kind and not named.does(kind):
            raise wrong_kind(named.name, named.kind, kind, able[0].name if able else "")
        return named

    def meant_by(self, name: str) -> ServedOffer:
        """Return the offer that a name means: the only one, whatever the name."""
        return self.named("" if len(self) == 1 and not self._strict else name)

    def is_unknown(self, name: str, kind: Kind) -> bool:
        """Return whether another model than the named one answers, though there are several."""
        return len(self.of_kind(kind)) > 1 and not self.knows(name)

    def of_kind(self, kind: Kind | None) -> list[ServedOffer]:
        able = [offer for offer in self.values() if offer.does(kind)]
        return sorted(able, key=lambda offer: kind not in (None, offer.kind))  # its own kind first


def broken_offer(name: str, engine: str, why: str) -> ServedOffer:
    """Describe a model whose file cannot be read; a request for it hears why."""

    def load(tell: TellPhase) -> Resident:  # noqa: ARG001
        raise ModelFileError(why)

    def vocabulary() -> AbstractContextManager[Tokenizer]:
        raise ModelFileError(why)

    return ServedOffer(name, load, vocabulary, GREEDY, engine, "")
