"""What is known of drafts in a comparison: counts by position, the best options, draft models."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.comparison.asking import TimedReply
from benchmarks.comparison.drafting_sides import Drafter, GridPoint, best_point, drafter_of, grid_of
from benchmarks.comparison.drafts import Drafts, conditional, of_timings
from benchmarks.comparison.measure import PeersRun, Volley
from benchmarks.comparison.plan import Setting
from tests import tiny


def test_localspec_counts_drafts_by_proposer_and_position():
    timings = {
        "draft_n": 14,
        "draft_n_accepted": 9,
        "guesses": {"ngram": [[4, 3], [2, 2], [2, 1]], "head": [[4, 2], [2, 1]]},
    }
    drafts = of_timings(timings)
    assert (drafts.drafted, drafts.accepted) == (14, 9)
    assert drafts.positions == ((8, 5), (4, 3), (2, 1))
    assert conditional(drafts.positions) == (0.625, 0.75, 0.5)


def test_a_token_is_tried_at_most_as_often_as_all_before_it_were_accepted():
    assert of_timings({"guesses": {"ngram": [[9, 1], [9, 1]]}}).positions == ((9, 1), (1, 1))


def test_a_server_that_counts_nothing_has_no_drafts():
    assert of_timings({"predicted_ms": 3.0}) == Drafts()


def test_the_grid_is_read_as_pairs():
    assert grid_of("4:0.75,8:0") == [GridPoint(4, 0.75), GridPoint(8, 0.0)]
    with pytest.raises(ValueError, match="invalid literal"):
        grid_of("4:0.5,x:1")


def test_the_best_options_are_those_of_the_fastest_server_on_the_same_tasks():
    class Timed(PeersRun):
        asked = ()

        def measure(self, setting):
            Timed.asked = (self.rounds, self.max_tokens)
            for side in self.sides:
                seconds = {"2:0": 2.0, "8:0.75": 1.0, "16:0": 3.0}[side.name]
                reply = TimedReply("edit", "", 11, 3, 0, 0.1, 1, seconds, ())
                yield Volley(side.name, 0, 0, seconds, [reply])

    drafter, grid = Drafter("draft-simple", Path("small.gguf")), grid_of("2:0,8:0.75,16:0")
    run = Timed([drafter.at(point, str(point)) for point in grid], None, 3, 128, True)
    setting = Setting("x", 1, 0.0, 2048, [()])
    best, speeds = best_point(grid, run, setting)
    assert best == GridPoint(8, 0.75)
    assert speeds == {"2:0": 5.0, "8:0.75": 10.0, "16:0": pytest.approx(10 / 3)}
    assert Timed.asked == (1, 64)
    assert best_point(grid[:1], run, setting) == (grid[0], {})


def test_a_draft_model_is_compared_at_defaults_at_its_best_and_with_ours(tmp_path):
    target, small = (tiny.write(tmp_path / name, "llama") for name in ("a.gguf", "b.gguf"))
    drafter = drafter_of(target, small)
    plain, best, ours = drafter.sides(GridPoint(8, 0.75))
    assert plain.options == ("--spec-type", "draft-simple", "--model-draft", str(small))
    assert best.options[4:] == ("--spec-draft-n-max", "8", "--spec-draft-p-min", "0.75")
    assert (ours.name, ours.options) == ("localspec-draft", ("--draft", str(small)))


def test_a_model_with_a_head_of_its_own_is_compared_with_it(tmp_path):
    drafter = drafter_of(tiny.write(tmp_path / "mtp.gguf", "glm4moe-mtp"), None)
    assert [side.name for side in drafter.sides(GridPoint(3, 0.0))] == [
        "draft-mtp",
        "draft-mtp-best",
    ]
    assert drafter_of(tiny.write(tmp_path / "plain.gguf", "llama"), None) is None


def test_a_head_in_a_file_of_its_own_is_named_by_its_kind(tmp_path):
    target = tiny.write(tmp_path / "target.gguf", "llama")
    head = tiny.write_head(tmp_path / "head.gguf", "eagle3", target)
    assert drafter_of(target, head).kind == "draft-eagle3"
