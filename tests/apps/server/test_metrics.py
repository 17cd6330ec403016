"""What a server counts of its replies."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.apps.server.monitoring.metrics import Metrics
from localspec.base.tokens import tokens_of
from localspec.core.engine.settings import Settings
from localspec.interfaces.ask import Ask
from localspec.interfaces.draft import Draft
from tests.runs import Want, replies, scripted


class Constant:
    """Drafts one token again and again."""

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [Draft(tokens_of([3] * ask.limit), "constant") for ask in asks]

    def release(self, slot: int) -> None:
        pass


def test_the_places_of_a_long_draft_are_counted_in_few_ranges():
    model = scripted(batch=514)
    model.tentative = 512
    settings = Settings(max_tokens=600, ignore_end=True)
    [result] = replies(model, Constant(), [Want([1, 2], settings)], depth=512)
    metrics = Metrics()
    metrics.note("m", result)
    samples = [s for family in metrics.registry.collect() for s in family.samples]
    drafted = {
        s.labels["position"]: s.value for s in samples if s.name == "localspec_drafted_total"
    }
    ranges = ["17-32", "33-64", "65-128", "129-256", "257-512"]
    assert list(drafted) == [*map(str, range(1, 17)), *ranges]
    assert sum(drafted.values()) == result.speculation.drafted
    counts = result.speculation.positions["constant"]
    assert drafted["17-32"] == sum(count.drafted for count in counts[16:32])
