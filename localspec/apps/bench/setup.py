"""What a run measures: the model and its drafter, the machine, the modes, the sampling."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.apps.bench import machine
from localspec.apps.bench.modes import Lineup
from localspec.apps.bench.verdict import Drafter
from localspec.base.system.fingerprint import digest, fingerprint
from localspec.core.pairing.vocabulary import Match
from localspec.core.proposers import registry
from localspec.core.requests.settings import Settings
from localspec.interfaces.adapter import Adapter
from localspec.running.models.trial import ResolvedModel
from localspec.running.runtime.resolved_pair import ResolvedPair

Sums = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Setup:
    """The facts of a run that were settled before it.

    weights: the sums of the target's files, then those of what drafts; none where nobody asked
    on_host: whether only the host's processor and memory compute
    read_bytes: of weights that each token reads; 0: the engine does not tell
    """

    heading: tuple[tuple[str, str], ...]
    modes: tuple[str, ...]
    drafter: Drafter | None = None
    weights: Sums = ()
    on_host: bool = True
    read_bytes: int = 0

    def as_record(self) -> dict[str, object]:
        return {
            "heading": dict(self.heading),
            "modes": self.modes,
            "weights": self.weights,
            "on_host": self.on_host,
        }


def setup_of(
    lineup: Lineup,
    resolved: ResolvedPair,
    settings: Settings,
    drafter: Drafter | None,
    weights: Sums = (),
) -> Setup:
    """Collect the facts of a run with loaded models."""
    heading = tuple(describe(resolved, lineup.pairing, settings))
    names = tuple(mode.name for mode in lineup.modes)
    read = resolved.target.footprint.read_bytes
    return Setup(heading, names, drafter, weights, resolved.plan.on_host, read)


def sums(resolved: ResolvedPair) -> Sums:
    """Compute the sha256 of each file of the weights, by model; it takes a second for a GB."""
    models = [resolved.target, *([resolved.draft] if resolved.draft else [])]
    return tuple(map(_sums, models))


def _sums(model: ResolvedModel) -> tuple[str, ...]:
    files = model.files.engine.spec.files(model.files.path)
    return tuple(digest(file, large=True) for file in files)


def describe_drafter(proposer: str, *, chosen_by_user: bool) -> Drafter | None:
    """Describe what drafts besides prompt lookup, and how to do without it."""
    if not proposer:
        return None
    name = "this draft model" if proposer == registry.DRAFT else f"the {proposer} head"
    without = "Omit --draft" if chosen_by_user else f"Omit it: --proposer {','.join(registry.AUTO)}"
    return Drafter(name, f"{without}.")


def describe(
    resolved: ResolvedPair, pairing: Match | None, settings: Settings
) -> list[tuple[str, str]]:
    """List the facts beside the figures, each with its name."""
    target, draft = resolved.target, resolved.draft
    lines = [
        *machine.facts("localspec", target.engine.devices).items(),
        ("model", machine.weights(target.footprint)),
        ("path", str(target.files.path)),
    ]
    if draft is not None:
        share = f"; can draft {pairing.share:.0%} of the tokens" if pairing else ""
        lines.append(("draft", machine.weights(draft.footprint) + share))
    if adapters := resolved.plan.options.adapters:
        lines.append(("adapters", ", ".join(map(describe_adapter, adapters))))
    sampled = f"temperature {settings.sampling.temperature:g}, seed {settings.seed}"
    return [*lines, ("sampling", sampled if settings.sampling.temperature else "greedy")]


def describe_adapter(adapter: Adapter) -> str:
    """Name an adapter by its file, its scale and what it holds."""
    return f"{adapter.path.name} at {adapter.scale:g} ({fingerprint([adapter.path], [])[:12]})"
