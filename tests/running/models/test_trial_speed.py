"""Measuring how fast a model is, with a clock that forwards move."""

from __future__ import annotations

import pytest

from localspec.interfaces.backend import Options
from localspec.interfaces.testing import ScriptedModel, hashed_logits
from localspec.running.models.trial_speed import MAX_READ, WIDE, measurable, measure


class Timed(ScriptedModel):
    """A model whose forward takes a second, and a tenth for each token beyond the first."""

    def __init__(self, slow_until: float = 0.0):
        super().__init__(hashed_logits(1))
        self.now, self.widest, self._slow_until = 0.0, 0, slow_until

    def forward(self, rows):
        width = len(rows[0].tokens)
        self.widest = max(self.widest, width)
        self.now += (1 + (width - 1) / 10) * (3 if self.now < self._slow_until else 1)
        return super().forward(rows)


def test_each_kind_of_work_is_timed_at_least_once_and_repeats_write_the_same():
    model = Timed()
    speeds = measure(model, 1e-3, lambda: model.now)
    assert speeds.plain == pytest.approx(1.0)
    assert speeds.wide == pytest.approx(WIDE / (1 + (WIDE - 1) / 10))
    assert speeds.reading > speeds.wide
    longer = Timed()
    assert measure(longer, 100.0, lambda: longer.now).text == speeds.text


def test_of_several_times_the_best_counts_since_others_only_make_a_machine_slower():
    model = Timed(slow_until=25.0)
    assert measure(model, 120.0, lambda: model.now).plain == pytest.approx(1.0)


def test_a_longer_prompt_is_read_where_there_is_time_for_it():
    widths = []
    for seconds in (10.0, 300.0):
        model = Timed()
        measure(model, seconds, lambda model=model: model.now)
        widths.append(model.widest)
    assert widths[0] < widths[1]


def test_a_measurement_holds_one_text_and_nothing_beside_the_model():
    options = Options(slots=4, shared=True, context=8192, tentative=100, verbose=True)
    alone = measurable(options, driven=False)
    assert (alone.slots, alone.shared, alone.tentative) == (1, None, WIDE - 1)
    assert MAX_READ < alone.context < measurable(options, driven=True).context
    assert measurable(Options(context=80), driven=False).context == 80
