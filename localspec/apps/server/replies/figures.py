"""Measurements of replies, in the formats of the APIs."""

from __future__ import annotations

import time

from localspec.apps.server.replies.reply import Choices, Reply
from localspec.core.proposers.prediction import BY as PREDICTION
from localspec.core.requests.job import Result


def usage(choices: Choices) -> dict[str, object]:
    """Sum up the tokens of all replies; a prompt counts once."""
    results = [reply.result for reply in choices.replies]
    prompts = [reply.result.usage for reply in choices.firsts]
    prompt = sum(used.prompt_tokens for used in prompts)
    completion = sum(result.usage.completion_tokens for result in results)
    positions = [result.speculation.positions for result in results]
    predicted = [guesses for by in positions for guesses in by.get(PREDICTION, ())]
    accepted = sum(guesses.accepted for guesses in predicted)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(used.cached_tokens for used in prompts)},
        "completion_tokens_details": {
            "reasoning_tokens": sum(result.usage.reasoning_tokens for result in results),
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": sum(guesses.drafted for guesses in predicted) - accepted,
        },
    }


def progress(reply: Reply) -> dict[str, object] | None:
    """Format how far a prompt is read, as llama.cpp's server does; None once all of it is."""
    job = reply.exchange.job
    if job is None or job.read >= 1:
        return None
    started = job.clock.started
    return {
        "total": job.generation.prompt_tokens,
        "cache": job.generation.reused,
        "processed": job.generation.cached,
        "time_ms": 0 if started is None else round(1000 * (time.perf_counter() - started)),
    }


def timings(result: Result) -> dict[str, object]:
    """Format times as llama.cpp's server does, with the speed-up over decoding without drafts.

    Times per token and per second are always numbers: editors print them.
    """
    times, speculation, used = result.timings, result.speculation, result.usage
    first = (times.first_token or times.total) - times.queued
    read, speed = used.prompt_tokens - used.cached_tokens, times.tokens_per_second or 0.0
    return {
        "queued_ms": 1000 * times.queued,
        "cache_n": used.cached_tokens,
        "prompt_n": read,
        "prompt_ms": 1000 * first,
        "prompt_per_token_ms": 1000 * first / max(read, 1),
        "prompt_per_second": read / first if first > 0 else 0.0,
        "predicted_n": used.completion_tokens,
        "predicted_ms": 1000 * (times.total - times.queued - first),
        "predicted_per_token_ms": 1000 / speed if speed else 0.0,
        "predicted_per_second": speed,
        "between_tokens_p50_ms": milliseconds(times.between_tokens_p50),
        "between_tokens_p95_ms": milliseconds(times.between_tokens_p95),
        "between_tokens_p99_ms": milliseconds(times.between_tokens_p99),
        "speedup": speculation.speedup,
        "wasted_ms": milliseconds(speculation.wasted_seconds),
        "draft_n": speculation.drafted,
        "draft_n_accepted": speculation.accepted,
        "rounds": speculation.rounds,
        "tokens_per_round": speculation.tokens_per_round,
        "thoughts_cut": used.thoughts_cut,
        "tokens_by_source": dict(speculation.tokens_by_source),
        "guesses": {by: list(guesses) for by, guesses in speculation.positions.items()},
    }


def milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds
