"""Check a request against its model, and begin its generation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from localspec.base.errors import PromptTooLong, UsageError
from localspec.base.tokenizer import LONG_TOKEN, Tokenizer
from localspec.base.tokens import History, Tokens
from localspec.core.decoding.generation import Ending, Generation
from localspec.core.requests.settings import Settings
from localspec.core.sampling.sampler import Sampler
from localspec.formats.thought.budget import ThoughtBudget
from localspec.interfaces.abilities import require_adapters, scales_of, usual_scales
from localspec.interfaces.adapter import Adapter, Scales
from localspec.interfaces.backend import Model
from localspec.interfaces.media_positions import Stretch, stretches, without_media
from localspec.interfaces.proposer import Hints

MAX_SCORES = 1 << 18  # log-probabilities of a prompt, at 100 bytes each


def check(model: Model, prompt: Tokens, settings: Settings) -> None:
    """Refuse a request that the model cannot do, with the numbers."""
    if not len(prompt):
        raise UsageError("the prompt is empty; give at least one token")
    last, media = model.vocabulary - 1, places(prompt, settings)
    if (prompt.min() < 0 and not media) or prompt.max() > last:
        raise UsageError(f"the prompt has tokens outside 0 to {last}")
    for name, tokens in ("bias", settings.sampling.bias), ("judged", settings.judged):
        if any(not 0 <= token <= last for token in tokens):
            raise UsageError(f"{name} names tokens outside 0 to {last}")
    if len(prompt) >= model.context:
        # By these words clients know what is wrong, and send less: by Anthropic's "prompt is too
        # long" (Claude Code, which reads the numbers where they are digits alone; LangChain), or
        # OpenAI's "this model's maximum context length is" (litellm, and so aider).
        raise PromptTooLong(
            f"the prompt is too long: {len(prompt)} tokens > {model.context}; this model's maximum "
            f"context length is {model.context} tokens, as it was loaded, the reply included: "
            "load it with a larger context"
        )
    if settings.prompt_logprobs:
        check_scores(len(prompt), settings)
    if settings.depth is not None and settings.depth > model.tentative:
        raise UsageError(f"depth is {settings.depth}; the model was loaded for {model.tentative}")


def check_scores(tokens: int, settings: Settings) -> None:
    """Refuse log-probabilities of a prompt that take too much memory, or of pictures."""
    if settings.media:
        raise UsageError("a prompt with pictures or sounds has no log-probabilities of its tokens")
    alternatives = settings.logprobs or 0
    if tokens * (alternatives + 1) > MAX_SCORES:
        raise UsageError(
            f"{tokens:,} tokens with {alternatives} alternatives each are more log-probabilities "
            f"than {MAX_SCORES:,}: ask for {MAX_SCORES // tokens - 1} alternatives, or fewer"
        )


def places(prompt: Tokens, settings: Settings) -> tuple[Stretch, ...]:
    """Find the runs of a request in its prompt; refuse positions of others."""
    return tuple(stretches(prompt, settings.media)) if settings.media else ()


def text_of(prompt: Tokens, settings: Settings) -> Tokens:
    """Return the tokens of a prompt alone, by which those of the reply are penalised."""
    return without_media(prompt) if settings.media else prompt


def scales(adapters: Sequence[Adapter], settings: Settings) -> Scales:
    """Return the scales of the model's adapters for a reply; refuse those of others."""
    if settings.adapters is None:
        return usual_scales(adapters)
    chosen = scales_of(settings.adapters)
    require_adapters(adapters, chosen)
    return chosen


def ends(model: Model, settings: Settings) -> frozenset[int]:
    """Return the tokens that end a reply."""
    return settings.ends if settings.ignore_end else settings.ends | model.tokenizer.ends


def thought_budget(model: Model, settings: Settings) -> ThoughtBudget | None:
    """Follow the thoughts of a reply by their budget, if it has one."""
    thoughts, budget = settings.thoughts, settings.reasoning_budget
    if thoughts is None or not thoughts.closing or budget is None or budget < 0:
        return None
    return ThoughtBudget(thoughts, budget, spelling(model.tokenizer, settings.marks))


def generation(
    model: Model, prompt: Tokens, settings: Settings, sampler: Sampler, depth: int
) -> Generation:
    """Begin a generation by its settings; `depth` is for those that leave it open.

    Plain decoding is depth 0, whether that or no proposer was asked for.
    """
    depth = depth if settings.depth is None else settings.depth
    limit = model.context if settings.max_tokens is None else len(prompt) + settings.max_tokens
    forced = sampler.forced if sampler.forces else None
    # As much as a reply could have: all of a longer one would take its time.
    prediction = model.tokenizer.encode(settings.prediction[: model.context * LONG_TOKEN])
    scored = settings.prompt_logprobs and settings.logprobs is not None
    media = places(prompt, settings)
    seen = sum(place.end - place.start for place in media)
    return Generation(
        History(prompt),
        sampler,
        Ending(limit=min(limit, model.context), tokens=ends(model, settings), texts=settings.stop),
        spelling(model.tokenizer, settings.marks),
        depth=0 if settings.proposers == () else depth,
        hints=Hints(prediction, forced, settings.proposers, seen),
        scores=model.tentative + 1 if scored else 0,
        reports=settings.logprobs is not None and settings.sampled_logprobs,
        ahead=settings.ahead,
        shares=settings.reuse_prefix and not scored,
        media=media,
    )


def spell_everything(tokenizer: Tokenizer) -> Callable[[int], bytes]:
    """Return the function that spells tokens, control tokens by their names."""
    return lambda token: tokenizer.token_bytes(token) or tokenizer.token_text(token).encode()


def spelling(tokenizer: Tokenizer, marks: frozenset[int]) -> Callable[[int], bytes]:
    """Return the function that spells tokens; it shows the control tokens in `marks`."""
    if not marks:
        return tokenizer.token_bytes
    shown = {mark: tokenizer.token_text(mark).encode() for mark in marks}
    return lambda token: shown.get(token) or tokenizer.token_bytes(token)
