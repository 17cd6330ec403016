"""The way from a name or a path to a model of whole texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from localspec.base.errors import UsageError
from localspec.interfaces.backend import TEXT_CONTEXT, Footprint, Options
from localspec.running.models import trial
from localspec.running.models.locate import ModelFiles, locate
from localspec.running.models.recommended import prefixes
from localspec.running.runtime.loaded_facts import LoadedFacts
from localspec.running.runtime.loading import Loading
from localspec.running.runtime.pair_files import ExaminedPair
from localspec.running.runtime.phases import Phase, TellPhase, unheard
from localspec.running.runtime.resolved_pair import resolve_pair
from localspec.running.runtime.vector_runtime import VectorRuntime


def load_vectors(
    name_or_path: str | Path, loading: Loading | None = None, *, tell: TellPhase = unheard
) -> VectorRuntime:
    """Load a model that turns texts into vectors, or ranks documents."""
    loading = loading or Loading()
    files = locate(str(name_or_path), loading.backend)
    return load_vector_files(str(name_or_path), files, loading, tell)


def load_vector_files(
    name: str, files: ModelFiles, loading: Loading, tell: TellPhase = unheard
) -> VectorRuntime:
    """Load a model of whole texts by its files."""
    engine = files.engine.vector_engine()
    with trial.examine(files, begins=lambda step, path: tell(Phase(step, path.name))) as examined:
        footprint = examined.footprint()
        require_vectors(footprint)
        options = vector_options(loading.options, footprint)
        alone = ExaminedPair(examined, None)
        resolved = resolve_pair(alone, options, loading.limits, insists=False)

    def tell_share(share: float) -> None:
        tell(Phase("reading", files.path.name, share))

    tell(Phase("reading", files.path.name))
    model = engine.load_vectors(files.path, resolved.plan.options, tell_share)
    facts = LoadedFacts(plan=resolved.plan, target=resolved.target)
    return VectorRuntime(model, facts, prefixes(name))


def vector_options(options: Options, footprint: Footprint) -> Options:
    """Choose the options for a model of whole texts, which lacks some."""
    if options.adapters:
        raise UsageError("adapters are for models that continue text: name such a model first")
    if options.pooling:
        raise UsageError(
            "pooling is for models that continue text, and this one has its own: omit it"
        )
    longest = footprint.positions or footprint.context or TEXT_CONTEXT
    return replace(
        options,
        slots=1,
        context=min(options.context or TEXT_CONTEXT, footprint.context or longest, longest),
        kv_type="auto",
        projector=None,
        bit_exact=False,
        members=1,
        head=None,
    )


def require_vectors(footprint: Footprint) -> None:
    if footprint.kind == "text":
        raise UsageError(
            f"{footprint.path.name} continues text, and does not say how a text becomes a vector: "
            "give an embedding model, such as all-minilm"
        )
