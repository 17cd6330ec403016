"""Files that are refused by their headers, before the rest of them is downloaded."""

from __future__ import annotations

import pytest

from tests import engines
from tests.backends.gguf_copies import copied
from tests.backends.gguf_files import TENSORS, Typed, gguf, model, pairs
from tests.running.pulling.fake_hub import FakeHub
from tests.running.pulling.home import Home

REPO = "people/large-gguf"
NAME = "hf:people/large-gguf"
MB = 1 << 20
FIRST, MOST = 16 * MB, 64 * MB  # of a header, that are read before one is refused
LARGE = 160 * MB


def padded(data: bytes, size: int = LARGE) -> bytes:
    return data + bytes(size - len(data))


def usable(size: int) -> bytes:
    return padded(engines.tiny("llama").read_bytes(), size)


def refused(hub: FakeHub, home: Home, said: str, *arguments: str) -> None:
    code, _, err = home.run("pull", NAME, *arguments)
    assert code == 1
    assert said in err
    assert "; the rest was not downloaded; or try smollm2-135m, which is here: " in err
    assert "Traceback" not in err
    assert not home.registered


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"PK\x03\x04", "is a zip archive"),
        (b"<!doctype html>", "is a web page"),
        (model({"/general.type": "mmproj"}), "is a vision projector, not a model"),
        (model(tensors=[*TENSORS[:2], ("a", (64, 1 << 20), 0, 1)]), "is cut short"),
    ],
)
def test_what_is_no_model_is_refused_by_what_it_begins_with(hub, home, start, said):
    hub.put(REPO, "large-q8_0.gguf", padded(start))
    refused(hub, home, f"large-q8_0.gguf {said}")
    assert hub.spans == [(0, FIRST), (FIRST, MOST)]
    assert hub.sent == MOST
    assert not home.parts


def test_a_part_in_the_place_of_another_is_refused(hub, home):
    split = {"split.count": Typed("u16", 2), "split.tensors.count": Typed("i32", 3)}
    for part, number in ((1, 0), (2, 4)):
        keys = (pairs() if part == 1 else {}) | split | {"split.no": Typed("u16", number)}
        data = gguf(keys, TENSORS[:2] if part == 1 else TENSORS[2:])
        hub.put(REPO, f"large-0000{part}-of-00002.gguf", padded(data))
    refused(hub, home, "says it is part 5, but lies where part 2 should")
    assert hub.sent == MOST + 4 * MB


def test_a_draft_model_is_refused_before_its_target_is_downloaded(hub, home):
    hub.put(REPO, "large-q8_0.gguf", usable(LARGE))
    hub.put("people/draft", "draft.gguf", padded(b"PK\x03\x04"))
    refused(hub, home, "people/draft: draft.gguf is a zip", "--draft", "hf:people/draft")
    assert hub.sent == FIRST + MOST


def test_what_was_read_of_a_header_is_not_downloaded_again(hub, home):
    hub.put(REPO, "large-q8_0.gguf", usable(40 * MB))
    code, _, err = home.run("pull", NAME)
    assert code == 0, err
    assert hub.spans == [(0, FIRST), (FIRST, 40 * MB)]
    assert hub.sent == 40 * MB


def test_a_header_longer_than_what_came_at_first_is_read_on(hub, home, tmp_path):
    long = {"general.filler": ["x" * MB] * 20}
    data = copied(engines.tiny("llama"), tmp_path / "long.gguf", long).read_bytes()
    hub.put(REPO, "large-q8_0.gguf", padded(data, 100 * MB))
    code, _, err = home.run("pull", NAME)
    assert code == 0, err
    assert hub.spans == [(0, FIRST), (FIRST, MOST), (MOST, 100 * MB)]


def test_a_small_model_takes_one_request_as_ever(hub, home):
    hub.put(REPO, "large-q8_0.gguf", usable(2 * MB))
    assert home.run("pull", NAME)[0] == 0
    assert hub.spans == [(0, 2 * MB)]


def test_where_a_server_sends_no_ranges_all_is_downloaded_as_ever(hub, home):
    hub.faults.ranges = False
    hub.put(REPO, "large-q8_0.gguf", usable(40 * MB))
    code, _, err = home.run("pull", NAME)
    assert code == 0, err
    assert hub.spans == [(0, 40 * MB)] * 2
    assert home.registered


def test_a_line_that_is_cut_in_a_header_is_gone_on_with(hub, home):
    hub.put(REPO, "large-q8_0.gguf", usable(40 * MB))
    hub.faults.cut_after = 8 * MB
    code, _, err = home.run("pull", NAME)
    assert code == 0, err
    assert hub.spans[1][0] > 4 * MB
    assert hub.sent < 44 * MB
