"""Pictures of strangers: limits before anything is decoded, and refusals that say what to do."""

from __future__ import annotations

import json
import random
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from PIL import Image

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.media_intake import MediaLimits, groups
from localspec.base.interruption import Interrupted, check_patience
from localspec.interfaces.media import Medium
from tests.apps.server import raw
from tests.apps.server.client_requests import BLOCKS, CHAT, GENERATE, ITEMS, OLD
from tests.apps.server.mutation import mutated
from tests.apps.server.scripted import Server
from tests.apps.server.seeing import DATA, Looking, seeing, texts_and_pictures
from tests.apps.server.test_clients import said
from tests.apps.server.test_load import busy, until
from tests.formats.pictures.files import hostile, picture, written

MUTATED, ALL_MUTATED = 40, 1000
SECONDS = 4.0  # of a busy processor's time, with which a hostile picture is refused
WAV = b64encode(b"RIFF\x24\0\0\0WAVEfmt " + bytes(28)).decode()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = seeing()
    made.client.post(CHAT, json=asked(DATA["red"]))  # starts the process that decodes
    yield made
    made.close()


def asked(data: str, **more: object) -> dict[str, object]:
    part = {"type": "image_url", "image_url": {"url": data}}
    return {"messages": [{"role": "user", "content": [part]}], **more}


def bodies(data: str) -> dict[str, dict[str, object]]:
    source = {"type": "base64", "media_type": "image/png", "data": data}
    blocks = [{"role": "user", "content": [{"type": "image", "source": source}]}]
    items = [{"role": "user", "content": [{"type": "input_image", "image_url": data}]}]
    prompt = {"prompt_string": "<__media__>", "multimodal_data": [data]}
    return {
        CHAT: asked(data),
        ITEMS: {"input": items},
        BLOCKS: {"max_tokens": 9, "messages": blocks},
        OLD: {"model": "m", "messages": [{"role": "user", "content": "a", "images": [data]}]},
        GENERATE: {"model": "m", "prompt": "a", "images": [data]},
        "/completion": {"prompt": prompt, "n_predict": 4},
    }


def refusal(server: Server, body: dict[str, object], path: str = CHAT) -> str:
    answer = server.client.post(path, json=body)
    assert answer.status_code == 400, answer.text
    return answer.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [path for path in bodies("") if path != GENERATE] + [GENERATE])
def test_a_hostile_picture_is_refused_at_once_in_every_api(server, path, stream):
    for words, file in hostile().items():
        if not file:
            continue
        body, begun = bodies(b64encode(file).decode())[path], time.process_time()
        error = refusal(server, {**body, "stream": stream}, path)
        assert words in json.dumps(json.loads(error), ensure_ascii=False)
        assert time.process_time() - begun < SECONDS
    assert server.ask("here") == "You said: here"


@pytest.mark.parametrize("path", bodies(""))
def test_a_model_that_reads_text_only_says_so_and_names_one_that_sees(path):
    blind = Server()
    try:
        error = refusal(blind, bodies(DATA["red"])[path], path)
        assert "scripted takes text only, and the request has pictures" in error
        assert "no model is served that takes pictures" in error
        host = blind.app.state.host
        seer = replace(host.offers["scripted"], name="seer", media=frozenset({"image"}))
        blind.loop.call_soon_threadsafe(host.add, seer)
        until(lambda: "seer" in host.offers)
        model = {"model": "scripted"}
        assert "ask for seer" in refusal(blind, bodies(DATA["red"])[path] | model, path)
    finally:
        blind.close()


def test_no_model_is_loaded_for_a_picture_that_it_cannot_see():
    blind = Server()
    try:
        refusal(blind, asked(DATA["red"]))
        assert not blind.app.state.host.loaded
    finally:
        blind.close()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("https://example.invalid/a.png", "serve with --fetch-images"),
        ("HTTP://127.0.0.1/a.png", "serve with --fetch-images"),
        ("file:///etc/passwd", "is not read"),
        ("FILE:///etc/passwd", "is not read"),
        ("ftp://example.invalid/a.png", "is not read"),
        ("/etc/passwd", "kind"),
        ("not base64!", "neither base64 nor a data URL"),
        ("data:image/png;base64,%%%", "neither base64 nor a data URL"),
        ("data:,these%20are%20words", "of no known kind"),
        ("data:image/png;base64," + b64encode(b"<svg/>").decode(), "an SVG file"),
    ],
)
def test_what_is_no_picture_in_the_request_is_refused(server, address, words):
    assert words in refusal(server, asked(address))


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "file_id": "file-1"},
        {"type": "image", "source": {"type": "file", "file_id": "file-1"}},
    ],
)
def test_a_picture_by_the_number_of_a_file_is_refused(server, part):
    body = {"messages": [{"role": "user", "content": [part]}]}
    assert "no files are kept here" in refusal(server, body)


