"""The kind and the size of a picture, from the beginning of its file."""

from __future__ import annotations

import pytest

from localspec.errors import UsageError
from localspec.pictures.header import Header, header, kind_of
from tests.pictures.files import KINDS, halves, hostile, picture, written


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(16, 8), (1, 1), (300, 700)])
def test_a_picture_shows_its_kind_and_size(kind, size):
    assert header(picture(kind, size)) == Header(kind, *size)


@pytest.mark.parametrize(
    "file",
    [
        written(halves(), "WEBP", lossless=True),
        written(halves(mode="RGBA"), "WEBP", exif=b"Exif\0\0"),  # with a chunk for more
        written(halves(), "JPEG", progressive=True),
        written(halves(mode="L"), "JPEG", exif=b"Exif\0\0" + b"x" * 9000),
        written(halves(mode="P"), "GIF"),
        written(halves(mode="1"), "BMP"),
    ],
)
def test_other_forms_of_a_kind_show_their_size(file):
    assert header(file)[1:] == (16, 8)


@pytest.mark.parametrize("kind", KINDS)
def test_the_beginning_of_a_file_that_is_cut_off_is_refused_or_shows_the_size(kind):
    file = picture(kind, (300, 700))
    for end in range(64):
        try:
            assert header(file[:end]) == (kind, 300, 700)
        except UsageError:
            continue


@pytest.mark.parametrize("words", [*hostile()][2:])
def test_what_is_no_picture_is_called_by_its_name(words):
    with pytest.raises(UsageError, match=words.replace("(", r"\(").replace(")", r"\)")):
        header(hostile()[words])


def test_a_text_that_begins_like_a_bitmap_is_none():
    assert kind_of(b"BMW and other makers of cars have something in common") is None
