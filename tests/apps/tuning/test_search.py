"""The search for the fastest options, on machines that are not at hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from localspec.apps.tuning.search import GAIN, Outcome, Search, including
from localspec.interfaces.backend import Footprint, Options
from localspec.interfaces.coordinate import Coordinate
from localspec_llamacpp.coordinates import Processors, coordinates_on

MODEL = Footprint(Path("m"), "llama", "m", "Q4_K_M", 1, 1, 24, 16, 8, 1024, 1000, 4096, "", None)
EXPERTS = Footprint(Path("m"), "m", "m", "Q4", 1, 1, 24, 16, 8, 64, 9, 64, "", None, experts=8)


class Machine:
    """Cores by their speeds, in the order in which threads take them, and cards."""

    def __init__(self, cores, *, usual, bandwidth, cards=(), link=1.0):
        self.cores, self.usual, self.bandwidth = cores, usual, bandwidth
        self.cards, self.link = cards, link
        self.measured = []

    def work(self, count):
        """Threads share work alike and wait for the slowest; each takes a little to meet."""
        return count * min(self.cores[:count]) / (1 + 0.01 * count)

    def score(self, choice):
        self.measured.append(dict(choice))
        threads = choice["threads"] or self.usual
        of_batch = choice["threads_batch"] or threads
        plain = min(self.work(threads), self.bandwidth) * (0.85 if choice.get("mmap") else 1.0)
        micro = choice.get("micro_batch") or choice.get("batch", 512)
        reading = 10 * self.work(of_batch) * micro / (micro + 40)
        if choice.get("flash_attention") is False:
            plain, reading = plain * 0.97, reading * 0.8
        if self.cards:
            plain, reading = self.on_cards(choice, plain, reading)
        return plain**0.5 * reading**0.25 * (4 * min(self.work(of_batch), 2 * plain)) ** 0.25

    def on_cards(self, choice, plain, reading):
        layers = 24 if choice["gpu_layers"] is None else choice["gpu_layers"]
        card = sum(self.cards) if choice.get("split_mode") == "tensor" else max(self.cards)
        card *= self.link if choice.get("split_mode", "layer") != "layer" else 1.0
        share = layers / 24
        apart = choice.get("cpu_moe") or 0
        share *= 1 - 0.5 * apart / 24
        per_token = share / card + (1 - share) / plain
        return 1 / per_token, 1 / (share / (10 * card) + (1 - share) / reading)


ONE = Machine([1.0], usual=1, bandwidth=3.0)
TWELVE = Machine([1.0] * 12 + [0.55] * 12, usual=12, bandwidth=5.0)
HYBRID = Machine([1.0] * 6 + [0.3] * 8, usual=6, bandwidth=4.5)
HYBRID_UNKNOWN = Machine([1.0] * 6 + [0.3] * 8, usual=14, bandwidth=4.5)
CARD = Machine([1.0] * 8, usual=8, bandwidth=5.0, cards=(60.0,))
SLOW_CARD = Machine([1.0] * 8, usual=8, bandwidth=5.0, cards=(2.0,))  # as a worker by a slow link
TWO_CARDS = Machine([1.0] * 8, usual=8, bandwidth=5.0, cards=(60.0, 60.0), link=0.8)
TWO_FAR_CARDS = Machine([1.0] * 8, usual=8, bandwidth=5.0, cards=(60.0, 60.0), link=0.28)
MACHINES = {
    "1": ONE,
    "12": TWELVE,
    "6+8": HYBRID,
    "6+8, not told apart": HYBRID_UNKNOWN,
    "card": CARD,
    "slow card": SLOW_CARD,
    "two cards": TWO_CARDS,
    "two cards, slow link": TWO_FAR_CARDS,
}
BAD = {
    "threads": 1,
    "mmap": True,
    "flash_attention": False,
    "micro_batch": 32,
    "gpu_layers": 0,
}


def searched(machine, model=MODEL, changes=None):
    options = Options(**(changes or {}))
    processors = Processors(machine.usual, len(machine.cores))
    listed = list(coordinates_on(processors, len(machine.cards), model, options))
    usual = {one.option: getattr(Options(), one.option) for one in listed}
    start = {one.option: getattr(options, one.option) for one in listed}
    return usual, start, including(listed, start)


def best_of_grid(machine, coordinates):
    names = [one.option for one in coordinates]
    return max(
        machine.score(dict(zip(names, values, strict=True)))
        for values in itertools.product(*(one.values for one in coordinates))
    )


@pytest.mark.parametrize("model", [MODEL, EXPERTS], ids=["dense", "experts"])
@pytest.mark.parametrize("begin", ["usual", "bad"])
@pytest.mark.parametrize("name", MACHINES)
def test_what_is_found_is_as_fast_as_the_best_of_all_combinations(name, begin, model):
    machine = MACHINES[name]
    names = {one.option for one in searched(machine, model)[2]} | {"flash_attention"}
    bad = {key: value for key, value in BAD.items() if key in names}
    _, start, coordinates = searched(machine, model, bad if begin == "bad" else None)
    machine.measured.clear()
    outcome = Search(machine.score, lambda: True).run(start, start, coordinates)
    assert len(machine.measured) <= 60  # each takes seconds
    assert machine.score(outcome.choice) > 0.97 * best_of_grid(machine, coordinates)


def test_threads_stay_with_the_fast_cores_for_tokens_and_go_to_all_where_that_pays():
    usual, start, coordinates = searched(HYBRID_UNKNOWN)
    choice = Search(HYBRID_UNKNOWN.score, lambda: True).run(usual, start, coordinates).choice
    assert choice["threads"] == 6
    usual, start, coordinates = searched(TWELVE)
    assert Search(TWELVE.score, lambda: True).run(usual, start, coordinates).choice == usual


def run(scores, usual=0, start=None, has_time=lambda: True):
    """Search one option whose values have these scores."""
    asked = []

    def measure(choice):
        asked.append(choice["a"])
        return scores[choice["a"]]

    coordinate = Coordinate("a", tuple(range(len(scores))))
    start = usual if start is None else start
    return Search(measure, has_time).run({"a": usual}, {"a": start}, [coordinate]), asked


def test_a_gain_below_three_per_cent_keeps_the_usual_choice():
    assert run([1.0, GAIN - 0.001])[0] == Outcome({"a": 0}, 1.0)
    assert run([1.0, GAIN + 0.001])[0].choice == {"a": 1}


def test_a_choice_that_cannot_be_used_is_never_taken_and_passed_over():
    assert run([1.0, 0.0, 2.0])[0] == Outcome({"a": 2}, 2.0)
    assert run([1.0, 0.0, 0.0, 0.0, 9.0])[0].choice == {"a": 0}  # too far to look
    assert run([1.0, 0.0], start=1)[0].choice == {"a": 0}


def test_without_time_nothing_but_the_usual_choice_and_the_start_is_measured():
    outcome, asked = run([1.0, 2.0, 4.0], start=1, has_time=lambda: False)
    assert (set(asked), outcome) == ({0, 1}, Outcome({"a": 1}, 2.0))


def test_a_start_that_is_slower_than_the_usual_choice_is_left():
    _, asked = run([3.0, 1.0, 1.1, 1.2], start=3)
    assert asked == [0, 3, 1, 2]


@pytest.mark.parametrize("luck", range(3))
def test_a_lucky_measurement_decides_nothing(luck):
    scores = {0: [1.0] * 4, 1: [1.2] * (1 + luck) + [1.0]}
    measure = lambda choice: scores[choice["a"]].pop(0)  # noqa: E731
    outcome = Search(measure, lambda: True).run({"a": 0}, {"a": 0}, [Coordinate("a", (0, 1))])
    assert outcome.choice == {"a": 0}


def test_the_gain_that_is_told_is_that_of_the_middle_turn():
    scores = {0: [1.0] * 4, 1: [9.0, 1.1, 1.5, 1.2]}
    measure = lambda choice: scores[choice["a"]].pop(0)  # noqa: E731
    outcome = Search(measure, lambda: True).run({"a": 0}, {"a": 0}, [Coordinate("a", (0, 1))])
    assert outcome == Outcome({"a": 1}, 1.2)