def test_a_picture_of_any_kind_is_seen_whatever_it_claims_to_be(server):
    for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP"):
        data = b64encode(picture(kind)).decode()
        for body in (
            asked(f"data:image/tiff;base64,{data}"),
            asked(f"data:,;base64,{data}"[:0] + data),
        ):
            assert server.client.post(CHAT, json=body).status_code == 200


def test_base64_may_have_lines_no_padding_and_other_letters(server):
    data = DATA["red"]
    lines = "\n".join(data[at : at + 60] for at in range(0, len(data), 60))
    other = data.replace("+", "-").replace("/", "_")
    for variant in (lines, data.rstrip("="), other):
        answer = server.client.post(CHAT, json=asked(variant))
        assert said(CHAT, answer) == "You said: [red]"


def test_a_request_has_limits_of_pictures_of_their_bytes_and_of_their_pixels():
    size = len(picture())
    limits = MediaLimits(count=2, bytes=2 * size, pixels=16 * 8)
    limited = seeing(ServerPolicy(media=limits))
    try:
        two = [{"type": "image_url", "image_url": b64encode(picture()).decode()}] * 2
        body = {"messages": [{"role": "user", "content": two}]}
        assert limited.client.post(CHAT, json=body).status_code == 200
        body = {"messages": [{"role": "user", "content": [*two, two[0]]}]}
        assert "3 pictures and sounds; it may have 2 (--max-images)" in refusal(limited, body)
        noise = written(Image.effect_noise((16, 8), 99), "BMP")
        assert len(noise) > 2 * size
        error = refusal(limited, asked(b64encode(noise).decode()))
        assert "--max-image-size" in error
        error = refusal(limited, asked(b64encode(picture(size=(16, 9))).decode()))
        assert "16 x 9 pixels, which are 144; it may have 128 (--max-image-pixels)" in error
    finally:
        limited.close()


def test_a_conversation_may_gather_screenshots_of_a_large_screen():
    assert MediaLimits().all_pixels >= 40 * 3840 * 2160


def test_the_pictures_of_a_request_have_a_limit_of_pixels_together():
    limited = seeing(ServerPolicy(media=MediaLimits(all_pixels=2 * 16 * 8)))
    try:
        two = [{"type": "image_url", "image_url": b64encode(picture()).decode()}] * 2
        body = {"messages": [{"role": "user", "content": two}]}
        assert limited.client.post(CHAT, json=body).status_code == 200
        error = refusal(limited, {"messages": [{"role": "user", "content": [*two, two[0]]}]})
        assert "384 pixels together; those of a request may have 256" in error
    finally:
        limited.close()


def test_a_body_at_the_limit_is_read_and_one_above_it_refused(server):
    body_bytes = server.app.state.host and ServerPolicy().rules.body_bytes
    image = written(Image.effect_noise((4000, 4000), 99), "BMP")  # 16 MB
    body = json.dumps(asked(b64encode(image).decode())).encode()
    assert body_bytes // 2 < len(body) < body_bytes
    padded = body + b" " * (body_bytes - len(body))
    headers = {"content-type": "application/json"}
    answer = server.client.post(CHAT, content=padded, headers=headers)
    assert answer.status_code == 200, answer.text
    answer = server.client.post(CHAT, content=padded + b" ", headers=headers)
    assert answer.status_code == 413


class HeldSight(Looking):
    """Looks at a picture only once that is allowed, or is given up meanwhile."""

    def __init__(self, *places: object) -> None:
        super().__init__(*places)
        self.go, self.asked, self.given_up = threading.Event(), 0, 0

    def pieces(self, medium):
        self.asked += 1
        try:
            while not self.go.wait(0.01):
                check_patience()
        except Interrupted:
            self.given_up += 1
            raise
        return super().pieces(medium)


@pytest.fixture
def held() -> Iterator[tuple[Server, HeldSight]]:
    made = seeing(sight=HeldSight)
    sight = made.model.sight
    yield made, sight
    sight.go.set()
    made.close()


def test_nobody_waits_for_a_picture_of_somebody_else(held):
    server, sight = held
    threads = [
        threading.Thread(target=server.client.post, args=(CHAT,), kwargs={"json": asked(data)})
        for data in DATA.values()
    ]
    for thread in threads:
        thread.start()
    until(lambda: sight.asked)
    for text in ("one", "two", "three", "four"):
        assert server.ask(text) == f"You said: {text}"
    large = {"messages": [{"role": "user", "content": "x"}], "metadata": {"a": "word " * 80_000}}
    assert server.client.post(CHAT, json=large).status_code == 200
    assert sight.asked == 1  # the others wait for their turn, and hold up no other request
    sight.go.set()
    for thread in threads:
        thread.join()


def test_a_small_picture_is_next_whatever_came_before(held):
    server, sight = held
    order, look = [], sight.pieces

    def pieces(medium):
        looked_at = look(medium)
        order.append(medium.pixels)
        return looked_at

    sight.pieces = pieces
    large = [asked(b64encode(picture(size=(side, 2000))).decode()) for side in (2000, 2001)]
    with ThreadPoolExecutor() as pool:
        requests = []
        for body in (*large, asked(DATA["red"])):
            requests.append(pool.submit(server.client.post, CHAT, json=body))
            until(lambda: busy(server) == len(requests))
        sight.go.set()
        assert {request.result().status_code for request in requests} == {200}
    assert order == [2000 * 2000, 8 * 6, 2001 * 2000]


