"""A request held against the model it is for."""

from __future__ import annotations

from localspec.backend import Model
from localspec.errors import PromptTooLong, UsageError
from localspec.generation import Ending, Generation
from localspec.proposer import Hints
from localspec.sampler import Sampler
from localspec.settings import Settings
from localspec.tokens import History, Tokens


def check(model: Model, prompt: Tokens, settings: Settings) -> None:
    """Refuse what the model cannot do, with the numbers."""
    if not len(prompt):
        raise UsageError("the prompt is empty; give at least one token")
    last = model.vocabulary - 1
    if prompt.min() < 0 or prompt.max() > last:
        raise UsageError(f"the prompt has tokens outside 0 to {last}")
    if any(not 0 <= token <= last for token in settings.sampling.bias):
        raise UsageError(f"bias names tokens outside 0 to {last}")
    if len(prompt) >= model.context:
        raise PromptTooLong(
            f"the prompt is {len(prompt):,} tokens; this model was loaded for "
            f"{model.context:,}, the reply included: load it with a larger context"
        )
    if settings.depth is not None and settings.depth > model.tentative:
        raise UsageError(f"depth is {settings.depth}; the model was loaded for {model.tentative}")


def generation(
    model: Model, prompt: Tokens, settings: Settings, seed: int, depth: int
) -> Generation:
    """A generation as the settings wish it; `depth` is for those that leave it open."""
    wanted = model.context if settings.max_tokens is None else len(prompt) + settings.max_tokens
    return Generation(
        History(prompt),
        Sampler(settings.sampling, seed, prompt),
        Ending(
            limit=min(wanted, model.context),
            tokens=frozenset() if settings.ignore_end else model.tokenizer.ends,
            texts=settings.stop,
        ),
        model.tokenizer.token_bytes,
        depth=depth if settings.depth is None else settings.depth,
        hints=Hints(model.tokenizer.encode(settings.prediction)),
    )
