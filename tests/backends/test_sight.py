"""Pictures as pieces of a text: what is encoded, kept and found again."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from localspec.base.errors import BackendError, OutOfMemory, UsageError
from localspec.interfaces.media import Medium
from localspec.interfaces.media_positions import positions
from localspec_llamacpp.bindings.log import BufferSize
from localspec_llamacpp.sight import KEPT_BYTES, LlamaSight
from localspec_llamacpp.sight_opening import working_bytes

LARGE = KEPT_BYTES // 4 // 10 // 3  # positions, of which so many embeddings are a third


class Piece:
    embeddings = None

    def __init__(self, length, whole):
        self.length, self.whole = length, whole


class Projector:
    """Takes a picture apart into a token and so many positions."""

    width = 10

    def __init__(self, length=4, *, whole=False):
        self.asked, self._length, self._whole = [], length, whole
        self.threads, self.may_encode, self.lacks_memory = [], threading.Event(), False

    def pieces(self, pixels):
        self.asked.append(pixels)
        return [np.array([7], np.int32), Piece(self._length, self._whole)]

    def encode(self, piece):
        self.threads.append(threading.current_thread())
        assert self.may_encode.wait(30)
        if self.lacks_memory:
            raise OutOfMemory("no memory for a picture")
        piece.embeddings = np.zeros((piece.length, self.width))
        return piece.embeddings

    def close(self):
        pass


def sight(projector, batch=8):
    return LlamaSight(projector, batch, read=bytes.decode)


def image(name):
    return Medium("image", name.encode())


def test_a_picture_is_taken_apart_once():
    projector = Projector()
    seeing = sight(projector)
    (token, first), (_, again) = (seeing.pieces(image("cat")) for _ in range(2))
    assert token.tolist() == [7]
    assert first is again
    assert projector.asked == ["cat"]
    assert seeing.pieces(image("dog"))[1].first not in positions(first)


def test_pictures_that_were_not_used_for_long_are_forgotten():
    projector = Projector(LARGE)
    seeing = sight(projector)
    for name in ("a", "b", "c", "a", "d", "a", "c"):
        seeing.pieces(image(name))
    assert projector.asked == ["a", "b", "c", "d"]
    seeing.pieces(image("b"))
    assert projector.asked[4:] == ["b"]


def test_a_picture_that_a_text_still_holds_stays_the_same_one():
    projector = Projector(LARGE)
    seeing = sight(projector)
    [_, held] = seeing.pieces(image("a"))
    for name in ("b", "c", "d"):
        seeing.pieces(image(name))
    [_, again] = seeing.pieces(image("a"))
    assert len(projector.asked) == 5
    assert again is held
    last = held.first - held.name.length + 1
    for number in (held.first, last):
        assert seeing.run(number) is held
    with pytest.raises(BackendError):
        seeing.run(last - 1)


def test_a_picture_that_nobody_holds_is_gone():
    seeing = sight(Projector(LARGE))
    first = seeing.pieces(image("a"))[1].first
    for name in ("b", "c", "d"):
        seeing.pieces(image(name))
    gc.collect()
    with pytest.raises(BackendError, match="without its pictures"):
        seeing.run(first)


def test_a_picture_that_is_read_at_once_must_fit_a_batch():
    assert len(sight(Projector(8, whole=True)).pieces(image("a"))) == 2
    assert len(sight(Projector(9)).pieces(image("b"))) == 2
    with pytest.raises(UsageError, match=r"takes 9 positions .* loaded for 8"):
        sight(Projector(9, whole=True)).pieces(image("c"))


def test_a_picture_is_encoded_on_a_thread_of_its_own():
    projector = Projector()
    seeing = sight(projector)
    run = seeing.pieces(image("a"))[1]
    encoding = run.encoding()
    assert not encoding.done()
    assert run.encoding() is encoding
    projector.may_encode.set()
    assert seeing.embeddings(run) is not None
    encoding.result()
    assert run.encoding() is None
    assert projector.threads[0] is not threading.current_thread()
    seeing.close()


def test_what_could_not_be_encoded_is_tried_again_by_who_reads_it():
    projector = Projector()
    projector.lacks_memory = True
    projector.may_encode.set()
    seeing = sight(projector)
    run = seeing.pieces(image("a"))[1]
    encoding = run.encoding()
    assert encoding is None or encoding.exception()
    assert run.encoding() is None
    with pytest.raises(OutOfMemory):
        seeing.embeddings(run)
    projector.lacks_memory = False
    assert len(seeing.embeddings(run)) == 4
    seeing.close()


def test_a_second_request_with_a_picture_waits_for_the_first():
    projector, read, second = Projector(), [], threading.Event()

    def slow(data):
        read.append(data)
        second.wait(0.2 if len(read) == 1 else 0)  # time for the other one to read it as well
        return data.decode()

    seeing = LlamaSight(projector, 8, read=slow)
    with ThreadPoolExecutor(2) as threads:
        [(_, one), (_, other)] = threads.map(seeing.pieces, [image("a")] * 2)
    assert one is other
    assert (len(read), projector.asked) == (1, ["a"])


class Measured:
    """Takes a position for each eight pixels of a side, up to sixteen of them."""

    def longest(self, side=8192):
        return min(side // 8, 16) ** 2


@pytest.mark.parametrize(("side", "factor"), [(128, 1), (64, 4), (0, 1)])
def test_buffers_are_counted_for_the_largest_picture(side, factor):
    sizes = [
        BufferSize("CPU", "compute", 300),
        BufferSize("CPU", "compute", 200),
        BufferSize("CUDA0", "compute", 50),
        BufferSize("CPU", "KV", 7),
    ]
    assert working_bytes(Measured(), sizes, side) == factor * 350
