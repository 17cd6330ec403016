"""Pictures of strangers become pixels, in a process of their own."""

from __future__ import annotations

import random
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import psutil
import pytest
from PIL import Image

from localspec.base.errors import UsageError
from localspec.base.interruption import Interrupted, Patience
from localspec.formats.pictures.decoding import PICTURES, Decoder, rgb_pixels, size_of
from localspec.formats.pictures.kinds import kind_of
from localspec.formats.pictures.limits import MAX_PIXELS
from tests.formats.pictures.files import (
    BLUE,
    KINDS,
    RED,
    exif,
    halves,
    hostile,
    looping_exif,
    many_frames,
    picture,
    png,
    written,
)

MUTATED = 1000
SECONDS = 1.0  # in which a hostile file is refused
LOSSLESS = {"PNG": {}, "WEBP": {"lossless": True}, "GIF": {}, "BMP": {}}


@pytest.fixture(scope="module", autouse=True)
def _ensure_process():
    rgb_pixels(picture())  # so that no test measures the start of the process


@pytest.mark.parametrize("kind", LOSSLESS)
def test_a_picture_becomes_red_green_and_blue(kind):
    pixels = rgb_pixels(written(halves(), kind, **LOSSLESS[kind]))
    assert pixels.shape == (8, 16, 3)
    assert pixels.dtype == np.uint8
    assert pixels.flags["C_CONTIGUOUS"]
    assert tuple(pixels[0, 0]) == RED
    assert tuple(pixels[7, 15]) == BLUE


@pytest.mark.parametrize("mode", ["RGB", "CMYK"])
def test_a_jpeg_becomes_nearly_its_colours(mode):
    pixels = rgb_pixels(written(halves((32, 16), mode), "JPEG", quality=95)).astype(int)
    assert np.abs(pixels[4, 4] - RED).max() < 24
    assert np.abs(pixels[4, 28] - BLUE).max() < 24


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA"])
def test_pictures_of_other_modes_are_converted(mode):
    image = halves(mode=mode)
    assert np.array_equal(rgb_pixels(written(image)), np.asarray(image.convert("RGB")))


def test_sixteen_bits_of_grey_keep_the_upper_eight():
    image = Image.new("I;16", (2, 1))
    image.putpixel((0, 0), 0x8040)
    image.putpixel((1, 0), 0xFFFF)
    assert rgb_pixels(written(image)).tolist() == [[[128] * 3, [255] * 3]]


def test_what_is_transparent_lies_on_white():
    image = Image.new("RGBA", (2, 1), (255, 0, 0, 0))
    image.putpixel((1, 0), (255, 0, 0, 128))
    assert rgb_pixels(written(image)).tolist() == [[[255, 255, 255], [255, 127, 127]]]
    with_hole = Image.new("P", (1, 1))
    with_hole.putpalette([9, 9, 9])
    assert rgb_pixels(written(with_hole, "GIF", transparency=0)).tolist() == [[[255] * 3]]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_upright(orientation):
    image = Image.new("RGB", (3, 2), "black")
    image.putpixel((0, 0), (255, 255, 255))  # where that goes tells the turn
    pixels = rgb_pixels(written(image, exif=exif(orientation)[6:]))
    places = [(0, 0), (0, -1), (-1, -1), (-1, 0), (0, 0), (0, -1), (-1, -1), (-1, 0)]
    assert pixels.shape[:2] == ((2, 3) if orientation < 5 else (3, 2))
    assert pixels[places[orientation - 1]].tolist() == [255] * 3


def test_the_first_frame_counts():
    frames = [Image.new("RGB", (4, 4), colour) for colour in (RED, BLUE)]
    for kind in ("GIF", "WEBP", "PNG"):
        file = written(frames[0], kind, save_all=True, append_images=frames[1:])
        assert np.abs(rgb_pixels(file)[0, 0].astype(int) - RED).max() < 8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(16, 8), (1, 1), (300, 700)])
def test_the_size_is_read_from_the_header(kind, size):
    file = picture(kind, size)
    assert size_of(file) == size
    if kind != "WEBP":  # whose header has the length of the file
        assert size_of(written(halves((300, 700)), kind)[:-9]) == (300, 700)


def test_a_text_that_begins_like_a_bitmap_is_none():
    assert kind_of(b"BMW and other makers of cars have something in common") is None


