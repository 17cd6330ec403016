"""The comparison of drafting heads with llama-server's."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from benchmarks.drafting import trained
from benchmarks.drafting.asking import HeadVolley
from benchmarks.drafting.cases import CASES
from benchmarks.heads import THEIRS, THEIRS_PLAIN, arguments, lines, sides
from localspec_llamacpp.head_kinds import drafter
from localspec_llamacpp.headers.header import read


def options(name, head="head.gguf"):
    return {s.name: s.options for s in sides(CASES[name], Path(head), Path("target.gguf"))}


def test_both_sides_draft_with_the_same_head_to_the_same_depth():
    found = options("dflash, trained")
    assert " ".join(found[THEIRS]) == (
        "--spec-type draft-dflash --spec-draft-n-max 5 --spec-draft-p-min 0 --model-draft head.gguf"
    )
    assert " ".join(found["same depth"]) == "--draft head.gguf --proposer dflash --depth 5"
    assert " ".join(found["own depth"]) == "--draft head.gguf --proposer dflash"
    assert found[THEIRS_PLAIN] == ()


def test_a_head_inside_its_target_is_not_named():
    for each in options("mtp, trained", head="target.gguf").values():
        assert not {"--draft", "--model-draft"} & set(each)


def test_a_row_has_medians_of_the_groups_and_the_drafts_of_all():
    def volleys(texts, *seconds):
        return [HeadVolley(each, texts, 10, 6, 3) for each in seconds]

    theirs, ours = volleys(["a", "b"], 2.0, 1.0, 3.0), volleys(["a", "x"], 1.0, 1.0, 0.3)
    [_, row] = lines("mtp, trained", 3, 2, {THEIRS: theirs, "same depth": ours})
    assert " ".join(row.split()) == "mtp, trained 3 2 same depth 10.0 2.00 1.50 6.00 18 9 50%"


def test_a_head_that_is_not_known_is_refused():
    with pytest.raises(SystemExit):
        arguments(["medusa"])


@pytest.mark.parametrize("kind", trained.FILES)
def test_trained_heads_are_unpacked_as_what_they_are_called(kind, tmp_path):
    target, head = trained.write(kind, tmp_path)
    assert drafter(read(head)) == ("" if head == target else kind)
    assert drafter(read(target)) == ""


def test_stories_are_others_by_each_seed():
    one, other = (list(islice(trained.stories(seed), 3)) for seed in (1, 2))
    assert len({*one, *other}) == 6
    assert one == list(islice(trained.stories(1), 3))
