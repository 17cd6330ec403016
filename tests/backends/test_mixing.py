"""A mixture made of a dense model says what that model says."""

from contextlib import closing

import numpy as np

from localspec.interfaces.backend import Options, Row
from localspec_llamacpp.headers.footprint import inspect
from localspec_llamacpp.loading import load
from mixing import mix, paired
from tests import tiny

OPTIONS = Options(threads=1, context=64, gpu_layers=0, tentative=23)


def logits(path):
    with closing(load(path, OPTIONS)) as model:
        text = np.arange(24, dtype=np.int32) % model.vocabulary
        return model.forward([Row(0, text, len(text))])[0].copy()


def test_a_mixture_of_copies_has_the_logits_of_the_dense_model(tmp_path):
    dense, mixture = tiny.write(tmp_path / "dense.gguf", "llama"), tmp_path / "mixture.gguf"
    mix(dense, mixture, experts=6, used=2)
    footprint = inspect(mixture)
    assert (footprint.experts, footprint.active_experts) == (6, 2)
    expected = logits(dense)
    np.testing.assert_allclose(logits(mixture), expected, atol=1e-3 * np.abs(expected).max())


def test_halves_of_a_head_are_laid_beside_each_other():
    assert paired(np.arange(8).reshape(8, 1), 2).ravel().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