def test_between_the_pictures_of_a_request_others_have_their_turn():
    media = [Medium("image", b"", pixels=pixels) for pixels in (1, 3, 1, 9, 2, 2)]
    grouped = [([medium.pixels for medium in group], size) for group, size in groups(media, most=5)]
    assert grouped == [([1, 3, 1], 5), ([9], 9), ([2, 2], 4)]


def test_a_picture_is_given_up_when_its_client_leaves(held):
    server, sight = held
    with raw.ask(server.address, asked(DATA["red"])):
        until(lambda: sight.asked)
    until(lambda: sight.given_up)
    until(lambda: busy(server) == 0)
    sight.go.set()
    assert server.ask("here") == "You said: here"


@pytest.mark.parametrize("count", [MUTATED, pytest.param(ALL_MUTATED, marks=pytest.mark.long)])
def test_mutated_pictures_are_answered_or_refused(server, count):
    rng, sources = random.Random(count), [picture(kind) for kind in ("PNG", "JPEG", "WEBP", "GIF")]
    for number in range(count):
        file = bytearray(sources[number % len(sources)])
        for _ in range(rng.choice((1, 2, 8, 40))):
            file[rng.randrange(len(file))] = rng.randrange(256)
        body = asked(b64encode(file[: rng.randrange(8, 2 * len(file))]).decode(), max_tokens=1)
        answer = server.client.post(CHAT, json=body)
        assert answer.status_code in (200, 400), answer.text
        assert "server failed" not in answer.text
    assert server.ask("here") == "You said: here"


@pytest.mark.parametrize("count", [4 * MUTATED, pytest.param(ALL_MUTATED, marks=pytest.mark.long)])
def test_mutated_requests_with_pictures_are_answered_or_refused(server, count):
    rng, ways = random.Random(count), bodies(DATA["red"])
    for _ in range(count):
        path = rng.choice(list(ways))
        body, headers = mutated(rng, ways[path]), {"content-type": "application/json"}
        answer = server.client.post(path, content=body, headers=headers)
        assert answer.status_code < 500 or answer.status_code == 503, (body, answer.text)
        assert "server failed" not in answer.text
    assert server.ask("here") == "You said: here"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{WAV}"}},
    ],
)
def test_sounds_are_refused_where_no_model_hears(server, part):
    error = refusal(server, {"messages": [{"role": "user", "content": [part]}]})
    assert "scripted takes text and pictures only, and the request has sounds" in error
    assert "no model is served that takes sounds" in error


class Hearing(Looking):
    kinds = frozenset({"image", "audio"})

    def pieces(self, medium):
        return super(Looking, self).pieces(medium)


def test_a_model_that_hears_gets_sounds():
    hearing = seeing(sight=Hearing)
    try:
        sound = {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}
        content = [{"type": "text", "text": "Hear this"}, sound]
        answer = hearing.client.post(
            CHAT, json={"messages": [{"role": "user", "content": content}]}
        )
        assert said(CHAT, answer) == "You said: Hear this"
        prompt = {"prompt_string": "a<__media__>b", "multimodal_data": [WAV]}
        answer = hearing.client.post("/completion", json={"prompt": prompt, "n_predict": 1})
        assert answer.status_code == 200
        assert hearing.client.get("/props").json()["modalities"]["audio"]
    finally:
        hearing.close()


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/infill", {"input_prefix": "a", "image_data": [{"data": "x", "id": 1}]}, "between texts"),
        (
            GENERATE,
            {"model": "m", "prompt": "a", "suffix": "b", "images": [DATA["red"]]},
            "between",
        ),
        ("/completion", {"prompt": [1, 2], "image_data": [{"data": "x", "id": 1}]}, "is a text"),
        ("/completion", {"prompt": "[img-2]", "image_data": [{"data": "x", "id": 1}]}, "[img-1]"),
        (
            "/completion",
            {"prompt": {"prompt_string": "none", "multimodal_data": [DATA["red"]]}},
            "0 markers <__media__> for 1 pictures and sounds",
        ),
        (
            "/v1/embeddings",
            {"input": {"prompt_string": "a", "multimodal_data": [DATA["red"]]}},
            "only texts are read here",
        ),
    ],
)
def test_a_picture_where_none_can_stand_is_refused(server, path, body, words):
    assert words in refusal(server, body, path)


def test_a_strict_server_refuses_another_resolution():
    strict = seeing(ServerPolicy(strict=True))
    try:
        parts = texts_and_pictures("See ", "[red]")
        body = {"messages": [{"role": "user", "content": parts}]}
        assert strict.client.post(CHAT, json=body).status_code == 200
        parts[1]["image_url"]["detail"] = "low"
        assert "detail" in refusal(strict, body)
    finally:
        strict.close()
