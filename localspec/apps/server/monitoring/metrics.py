"""Metrics of the server, for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psutil
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from localspec.apps.server.model_host import ModelHost
from localspec.core.requests.job import Result

SECOND_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
GAP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
DEPTH_BUCKETS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256, 512)

MAX_POSITIONS = 16  # in a draft that are counted one by one

LLAMA_CPP = {  # counters by the names of its server, for dashboards made for it
    "prompt_tokens": "Tokens of prompts that were read",
    "prompt_seconds": "Time to read them",
    "tokens_predicted": "Tokens of replies",
    "tokens_predicted_seconds": "Time to decode them",
    "n_decode": "Passes of a target model",
    "spec_decode_num_drafts": "Passes that verified a draft",
    "spec_decode_num_draft_tokens": "Tokens that were drafted",
    "spec_decode_num_accepted_tokens": "Tokens of drafts that were accepted",
}


def position_label(position: int) -> str:
    """Name a position in a draft; those of long drafts share names, as each takes memory."""
    if position <= MAX_POSITIONS:
        return str(position)
    first = 1 << (position - 1).bit_length() - 1
    return f"{first + 1}-{2 * first}"


class Metrics:
    """Counts replies and their figures; any thread may note one."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"localspec_{name}", about, ("model", *labels), registry=self.registry)

        def histogram(name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
            name = f"localspec_{name}"
            return Histogram(name, about, ("model",), buckets=buckets, registry=self.registry)

        self._replies = counter("replies", "Replies by how they ended", "reason")
        self._prompt = counter("prompt_tokens", "Tokens of prompts")
        self._cached = counter("prompt_tokens_cached", "Of those, not read again")
        self._hits = counter("prefix_hits", "Prompts whose beginning was held already")
        self._tokens = counter("tokens", "Tokens of replies by their source", "source")
        self._thought = counter("reasoning_tokens", "Tokens of thoughts in replies")
        self._cut = counter("thoughts_cut", "Thoughts that were ended by their budget")
        self._rounds = counter("rounds", "Passes of a target model that brought tokens")
        self._drafted = counter("drafted", "Drafted tokens", "proposer", "position")
        self._accepted = counter("accepted", "Of those, the right ones", "proposer", "position")
        self._wasted = counter("wasted_seconds", "Time of drafting and verifying wrong tokens")
        self._depth = histogram("depth", "Tokens drafted in a round", DEPTH_BUCKETS)
        self._queued = histogram("queued_seconds", "Time until there was a slot", SECOND_BUCKETS)
        self._first = histogram("first_token_seconds", "Time to the first token", SECOND_BUCKETS)
        self._gap = histogram("token_seconds", "Time between two tokens of a reply", GAP_BUCKETS)
        self._total = histogram("reply_seconds", "Time of a whole reply", SECOND_BUCKETS)
        self._texts = counter("texts_read", "Texts that were read into vectors or scores")
        self._text_tokens = counter("text_tokens", "Tokens of these")
        self._llama_cpp = {
            name: Counter(f"llamacpp:{name}", about, registry=self.registry)
            for name, about in LLAMA_CPP.items()
        }

    def note(self, model: str, result: Result) -> None:
        used, speculation, timings = result.usage, result.speculation, result.timings
        self._replies.labels(model, result.finish_reason).inc()
        self._prompt.labels(model).inc(used.prompt_tokens)
        self._cached.labels(model).inc(used.cached_tokens)
        self._hits.labels(model).inc(bool(used.cached_tokens))
        self._thought.labels(model).inc(used.reasoning_tokens)
        self._cut.labels(model).inc(used.thoughts_cut)
        self._rounds.labels(model).inc(speculation.rounds)
        self._wasted.labels(model).inc(speculation.wasted_seconds or 0.0)
        for source, count in speculation.tokens_by_source.items():
            self._tokens.labels(model, source).inc(count)
        for by, guesses in speculation.positions.items():
            for position, guess in enumerate(guesses, 1):
                place = position_label(position)
                self._drafted.labels(model, by, place).inc(guess.drafted)
                self._accepted.labels(model, by, place).inc(guess.accepted)
        for depth, count in speculation.depths.items():
            for _ in range(count):
                self._depth.labels(model).observe(depth)
        self._queued.labels(model).observe(timings.queued)
        self._total.labels(model).observe(timings.total)
        if timings.first_token is not None:
            self._first.labels(model).observe(timings.first_token)
        gap = self._gap.labels(model)
        for seconds in timings.gaps:
            gap.observe(seconds)
        self._note_as_llama_cpp(result)

    def note_texts(self, model: str, texts: int, tokens: int) -> None:
        """Count texts that were read whole, for vectors or scores."""
        self._texts.labels(model).inc(texts)
        self._text_tokens.labels(model).inc(tokens)
        self._llama_cpp["prompt_tokens"].inc(tokens)

    def _note_as_llama_cpp(self, result: Result) -> None:
        used, speculation, timings = result.usage, result.speculation, result.timings
        first = timings.total if timings.first_token is None else timings.first_token
        counts = {
            "prompt_tokens": used.prompt_tokens - used.cached_tokens,
            "prompt_seconds": max(first - timings.queued, 0.0),
            "tokens_predicted": used.completion_tokens,
            "tokens_predicted_seconds": max(timings.total - first, 0.0),
            "n_decode": speculation.rounds,
            "spec_decode_num_drafts": sum(n for depth, n in speculation.depths.items() if depth),
            "spec_decode_num_draft_tokens": speculation.drafted,
            "spec_decode_num_accepted_tokens": speculation.accepted,
        }
        for name, count in counts.items():
            self._llama_cpp[name].inc(count)


class Now:
    """The state of the server when metrics are read."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host

    def collect(self) -> Iterator[Metric]:
        slots = GaugeMetricFamily("localspec_slots", "Slots by use", labels=("model", "state"))
        queue = GaugeMetricFamily("localspec_queue", "Requests without a slot", labels=("model",))
        about = "Memory of texts that slots gave up; part of what is resident"
        kept = GaugeMetricFamily("localspec_kept_bytes", about, labels=("model",))
        for served in list(self._host.loaded.values()):
            slots.add_metric((served.name, "busy"), served.busy)
            slots.add_metric((served.name, "free"), served.resident.slots - served.busy)
            queue.add_metric((served.name,), served.waiting)
            kept.add_metric((served.name,), served.resident.kept_bytes)
        yield slots
        yield queue
        yield kept
        yield from self._devices()
        for name, about, count in (
            ("llamacpp:requests_processing", "Requests that have a slot", slots),
            ("llamacpp:requests_deferred", "Requests without a slot", queue),
        ):
            waits = [s.value for s in count.samples if s.labels.get("state") != "free"]
            yield GaugeMetricFamily(name, about, sum(waits))
        memory = psutil.Process().memory_info().rss
        yield GaugeMetricFamily("localspec_memory_bytes", "Resident memory", memory)

    def _devices(self) -> Iterator[Metric]:
        """Report the devices that loaded models use, each once."""
        models = [served.resident for served in list(self._host.loaded.values())]
        pools = {pool.name: pool for model in models for pool in model.devices()}
        about = "Memory of a device that models use"
        total = GaugeMetricFamily("localspec_device_bytes", about, labels=("device",))
        free = GaugeMetricFamily("localspec_device_free_bytes", "Of that, free", labels=("device",))
        for pool in pools.values():
            total.add_metric((pool.name,), pool.total)
            free.add_metric((pool.name,), pool.free)
        yield total
        yield free


def status(host: ModelHost, metrics: Metrics) -> list[BaseRoute]:
    async def health(_: Request) -> Response:
        """Report that requests are taken, and how many there are."""
        served = list(host.loaded.values())
        return JSONResponse(
            {
                "status": "ok",
                "loaded": sorted(host.loaded),
                "slots": sum(model.resident.slots for model in served),
                "busy": sum(model.busy for model in served),
                "waiting": sum(model.waiting for model in served),
            }
        )

    async def figures(_: Request) -> Response:
        """Return the metrics for Prometheus."""
        text = await asyncio.to_thread(
            generate_latest, metrics.registry
        )  # devices take their time to answer
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    return [Route("/health", health), Route("/v1/health", health), Route("/metrics", figures)]
