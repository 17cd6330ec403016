"""Models that see: a picture is read as its engine reads it, however a text came to be held."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace

import numpy as np
import pytest

from localspec.base.errors import BackendError, ContextFull, LocalSpecError, UsageError
from localspec.base.tokens import tokens_of
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.formats.pictures.decoding import rgb_pixels
from localspec.interfaces.backend import Options, Roll, Row
from localspec.interfaces.media import Medium
from localspec_llamacpp import backend as llamacpp
from localspec_llamacpp.bindings.projector import MARKER
from tests import engines
from tests.backends.by_libmtmd import greedy_logits
from tests.tiny_vision import SIGHTED, picture, write_projector

OPTIONS = Options(
    slots=4, context=640, batch=320, threads=1, tentative=8, gpu_layers=0, flash_attention=False
)
NEAR = 0.03  # logits deviate by 4; batches of other widths move them by so much
NOBODYS = -(1 << 30)  # the number of no run
BEFORE, BETWEEN, BEHIND = "the code is ", " and this is ", " which it was not:"


files = engines.sighted_files


def load(name, **options):
    path, projector = files(name)
    head = path if name in engines.HEADS else None
    return llamacpp.load(path, replace(OPTIONS, projector=projector, head=head, **options))


@pytest.fixture(scope="module", params=SIGHTED)
def loaded(request):
    with closing(load(request.param)) as model:
        yield model


@pytest.fixture
def model(loaded):
    yield loaded
    for slot in range(loaded.slots):
        assert loaded.truncate(slot, 0) == 0


class Text:
    """A text of words and pictures; it holds its runs."""

    def __init__(self, model, *parts):
        self.runs, pieces = [], []
        for part in parts:
            if isinstance(part, str):
                pieces.append(model.tokenizer.encode(part, special=True))
                continue
            for piece in model.sight.pieces(Medium("image", part)):
                if isinstance(piece, np.ndarray):
                    pieces.append(piece)
                else:
                    self.runs.append(piece)
                    pieces.append(np.arange(piece.name.length, dtype=np.int32) * -1 + piece.first)
        self.tokens = np.concatenate(pieces).astype(np.int32)

    def place(self, run):
        """Where a run begins and ends."""
        start = int(np.flatnonzero(self.tokens == run.first)[0])
        return start, start + run.name.length

    def __len__(self):
        return len(self.tokens)


def common(model):
    return Text(model, BEFORE, picture(1), BEHIND)


def read(model, slot, tokens, outputs=1):
    return model.forward([Row(slot, tokens, outputs)])[0].copy()


def near(one, other):
    return np.abs(one - other).max() < NEAR


@pytest.mark.parametrize("name", SIGHTED)
def test_a_text_with_pictures_is_read_as_llamacpp_reads_it(name):
    pictures = [picture(1), picture(2, 40, 72), picture(1)]
    prompt = b"".join((BEFORE.encode(), MARKER, BETWEEN.encode(), MARKER, MARKER, BEHIND.encode()))
    pixels = [rgb_pixels(data) for data in pictures]
    reference = list(greedy_logits(*files(name), prompt, pixels, steps=12))
    with closing(load(name)) as model:
        text = Text(model, BEFORE, pictures[0], BETWEEN, *pictures[1:], BEHIND)
        logits = read(model, 0, text.tokens)[0]
        for expected in reference:
            assert near(logits, expected)
            logits = read(model, 0, tokens_of([int(expected.argmax())]))[0]


def test_pictures_differ_and_the_same_one_is_one(model):
    texts = [Text(model, BEFORE, picture(seed), BEHIND) for seed in (1, 2, 1)]
    first, other, again = [read(model, slot, text.tokens) for slot, text in enumerate(texts)]
    assert np.abs(first - other).max() > 10 * NEAR
    assert near(first, again)
    assert (texts[0].tokens == texts[2].tokens).all()
    assert not set(texts[0].tokens[texts[0].tokens < 0]) & set(texts[1].tokens)


def test_a_text_may_begin_and_end_with_a_picture(model):
    text = Text(model, picture(3), BETWEEN, picture(4))
    logits = read(model, 0, text.tokens)
    assert logits.shape == (1, model.vocabulary)
    behind = read(model, 0, model.tokenizer.encode("x"))
    whole = Text(model, picture(3), BETWEEN, picture(4), "x")
    assert near(read(model, 1, whole.tokens)[0], behind[0])


def test_outputs_may_reach_into_a_picture(model):
    text = common(model)
    few = text.tokens[: text.place(text.runs[-1])[1] + 3]
    all_at_once = read(model, 0, few, outputs=8)
    assert len(all_at_once) == 8
    for row in range(0 if not text.runs[-1].whole else 5, 8):
        assert near(read(model, 1, few[: len(few) - 7 + row])[0], all_at_once[row])
        model.truncate(1, 0)


def test_a_picture_may_be_read_in_pieces_unless_it_sees_itself_both_ways(model):
    text = Text(model, BEFORE, picture(5, 64, 64), BEHIND)
    once = read(model, 0, text.tokens)
    run = text.runs[-1]
    start, end = text.place(run)
    cuts = [start, end] if run.whole else [start, start + 3, end - 1, end + 1]
    for piece in np.split(text.tokens, cuts):
        again = read(model, 1, piece)
    assert near(once, again)


def test_one_can_go_back_to_just_behind_a_picture(model):
    text = common(model)
    expected = read(model, 0, text.tokens)
    end = text.place(text.runs[-1])[1]
    kept = model.truncate(0, end)
    assert kept in (end, 0) if name_of(model) in RECURRENT else kept == end
    assert near(read(model, 0, text.tokens[kept:]), expected)


def test_going_back_into_a_picture_leaves_none_of_it_or_what_was_asked_for(model):
    text = common(model)
    expected = read(model, 0, text.tokens)
    start, end = text.place(text.runs[-1])
    kept = model.truncate(0, end - 1)
    assert kept in (0, start, end - 1)
    assert near(read(model, 0, text.tokens[kept:]), expected)
    for length in range(len(text), -1, -1):  # every length is safe to ask for
        kept = model.truncate(0, length)
        assert kept <= length
    assert near(read(model, 0, text.tokens[kept:]), expected)


RECURRENT = ("lfm2", "qwen35", "qwen35-mtp")


def name_of(model):
    return next(name for name in SIGHTED if model._weights.path == files(name)[0])


def test_a_draft_behind_a_picture_changes_nothing(model):
    text = common(model)
    logits = read(model, 0, text.tokens)
    plain = []
    for _ in range(6):
        plain.append(int(logits[-1].argmax()))
        logits = read(model, 0, tokens_of(plain[-1:]))
    drafted, held = plain[:1], len(text)
    read(model, 1, text.tokens)
    for guess in ([plain[1], plain[2], 7], [plain[4], 9, 9]):
        row = Row(1, tokens_of([drafted[-1], *guess]), 4, 3)
        chosen = model.forward([row])[0].argmax(1).tolist()
        right = [a == b for a, b in zip(guess, chosen, strict=False)]
        count = [*right, False].index(False)
        drafted += chosen[: count + 1]
        held += 1 + count
        kept = model.truncate(1, held)
        if kept < held:
            whole = np.concatenate([text.tokens, tokens_of(drafted)])
            read(model, 1, whole[kept:held])
    assert drafted[: len(plain)] == plain[: len(drafted)]


def test_slots_with_texts_and_pictures_do_not_change_each_other(model):
    texts = [
        common(model),
        Text(model, "it was not on the other side of the sea"),
        Text(model, picture(6), picture(7, 24, 56), BETWEEN),
        Text(model, BEFORE, picture(1), BETWEEN, picture(8), BEHIND),
    ]
    alone = []
    for text in texts:
        alone.append(read(model, 0, text.tokens))
        model.truncate(0, 0)
    small = max(len(text.tokens[text.tokens >= 0]) for text in texts)
    assert 4 * small <= model.batch
    together = model.forward([Row(slot, text.tokens) for slot, text in enumerate(texts)])
    for one, other in zip(alone, together, strict=True):
        assert near(one, other)
    newest = tokens_of([5])
    behind = model.forward([Row(slot, newest) for slot in (0, 2, 3)])
    for slot, logits in zip((0, 2, 3), behind, strict=True):
        model.truncate(1, 0)
        read(model, 1, texts[slot].tokens)
        assert near(read(model, 1, newest), logits)


def test_a_slot_with_half_a_picture_lends_itself_to_no_gap_between_others():
    with closing(load("qwen3vl")) as model:
        text = common(model)
        expected = read(model, 1, text.tokens)
        model.truncate(1, 0)
        half = text.place(text.runs[0])[0] + 2
        read(model, 1, text.tokens[:half])
        for slot in (0, 2):
            read(model, slot, text.tokens)
        alone, other = model.forward([Row(slot, tokens_of([5])) for slot in (0, 2)])
        assert near(alone, other)
        assert near(read(model, 1, text.tokens[half:]), expected)


def test_half_a_picture_that_found_no_room_is_forgotten_with_the_other_half():
    with closing(load("qwen3vl", shared=True, context=256, batch=16)) as model:
        text = Text(model, "the ", picture(5, 96, 64))
        start, end = text.place(text.runs[0])
        for _ in range(10):
            read(model, 1, tokens_of(range(16)))
        for piece in np.split(text.tokens[:start], range(16, start, 16)):
            read(model, 0, piece)
        with pytest.raises(ContextFull):
            read(model, 0, text.tokens[start:end])
        assert model.truncate(0, end) == start
        assert model.truncate(1, 0) == 0
        expected = read(model, 0, text.tokens[start:end])
        assert model.truncate(0, start) == start
        assert near(read(model, 0, text.tokens[start:end]), expected)


def test_what_was_saved_is_restored_with_its_pictures(model):
    text = common(model)
    read(model, 0, text.tokens)
    expected = read(model, 0, tokens_of([5]))
    model.truncate(0, 0)
    read(model, 0, text.tokens)
    saved = model.save(0, 1 << 30)
    with closing(load(name_of(model))) as other:
        for restoring, slot in ((model, 2), (other, 0)):
            assert restoring.restore(slot, saved.data, len(text) - 1) == 0
            assert restoring.restore(slot, saved.data, len(text)) == len(text)
            assert near(read(restoring, slot, tokens_of([5])), expected)


def test_several_steps_behind_a_picture_are_as_each_alone(model):
    if model.head:  # which takes one step at a time
        return
    text, tokens, stepped = common(model), [], []
    logits = read(model, 0, text.tokens)
    for _ in range(5):
        tokens.append(int(logits[-1].argmax()))
        logits = read(model, 0, tokens_of(tokens[-1:]))
    logits = read(model, 1, text.tokens)

    def choose(rows):
        stepped.append(int(rows[0].argmax()))
        return stepped[-1:] if len(stepped) < 4 else None

    model.multi_step([1], tokens[:1], choose)
    assert stepped == tokens[1:5]


def test_a_head_drafts_behind_pictures(model):
    if not model.head:
        assert model.head is None
        return
    text = common(model)
    logits = read(model, 0, text.tokens)
    newest = tokens_of([int(logits[-1].argmax())])
    history = np.concatenate([text.tokens, newest])
    roll = Roll(Row(0, newest), 3, Sampler(GREEDY, 0, text.tokens), len(history))
    [draft] = model.head.roll([roll])
    assert len(draft.tokens) == 3
    saved = model.save(0, 1 << 30)
    assert model.restore(1, saved.data, len(text)) == len(text)
    [again] = model.head.roll([replace(roll, row=Row(1, newest))])
    assert again.tokens.tolist() == draft.tokens.tolist()
    end = text.place(text.runs[-1])[1]
    kept = model.truncate(0, end + 1)
    read(model, 0, text.tokens[kept:])
    [again] = model.head.roll([roll])
    assert again.tokens.tolist() == draft.tokens.tolist()


def test_a_picture_is_encoded_once(model):
    first = common(model)
    encoded = first.runs[0].piece
    read(model, 0, first.tokens)
    embeddings = encoded.embeddings
    second = Text(model, BETWEEN, picture(1))
    assert second.runs[0] is first.runs[0]
    read(model, 1, second.tokens)
    assert second.runs[0].piece.embeddings is embeddings


def test_a_picture_is_encoded_while_another_text_is_read(model):
    words = model.tokenizer.encode("it was not on the other side of the sea")
    alone = read(model, 0, words)
    model.truncate(0, 0)
    expected = read(model, 1, Text(model, BEFORE, picture(20), BEHIND).tokens)
    text = Text(model, BEFORE, picture(20) + b"x", BEHIND)  # the same one in another file
    encodings = [run.encoding() for run in text.runs]
    assert near(read(model, 0, words), alone)
    for encoding in encodings:
        assert encoding is None or encoding.result() is not None
    assert not any(run.encoding() for run in text.runs)
    assert near(read(model, 2, text.tokens), expected)


def test_a_text_whose_pictures_nobody_holds_cannot_be_read(model):
    with pytest.raises(BackendError, match="without its pictures"):
        model.forward([Row(0, tokens_of([4, NOBODYS, NOBODYS - 1, 4]))])
    assert read(model, 0, tokens_of([4])).shape[0] == 1


@pytest.mark.parametrize("shape", [(1, 1), (1, 4000), (4000, 1), (3, 700), (7, 5), (300, 40)])
def test_a_picture_of_any_shape_is_taken_or_refused(model, shape):
    with suppress(UsageError):
        text = Text(model, picture(9, *shape))
        for run in text.runs:
            start, end = text.place(run)
            if end - start <= model.context:
                model.truncate(0, 0)
                read(model, 0, text.tokens[start:end])


def test_a_model_without_a_projector_sees_nothing():
    with closing(engines.target("llama")) as model:
        assert model.sight is None


def test_what_is_no_picture_is_refused(model):
    with pytest.raises(UsageError):
        model.sight.pieces(Medium("image", b"what is this"))
    with pytest.raises(UsageError, match="no sound"):
        model.sight.pieces(Medium("audio", b"RIFF"))


def test_a_closed_model_takes_no_pictures_apart():
    model = load("qwen3vl")
    model.close()
    with pytest.raises(BackendError, match="closed"):
        model.sight.pieces(Medium("image", picture(1)))


def test_batches_have_room_for_a_picture_that_is_read_whole():
    with closing(load("gemma3", batch=16)) as model:
        text = common(model)
        assert model.batch == text.runs[0].name.length == 16
    with closing(load("gemma3", batch=12)) as model:
        assert model.batch == 16
        text = common(model)
        start, end = text.place(text.runs[0])
        assert read(model, 0, text.tokens[start:end]).shape == (1, model.vocabulary)
    with closing(load("qwen3vl", batch=16)) as model:
        assert model.batch == 16
        text = Text(model, picture(3, 96, 96))
        start, end = text.place(text.runs[0])
        assert end - start > model.batch
        assert read(model, 0, text.tokens[start:end]).shape == (1, model.vocabulary)


@pytest.mark.parametrize("slots", [1, 2])
def test_a_long_draft_of_a_hybrid_is_taken_back_to_behind_a_picture(slots):
    for name in RECURRENT:
        with closing(load(name, slots=slots, tentative=16)) as model:
            text = common(model)
            expected = read(model, 0, text.tokens)
            model.truncate(0, 0)
            read(model, 0, text.tokens[:-1])
            draft = np.concatenate([text.tokens[-1:], np.arange(12, dtype=np.int32)])
            assert near(model.forward([Row(0, draft, 13, 12)])[0][0], expected[0])
            kept = model.truncate(0, len(text))
            again = np.concatenate([text.tokens[kept:], tokens_of([5])])
            after = read(model, 0, again)
            model.truncate(0, 0)
            assert near(read(model, 0, np.concatenate([text.tokens, tokens_of([5])])), after)


def test_a_projector_of_another_model_is_refused(tmp_path):
    path, projector = files("llama")
    wide = write_projector(tmp_path / "mmproj-wide.gguf", "llama", width=96)
    with pytest.raises(LocalSpecError, match=r"mmproj-wide.*(96|mismatch)"):
        llamacpp.load(path, replace(OPTIONS, projector=wide))
    with pytest.raises(LocalSpecError, match=r"llama\.gguf"):
        llamacpp.load(path, replace(OPTIONS, projector=path))
    strange = write_projector(tmp_path / "mmproj-strange.gguf", "idefics3")
    with pytest.raises(LocalSpecError, match="lacks tokens by which mmproj-strange"):
        llamacpp.load(path, replace(OPTIONS, projector=strange))
    cut = tmp_path / "mmproj-cut.gguf"
    cut.write_bytes(projector.read_bytes()[:-100])
    with pytest.raises(LocalSpecError, match="cut short"):
        llamacpp.load(path, replace(OPTIONS, projector=cut))


def test_a_projector_that_numbers_pictures_is_refused(tmp_path):
    numbering = write_projector(tmp_path / "mmproj-hunyuan.gguf", "hunyuanvl")
    with pytest.raises(UsageError, match="by its place in a text"):
        llamacpp.load(files("qwen3vl")[0], replace(OPTIONS, projector=numbering))


def test_what_a_projector_computes_in_is_counted():
    path, projector = files("qwen3vl")
    with llamacpp.rehearse(path) as rehearsal:
        plain = rehearsal.needs(OPTIONS)
        seeing = rehearsal.needs(replace(OPTIONS, projector=projector))
    assert seeing.projector > plain.projector == 0
    assert seeing.cache == plain.cache
