"""Pictures in conversations from Python."""

from __future__ import annotations

import base64
import io

import pytest

from localspec.base.errors import UsageError
from localspec.base.tokens import tokens_of
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.interfaces.media_positions import NUMBERS, names_in
from localspec.interfaces.testing import ScriptedModel, ScriptedSight
from localspec.running.runtime import message_media
from localspec.running.runtime.media_text import MARK, MediaText, mark_media, split_at_marks
from localspec.running.runtime.runtime import Runtime
from tests.apps.server.scripted import TEMPLATE, Bytes, script
from tests.seeing import CAT, DOG

BEGIN, END = ord("["), ord("]")
HAT = base64.b64encode(b"a hat").decode()
REVERSED = "{%- for message in messages | reverse %}{{ message.content }};{% endfor %}"
LAST = "{{ messages[-1].content }}"
TWICE = "{% for message in messages %}{{ message.content }}{{ message.content }}{% endfor %}"
TYPED = (
    "{%- for message in messages %}{{ message.role }}:{% for part in message.content %}"
    "{{ part.text }}|{% endfor %}{% endfor %}"
)


def runtime(template=TEMPLATE, *, sees=True, replies=None):
    tokenizer = Bytes(template)
    sight = ScriptedSight(BEGIN, END, (3,)) if sees else None
    model = ScriptedModel(script(tokenizer, replies or {}), tokenizer, sight=sight)
    model.context = 4096
    return Runtime(Engine(model, Silent()))


def drawn(model, messages):
    """Return the prompt as a text; a picture is the beginning of its digest."""
    tokens, text = tokens_of(model.conversation(messages)), ""
    names = dict(names_in(tokens))
    for at, token in enumerate(tokens.tolist()):
        if at in names:
            text += names[at].digest.hex()[:4]
        elif token >= 0:
            text += model.tokenizer.token_text(token)
    return text


def sign(medium):
    return f"[{medium.digest.hex()[:4]}]"


@pytest.fixture
def model():
    with runtime(LAST) as model:
        yield model


def test_pictures_of_a_message_come_before_its_text(model):
    message = {"role": "user", "content": "which?", "images": [CAT.data, DOG.data]}
    assert drawn(model, [message]) == f"{sign(CAT)}{sign(DOG)}which?"
    assert drawn(model, [{"role": "user", "images": CAT.data}]) == sign(CAT)


def test_a_picture_may_be_a_path_bytes_a_data_url_or_an_image_of_pillows(model, tmp_path):
    class Image:
        """As far as Pillow's is asked for anything."""

        def save(self, fp: io.BytesIO, format: str) -> None:
            assert format == "PNG"
            fp.write(CAT.data)

    path = tmp_path / "cat.png"
    path.write_bytes(CAT.data)
    url = f"data:image/png;base64,{base64.b64encode(CAT.data).decode()}"
    for image in (path, str(path), CAT.data, bytearray(CAT.data), url, Image()):
        assert drawn(model, [{"role": "user", "content": "", "images": [image]}]) == sign(CAT)


def test_parts_stand_where_they_are_in_the_message(model):
    url = f"data:image/png;base64,{base64.b64encode(DOG.data).decode()}"
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image", "image": CAT.data},
        {"type": "text", "text": "b"},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "input_image", "image_url": url},
    ]
    text = f"a{sign(CAT)}b{sign(DOG)}{sign(DOG)}"
    assert drawn(model, [{"role": "user", "content": parts}]) == text


@pytest.mark.parametrize(
    ("template", "text"),
    [(REVERSED, "{dog}two;{cat}one;"), (TYPED, "user:{cat}|one|user:{dog}|two|")],
)
def test_a_template_may_order_messages_otherwise_and_read_parts(template, text):
    messages = [
        {"role": "user", "content": "one", "images": [CAT.data]},
        {"role": "user", "content": "two", "images": [DOG.data]},
    ]
    with runtime(template) as model:
        assert drawn(model, messages) == text.format(cat=sign(CAT), dog=sign(DOG))


def test_a_picture_that_the_template_drops_or_repeats_is_refused():
    messages = [
        {"role": "user", "content": "one", "images": [CAT.data]},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "two"},
    ]
    for template, how in ((LAST, "leaves out"), (TWICE, "writes 2 times")):
        with runtime(template) as model, pytest.raises(UsageError, match=f"{how} image 1 of 1"):
            model.chat(messages)


def test_a_chat_reads_its_pictures():
    with runtime(replies={"[]which?": "a cat"}) as model:
        message = {"role": "user", "content": "which?", "images": [CAT.data]}
        assert model.chat([message]).text == "a cat"
        assert "".join(chunk.text for chunk in model.stream([message])) == "a cat"
        assert [result.text for result in model.batch([[message], "hi"])] == [
            "a cat",
            "You said: hi",
        ]
        alone = model.chat("which?").usage.prompt_tokens
        assert model.chat([message]).usage.prompt_tokens == alone + 5


def test_a_model_without_sight_refuses_pictures():
    with runtime(sees=False) as model, pytest.raises(UsageError, match="reads text only"):
        model.chat([{"role": "user", "content": "which?", "images": [CAT.data]}])
    audio = {"type": "input_audio", "input_audio": {"data": HAT, "format": "wav"}}
    with runtime() as model, pytest.raises(UsageError, match="takes no audio; it takes image"):
        model.chat([{"role": "user", "content": [audio]}])


@pytest.mark.parametrize(
    ("image", "fault"),
    [
        ("nowhere.png", "nowhere.png is not there"),
        (".", ". is no file"),
        ("https://example.com/cat.png", "is not fetched: download it"),
        ("data:image/png;base64,a", "neither base64 nor a data URL"),
        (7, "an image is 7; it must be a path"),
        (b"", "the picture is empty"),
    ],
)
def test_what_is_no_picture_is_refused_by_name(model, image, fault):
    with pytest.raises(UsageError, match=fault):
        model.chat([{"role": "user", "content": "", "images": [image]}])


def test_a_part_that_says_image_and_has_none_is_refused(model):
    for parts in ([{"type": "image"}], [{"type": "image"}, {"type": "image", "image": CAT.data}]):
        with pytest.raises(UsageError, match='part of type "image"'):
            model.chat([{"role": "user", "content": parts}])


def test_a_file_is_bounded(model, tmp_path):
    path = tmp_path / "large.png"
    with path.open("wb") as file:
        file.truncate(message_media.MAX_BYTES + 1)
    with pytest.raises(UsageError, match="67,108,865 bytes; a picture may have 67,108,864"):
        model.chat([{"role": "user", "content": "", "images": [path]}])


def test_texts_around_pictures_are_tokenised_each_by_itself(model):
    tokens, runs = MediaText(["ab", "", "c"], [CAT, CAT]).read(model.text)
    assert [run.name.digest for run in runs] == [CAT.digest] * 2
    assert runs[0] is runs[1]
    first = NUMBERS.first(runs[0].name)
    picture = [BEGIN, first, first - 1, first - 2, END]
    assert tokens == [*b"ab", *picture, *picture, *b"c"]


def test_marks_are_told_from_texts_that_look_like_them():
    [message] = mark_media([{"role": "user", "content": [{"type": "image"}]}], [CAT])
    [part] = message["content"]
    assert MARK.fullmatch(part["text"])
    text = split_at_marks(f"medium0n0e{part['text']}medium", [CAT])
    assert list(text.texts) == ["medium0n0e", "medium"]
