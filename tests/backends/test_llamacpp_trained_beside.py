"""EAGLE-3 and DFlash heads that were trained are mostly right, however their text came about.

`trained/make_beside.py` makes the files: a small Qwen3 and a head of each kind.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from localspec.backend import Options
from localspec_llamacpp import backend
from tests.backends.test_llamacpp_trained import WAYS, rightness
from tests.backends.trained.packed import unpacked

SURE = {"eagle3": 0.5, "dflash": 0.25}  # at each depth; by chance it would be one of 384


@pytest.fixture(scope="module", params=SURE)
def model(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("trained")
    trunk, head = (unpacked(name, place) for name in ("trunk", request.param))
    options = Options(slots=4, context=512, batch=64, tentative=8, threads=1, head=head)
    with closing(backend.load(trunk, options)) as made:
        yield made


@pytest.mark.parametrize("way", WAYS)
def test_a_head_beside_is_right_however_its_text_came_about(model, way):
    assert (rightness(model, way) > SURE[model.head.proposer]).all()
