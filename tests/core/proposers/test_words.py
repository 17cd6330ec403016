"""Where drafts come from, in words."""

from __future__ import annotations

import pytest

from localspec.core.proposers.descriptions import PLACES, in_words
from localspec.core.proposers.registry import AUTO, all_names


@pytest.mark.parametrize(
    ("proposers", "said"),
    [
        (AUTO, "drafts from the text itself"),
        ((*AUTO, "draft-model"), "drafts from the text itself and a small model"),
        (("mtp", "ngram"), "drafts from the model's own drafting head and the text itself"),
        (("prediction",), "drafts from a text that was given as a prediction"),
        (("suffix", "a-guest"), "drafts from the text itself and a-guest"),
        ((), "no drafts"),
    ],
)
def test_proposers_are_told_by_where_their_drafts_come_from(proposers, said):
    assert in_words(proposers) == said


def test_every_proposer_of_ours_has_words():
    assert set(all_names()) - set(PLACES) <= {"toy"}