@pytest.mark.parametrize("words", hostile())
def test_a_hostile_file_is_refused_at_once_and_by_name(words):
    file, begun = hostile()[words], time.thread_time()
    with pytest.raises(UsageError) as refusal:
        rgb_pixels(file)
    assert words in str(refusal.value)
    assert time.thread_time() - begun < SECONDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_cut_off_is_refused(kind):
    file = written(Image.effect_noise((64, 64), 90).convert("RGB"), kind)
    for part in (0.3, 0.6, 0.9):
        with pytest.raises(UsageError, match="a picture"):
            rgb_pixels(file[: int(len(file) * part)])


def test_ten_thousand_frames_take_no_longer_than_one():
    file, begun = many_frames(10_000), time.thread_time()
    assert rgb_pixels(file).shape == (8, 8, 3)
    assert time.thread_time() - begun < SECONDS


def test_metadata_that_loop_turn_nothing():
    file = written(halves(), "JPEG", exif=looping_exif())
    assert rgb_pixels(file).shape == (8, 16, 3)


def test_a_bomb_of_zeros_is_no_more_than_its_pixels():
    """A header of few pixels in front of 64 MiB of packed zeros."""
    packed, begun = zlib.compress(bytes(64 << 20), 1), time.thread_time()
    assert rgb_pixels(png(8, 8, packed)).shape == (8, 8, 3)
    assert time.thread_time() - begun < SECONDS


def test_a_frame_that_is_larger_than_its_screen_is_refused():
    file = bytearray(written(Image.new("L", (16, 16)), "GIF"))
    at = file.index(b",\0\0\0\0")  # the frame, with its place and its size
    file[at + 5 : at + 9] = b"\xff\xff\xff\xff"
    with pytest.raises(UsageError, match="cannot be decoded"):
        rgb_pixels(bytes(file))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_a_picture_of_the_most_pixels_is_decoded(kind):
    """Both at their worst: transparent, and on its side. WebP holds the canvas twice."""
    image = halves((10_000, MAX_PIXELS // 10_000), "RGBA")
    fast = {"compress_level": 1} if kind == "PNG" else {"method": 0}
    file = written(image, kind, exif=exif(6)[6:], **fast)
    assert Decoder(seconds=60).rgb(file).shape == (10_000, 5_000, 3)


def zeros(size: int) -> bytes:
    return png(size, size, zlib.compress(bytes((size + 1) * size), 1))


def test_a_process_that_takes_too_much_is_ended_and_the_next_picture_decoded():
    decoder = Decoder(memory_bytes=1 << 27)
    why = "more memory" if sys.platform == "linux" else "128 MiB"
    with pytest.raises(UsageError, match=why):
        decoder.rgb(zeros(6000))
    assert decoder.rgb(picture()).shape == (8, 16, 3)


def test_a_picture_that_takes_too_long_is_refused():
    decoder = Decoder(seconds=0.02)
    with pytest.raises(UsageError, match=r"0\.02 seconds"):
        decoder.rgb(written(Image.effect_noise((3000, 3000), 90)))


def test_nobody_waits_for_a_picture_that_nobody_wants_any_more():
    patience = Patience()

    def decode():
        with patience.lent():
            return PICTURES.rgb(large)

    large = zeros(6000)
    with ThreadPoolExecutor() as threads:
        given_up = threads.submit(decode)
        patience.over = True
        with pytest.raises(Interrupted):
            given_up.result(30)
    assert rgb_pixels(picture()).shape == (8, 16, 3)


def test_pictures_from_many_threads_are_not_mixed_up():
    colours = [(value, 255 - value, 7) for value in range(0, 250, 10)]
    files = [written(Image.new("RGB", (at + 1, 3), c)) for at, c in enumerate(colours)]
    with ThreadPoolExecutor(8) as threads:
        for at, pixels in enumerate(threads.map(rgb_pixels, files)):
            assert pixels.shape == (3, at + 1, 3)
            assert tuple(pixels[0, 0]) == colours[at]


def test_mutated_files_are_decoded_or_refused_by_one_process():
    decoder, rng = Decoder(), random.Random(0)
    sources = [written(Image.effect_noise((40, 30), 90).convert("RGB"), kind) for kind in KINDS]
    decoder.rgb(sources[0])
    before = children()
    for number in range(MUTATED):
        file = bytearray(sources[number % len(sources)])
        for _ in range(rng.choice((1, 2, 8, 40))):
            file[rng.randrange(len(file) if rng.random() < 0.5 else 64)] = rng.randrange(256)
        with suppress(UsageError):
            assert decoder.rgb(bytes(file)).ndim == 3
    assert children() == before


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}
