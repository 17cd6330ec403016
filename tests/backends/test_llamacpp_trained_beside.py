"""EAGLE-3 and DFlash heads that were trained are mostly right, however their text came about.

`trained/make_beside.py` makes the files: a small Qwen3 and a head of each kind.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from localspec.interfaces.backend import Options
from localspec_llamacpp import backend
from tests.backends.test_llamacpp_trained import WAYS, feed, rightness
from tests.backends.trained.packed import unpacked

SURE = {"eagle3": 0.5, "dflash": 0.25}  # at each depth; by chance it would be one of 384


def load(place, kind, batch):
    trunk, head = (unpacked(name, place) for name in ("trunk", kind))
    options = Options(slots=4, context=512, batch=batch, tentative=8, threads=1, head=head)
    return backend.load(trunk, options)


@pytest.fixture(scope="module", params=SURE)
def model(request, tmp_path_factory):
    with closing(load(tmp_path_factory.mktemp("trained"), request.param, 64)) as made:
        yield made


@pytest.mark.parametrize("way", WAYS)
def test_a_head_beside_is_right_however_its_text_came_about(model, way):
    assert (rightness(model, way) > SURE[model.head.proposer]).all()


def in_one_row(model, text, other):
    feed(model, 0, text, piece=len(text))


@pytest.mark.parametrize("kind", SURE)
def test_a_row_wider_than_a_heads_batch_is_read_in_pieces_with_their_own_states(kind, tmp_path):
    with closing(load(tmp_path, kind, 512)) as model:
        assert (rightness(model, in_one_row) > SURE[kind]).all()
