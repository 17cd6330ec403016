"""What a server counts of its replies: the value of each metric, as it is served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from localspec.apps.server.monitoring.metrics import (
    DEPTH_BUCKETS,
    GAP_BUCKETS,
    SECOND_BUCKETS,
    Metrics,
    Now,
)
from localspec.apps.server.monitoring.request_log import Ignored
from localspec.base.tokens import tokens_of
from localspec.core.requests.figures import PositionCounts, Speculation, Timings, Usage
from localspec.core.requests.job import Result
from localspec.core.requests.settings import Settings
from localspec.interfaces.draft import Draft
from localspec.interfaces.draft_request import Ask
from tests.runs import Want, replies, scripted

DRAFTED = Result(
    "abcdefgh",
    tuple(range(8)),
    "stop",
    1,
    Usage(100, 60, 8, 3, 1),
    Timings(0.2, 0.7, 1.9, 0.2, 0.3, 0.3, 6.0, (0.0004, 0.2, 0.3, 3.0)),
    Speculation(
        rounds=4,
        drafted=7,
        accepted=4,
        taken_back=3,
        tokens_per_round=2.0,
        acceptance_rate=4 / 7,
        acceptance_by_position=(),
        tokens_by_source={"target": 4, "ngram": 4},
        positions={"ngram": (PositionCounts(3, 2), PositionCounts(4, 2))},
        depths={0: 1, 2: 2, 3: 1},
        wasted_seconds=0.25,
    ),
)
CANCELLED = Result(
    "",
    (),
    "cancelled",
    1,
    Usage(30, 0, 0),
    Timings(0.5, None, 0.5, None, None, None, None),
    Speculation(0, 0, 0, 0, 0.0, None, (), {}, {}, {}),
)


class Constant:
    """Drafts one token again and again."""

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [Draft(tokens_of([3] * ask.limit), "constant") for ask in asks]

    def release(self, slot: int) -> None:
        pass


def host():
    """A host of one model with three slots, two of them busy, on one device."""
    pool = SimpleNamespace(name="card", total=800, free=300)
    resident = SimpleNamespace(slots=3, kept_bytes=4096, devices=lambda: [pool])
    served = SimpleNamespace(name="m", busy=2, waiting=5, resident=resident)
    return SimpleNamespace(loaded={"m": served})


def served_values(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Read what is served: values by names and labels."""
    text = generate_latest(metrics.registry).decode()
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    lasting = [s for s in samples if not s.name.endswith("_created")]
    return {(s.name, *s.labels.values()): s.value for s in lasting}


def histogram(name: str, bounds: Iterable[float], values: Mapping[float, int], *labels: str):
    """List the samples of a histogram of these values."""
    key, infinite = f"localspec_{name}", float("inf")
    for bound in (*map(float, bounds), infinite):
        label = "+Inf" if bound == infinite else str(bound)
        under = sum(count for value, count in values.items() if value <= bound)
        yield (f"{key}_bucket", label, *labels), under
    yield (f"{key}_count", *labels), sum(values.values())
    yield (f"{key}_sum", *labels), sum(value * count for value, count in values.items())


def test_every_metric_has_the_value_of_its_replies():
    metrics = Metrics()
    metrics.registry.register(Now(host()))
    ignored = Ignored(metrics)
    metrics.note("m", DRAFTED)
    metrics.note("m", CANCELLED)
    metrics.note_texts("v", 2, 50)
    request = SimpleNamespace(headers={"user-agent": "a client"}, scope={})
    ignored.note(request, ["mood"])
    counts = {
        ("replies_total", "m", "stop"): 1,
        ("replies_total", "m", "cancelled"): 1,
        ("prompt_tokens_total", "m"): 130,
        ("prompt_tokens_cached_total", "m"): 60,
        ("prefix_hits_total", "m"): 1,
        ("tokens_total", "m", "target"): 4,
        ("tokens_total", "m", "ngram"): 4,
        ("reasoning_tokens_total", "m"): 3,
        ("thoughts_cut_total", "m"): 1,
        ("rounds_total", "m"): 4,
        ("wasted_seconds_total", "m"): 0.25,
        ("drafted_total", "m", "1", "ngram"): 3,
        ("drafted_total", "m", "2", "ngram"): 4,
        ("accepted_total", "m", "1", "ngram"): 2,
        ("accepted_total", "m", "2", "ngram"): 2,
        ("texts_read_total", "v"): 2,
        ("text_tokens_total", "v"): 50,
        ("ignored_fields_total", "mood"): 1,
        ("slots", "m", "busy"): 2,
        ("slots", "m", "free"): 1,
        ("queue", "m"): 5,
        ("kept_bytes", "m"): 4096,
        ("device_bytes", "card"): 800,
        ("device_free_bytes", "card"): 300,
    }
    expected = {(f"localspec_{name}", *labels): n for (name, *labels), n in counts.items()}
    for name, bounds, values in (
        ("depth", DEPTH_BUCKETS, {0: 1, 2: 2, 3: 1}),
        ("queued_seconds", SECOND_BUCKETS, {0.2: 1, 0.5: 1}),
        ("first_token_seconds", SECOND_BUCKETS, {0.7: 1}),
        ("token_seconds", GAP_BUCKETS, dict.fromkeys(DRAFTED.timings.gaps, 1)),
        ("reply_seconds", SECOND_BUCKETS, {1.9: 1, 0.5: 1}),
    ):
        expected |= dict(histogram(name, bounds, values, "m"))
    of_llama_cpp = {
        "prompt_tokens_total": 40 + 30 + 50,
        "prompt_seconds_total": 0.5,
        "tokens_predicted_total": 8,
        "tokens_predicted_seconds_total": 1.2,
        "n_decode_total": 4,
        "spec_decode_num_drafts_total": 3,
        "spec_decode_num_draft_tokens_total": 7,
        "spec_decode_num_accepted_tokens_total": 4,
        "requests_processing": 2,
        "requests_deferred": 5,
    }
    expected |= {(f"llamacpp:{name}",): value for name, value in of_llama_cpp.items()}
    told = served_values(metrics)
    assert told.pop(("localspec_memory_bytes",)) > 1e6
    assert told == pytest.approx(expected)


def test_the_places_of_a_long_draft_are_counted_in_few_ranges():
    model = scripted(batch=514)
    model.tentative = 512
    settings = Settings(max_tokens=600, ignore_end=True)
    [result] = replies(model, Constant(), [Want([1, 2], settings)], depth=512)
    metrics = Metrics()
    metrics.note("m", result)
    values = served_values(metrics)
    drafted = {key[2]: n for key, n in values.items() if key[0] == "localspec_drafted_total"}
    ranges = ["17-32", "33-64", "65-128", "129-256", "257-512"]
    assert list(drafted) == [*map(str, range(1, 17)), *ranges]
    assert sum(drafted.values()) == result.speculation.drafted
    counts = result.speculation.positions["constant"]
    assert drafted["17-32"] == sum(count.drafted for count in counts[16:32])
