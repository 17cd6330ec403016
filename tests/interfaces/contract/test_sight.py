"""The contract of every model that sees."""

from __future__ import annotations

import numpy as np
import pytest

from localspec.base.errors import UsageError
from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import Row
from localspec.interfaces.media import Medium
from localspec.interfaces.media_positions import positions
from tests import engines
from tests.arrangements import Running
from tests.seeing import seeing
from tests.tiny_vision import SIGHTED, picture

TEXT = [5, 3, 1, 4, 1, 5, 2, 6]
MODELS = {
    "scripted": seeing,
    "scripted, read at once": lambda: seeing(whole=True),
    "scripted, recurrent": lambda: seeing(recurrent=True),
    **{name: lambda name=name: engines.sighted(name) for name in (*SIGHTED, *engines.MLX_SIGHTED)},
}
PICTURES = (Medium("image", picture(1)), Medium("image", picture(2)))


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    made = MODELS[request.param]()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def emptied(model):
    yield
    for slot in range(model.slots):
        assert model.truncate(slot, 0) == 0


def close(a, b):
    return np.allclose(a, b, atol=Running.now.rounding, rtol=1e-3)


class Picture:
    """What stands for a picture in a text; whoever has it may read it."""

    def __init__(self, model, medium=PICTURES[0]):
        self.numbers: list[int] = []
        self.runs = []
        self.edges: list[int] = []  # where its runs begin and end
        for piece in model.sight.pieces(medium):
            if isinstance(piece, np.ndarray):
                self.numbers += piece.tolist()
            else:
                self.edges += [len(self.numbers), len(self.numbers) + piece.name.length]
                self.numbers += positions(piece)
                self.runs.append(piece)


def feed(model, slot, tokens, outputs=1):
    [logits] = model.forward([Row(slot, tokens_of(tokens), outputs)])
    return logits.copy()


def test_a_text_with_a_picture_may_be_read_in_rows_that_end_at_its_edges(model):
    picture = Picture(model)
    text = [*TEXT[:2], *picture.numbers, *TEXT[2:5]]
    whole = feed(model, 0, text)
    at = 0
    for end in (2, *(2 + edge for edge in picture.edges), len(text)):
        if end > at:
            logits = feed(model, 1, text[at:end])
        at = end
    assert close(logits, whole)


def test_what_is_not_whole_may_be_cut_anywhere(model):
    picture = Picture(model)
    if any(run.whole for run in picture.runs):
        return
    text = [*TEXT[:2], *picture.numbers, *TEXT[2:5]]
    whole = feed(model, 0, text)
    logits = [feed(model, 1, [token]) for token in text]
    assert close(logits[-1], whole)


def test_logits_depend_on_the_picture(model):
    cat, dog = (Picture(model, medium) for medium in PICTURES)
    one = feed(model, 0, [1, *cat.numbers, 2])
    other = feed(model, 1, [1, *dog.numbers, 2])
    assert not close(one, other)
    assert close(feed(model, 2, [1, *Picture(model).numbers, 2]), one)


def test_pictures_and_texts_share_a_batch(model):
    cat, dog = (Picture(model, medium) for medium in PICTURES)
    texts = [[1, *cat.numbers, 2], TEXT, [*dog.numbers, 3, 1], [1, *cat.numbers, *dog.numbers, 4]]
    alone = [feed(model, 7, text) for text in texts if model.truncate(7, 0) == 0]
    together = model.forward([Row(slot, tokens_of(text)) for slot, text in enumerate(texts)])
    assert all(close(one, other) for one, other in zip(together, alone, strict=True))


def test_within_a_run_truncate_keeps_what_comes_before_it(model):
    picture = Picture(model)
    text = [*TEXT[:2], *picture.numbers, *TEXT[2:5]]
    whole = feed(model, 0, text)
    start, end = (2 + edge for edge in picture.edges[:2])
    for length in (len(text) - 1, end, end - 1, start + 1, start, 1):
        kept = model.truncate(0, length)
        assert kept in (0, start, length) if start < length < end else kept in (0, length)
        assert close(feed(model, 0, text[kept:]), whole)


def test_a_copy_goes_on_behind_a_picture(model):
    picture = Picture(model)
    text = [*TEXT[:2], *picture.numbers, *TEXT[2:5]]
    whole = feed(model, 0, text)
    start, end = (2 + edge for edge in picture.edges[:2])
    for length in (len(text), len(text) - 1, end, end - 1):
        kept = model.copy(0, 1, length)
        assert kept in (0, start, length, length - 1)
        if kept < len(text):
            assert close(feed(model, 1, text[kept:]), whole)


def test_what_was_saved_goes_on_behind_a_picture_that_nobody_has_any_more(model):
    picture = Picture(model)
    text, more = [*TEXT[:2], *picture.numbers, 4], TEXT[2:5]
    feed(model, 0, text)
    saved = model.save(0, 1 << 30)
    whole = feed(model, 0, more)
    del picture
    if saved is not None:
        assert model.restore(1, saved.data, len(text)) == len(text)
        assert close(feed(model, 1, more), whole)


def test_a_file_that_is_no_picture_is_refused(model):
    with pytest.raises(UsageError):
        model.sight.pieces(Medium("image", b""))


def test_a_picture_has_the_same_numbers_each_time(model):
    cat, again, dog = Picture(model), Picture(model), Picture(model, PICTURES[1])
    assert cat.numbers == again.numbers
    assert not {n for n in cat.numbers if n < 0} & {n for n in dog.numbers if n < 0}
