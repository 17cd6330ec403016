"""The library as its users meet it."""

from __future__ import annotations

import gc
import queue
import subprocess
import sys
import threading
from dataclasses import asdict
from types import SimpleNamespace

import pytest

import localspec
from localspec.base.errors import (
    BackendError,
    LocalSpecError,
    ModelFileError,
    UnknownModel,
    UsageError,
)
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.requests.settings import Settings
from localspec.formats.templates.chat_template import ChatTemplate
from localspec.running.runtime.loaded_facts import LoadedFacts
from localspec.running.runtime.loading import Loading, load, parts_of
from localspec.running.runtime.runtime import Runtime
from tests import engines
from tests.runs import LETTERS, scripted

SHORT = Settings(max_tokens=20, ignore_end=True)


@pytest.fixture
def runtime():
    with Runtime(Engine(scripted(), NgramProposer(3, 1))) as runtime:
        yield runtime


def test_a_stream_is_the_reply_in_pieces(runtime):
    stream = runtime.stream("abc", SHORT)
    chunks = list(stream)
    result = stream.result
    assert "".join(chunk.text for chunk in chunks) == result.text
    assert tuple(t for chunk in chunks for t in chunk.tokens) == result.tokens
    assert runtime.generate("abc", SHORT).text == result.text


def test_a_model_may_rest_whenever_there_are_no_requests():
    model, rested = scripted(), queue.SimpleQueue()
    model.rest = lambda: rested.put(threading.current_thread().name)
    with Runtime(Engine(model, Silent())) as runtime:
        for _ in range(3):
            assert rested.get(timeout=60) == "localspec"
            runtime.generate("abc", SHORT)
        assert rested.get(timeout=60)
    assert rested.qsize() == 0


def test_a_prompt_may_be_tokens(runtime):
    tokens = runtime.encode("abc")
    assert runtime.generate(tokens, SHORT).text == runtime.generate("abc", SHORT).text


def test_only_who_is_there_can_be_asked_to_guess():
    repeats = "abcabcabcabcabc"
    facts = LoadedFacts(proposers=("ngram",))
    with Runtime(Engine(scripted(), NgramProposer(3, 1)), facts=facts) as runtime:
        assert runtime.generate(repeats, Settings(max_tokens=5, proposers=("ngram",)))
        with pytest.raises(UsageError, match=r"suffix does not draft for this model; .*: ngram"):
            runtime.stream(repeats, Settings(proposers=("ngram", "suffix")))


def test_many_threads_may_ask_at_once(runtime):
    alone = [runtime.generate("abc"[: 1 + at % 3], SHORT).text for at in range(12)]
    together = [""] * 12

    def ask(at):
        together[at] = runtime.generate("abc"[: 1 + at % 3], SHORT).text

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_leaving_a_stream_early_cancels_it(runtime):
    stream = runtime.stream("abc", Settings(ignore_end=True, max_tokens=100_000))
    for _ in stream:
        break
    assert stream.result.finish_reason == "cancelled"
    assert runtime.generate("ab", SHORT).finish_reason == "length"


def test_closing_ends_what_is_under_way_and_says_so():
    runtime = Runtime(Engine(scripted(), Silent()))
    stream = runtime.stream("abc", Settings(ignore_end=True, max_tokens=100_000))
    next(iter(stream))
    waiting = runtime.stream("abc", Settings(ignore_end=True, max_tokens=100_000))
    runtime.close()
    runtime.close()
    with pytest.raises(BackendError, match="closed"):
        _ = waiting.result
    with pytest.raises(LocalSpecError, match="closed"):
        runtime.generate("abc")


def test_a_closed_model_says_so_and_does_not_crash():
    runtime = load(engines.tiny("llama"), loading=Loading(engines.OPTIONS))
    runtime.generate("the code", SHORT)
    runtime.close()
    with pytest.raises(LocalSpecError, match="closed"):
        runtime.generate("the code", SHORT)


def test_a_stream_keeps_its_model_alive():
    stream = load(engines.tiny("llama"), loading=Loading(engines.OPTIONS)).stream("the", SHORT)
    gc.collect()
    assert len("".join(chunk.text for chunk in stream)) > 0


def test_a_program_that_ends_in_mid_reply_ends_quietly():
    script = (
        "import localspec, sys\n"
        "from localspec import Settings\n"
        "model = localspec.load(sys.argv[1])\n"
        "stream = model.stream('the', Settings(ignore_end=True))\n"
        "next(iter(stream))\n"
    )
    command = [sys.executable, "-c", script, str(engines.tiny("llama"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("name", "end", "code"),
    [
        ("llama", "raise ValueError('no more')", 1),
        pytest.param("mlx llama", "", 0, marks=pytest.mark.long),
    ],
)
def test_a_program_that_closes_nothing_keeps_its_texts_when_it_ends(name, end, code, tmp_path):
    script = (
        "import localspec, sys\n"
        "from pathlib import Path\n"
        "options = localspec.Options(context=1024, slots=1)\n"
        "loading = localspec.Loading(options, proposer='none', cache_dir=Path(sys.argv[2]))\n"
        "model = localspec.load(sys.argv[1], loading=loading)\n"
        "model.generate([300 + at % 61 for at in range(600)], localspec.Settings(max_tokens=2))\n"
        f"{end}\n"
    )
    path = engines.tiny_folder(name.removeprefix("mlx ")) if "mlx" in name else engines.tiny(name)
    command = [sys.executable, "-c", script, str(path), str(tmp_path / "kept")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.splitlines()[-1:] == (["ValueError: no more"] if end else [])
    assert len(list((tmp_path / "kept").glob("*.kept"))) == 1


class Broken:
    def propose(self, asks):
        raise ZeroDivisionError("one over nothing")

    def release(self, slot):
        pass


def test_a_defect_in_a_plug_in_ends_requests_with_its_name_and_not_the_thread():
    with Runtime(Engine(scripted(), Broken())) as runtime:
        for _ in range(2):
            with pytest.raises(BackendError, match="ZeroDivisionError: one over nothing"):
                runtime.generate("abc", SHORT)
        assert runtime.generate("abc", Settings(max_tokens=5, depth=0)).tokens


def test_a_refused_request_leaves_the_others_alone(runtime):
    stream = runtime.stream("abc", SHORT)
    with pytest.raises(UsageError):
        runtime.generate("", SHORT)
    assert stream.result.finish_reason == "length"


def test_a_result_can_be_written_as_json_values(runtime):
    written = asdict(runtime.generate("abc", Settings(max_tokens=3, logprobs=1)))
    assert set(written) >= {"text", "tokens", "finish_reason", "usage", "timings", "speculation"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_tokens": 0},
        {"seed": -1},
        {"seed": 1 << 64},
        {"stop": ("",)},
        {"logprobs": -1},
        {"logprobs": 101},
        {"depth": -1},
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Settings(**wrong)


def test_a_depth_beyond_what_was_loaded_is_refused(runtime):
    with pytest.raises(UsageError, match="depth is 17"):
        runtime.generate("abc", Settings(depth=17))


def test_the_public_names_are_these():
    assert sorted(localspec.__all__) == [
        "Adapter",
        "Answer",
        "AsyncModel",
        "AsyncStream",
        "Chunk",
        "DraftOptions",
        "Grammar",
        "Limits",
        "Loading",
        "LocalSpecError",
        "Options",
        "Phase",
        "Question",
        "ReplyOptions",
        "Result",
        "Runtime",
        "Sampling",
        "Settings",
        "Stream",
        "ToolCall",
        "VectorRuntime",
        "inspect",
        "load",
        "load_async",
        "load_vectors",
    ]
    assert all(hasattr(localspec, name) for name in localspec.__all__)


def test_a_pair_is_loaded_by_path_and_answers():
    loading = Loading(engines.OPTIONS, proposer="draft-model", depth=4)
    draft = engines.tiny("llama", head=engines.Head(drift=0.2))
    with load(engines.tiny("llama"), draft, loading) as pair:
        assert pair.facts.pairing.difference is None
        result = pair.chat([{"role": "user", "content": "the code"}], Settings(max_tokens=30))
        assert result.speculation.tokens_by_source["draft-model"] > 0
    with load(engines.tiny("llama"), loading=Loading(engines.OPTIONS, "none")) as plain:
        expected = plain.chat([{"role": "user", "content": "the code"}], Settings(max_tokens=30))
    assert result.text == expected.text


def test_a_draft_with_another_vocabulary_is_mapped_and_its_share_reported():
    draft = engines.tiny("llama", layout="shuffled")
    loading = Loading(engines.OPTIONS, proposer="draft-model", depth=4)
    with load(engines.tiny("llama"), draft, loading) as pair:
        assert pair.facts.pairing.difference
        assert 0.9 < pair.facts.pairing.share < 1
        assert pair.generate("the code is", SHORT).speculation.drafted > 0


def test_a_name_that_is_nothing_says_what_there_is():
    with pytest.raises(UnknownModel, match="did you mean smollm2-135m"):
        load("smolm2-135m")
    with pytest.raises(UnknownModel, match="no file"):
        load("missing/model.gguf")


def test_a_file_that_is_no_model_is_named(tmp_path):
    path = tmp_path / "notes.gguf"
    path.write_bytes(b"just some notes, not a model at all" * 10)
    with pytest.raises(ModelFileError, match=r"notes\.gguf"):
        load(path)


def test_a_proposer_that_needs_a_draft_model_says_so():
    with pytest.raises(UsageError, match="draft"):
        load(engines.tiny("llama"), loading=Loading(engines.OPTIONS, "draft-model"))


@pytest.mark.parametrize("wrong", [{"proposer": "oracle"}, {"depth": 9}, {"depth": -1}])
def test_ways_of_loading_that_make_no_sense_are_refused_by_name(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Loading(engines.OPTIONS, **wrong)


def with_template(source):
    tokenizer = type(LETTERS)([b"a"], ends=[0])
    tokenizer.chat_template = source
    return ChatTemplate(tokenizer)


def test_a_template_is_rendered_with_its_messages():
    template = with_template("{% for m in messages %}[{{ m['role'] }}]{{ m.content }}{% endfor %}")
    assert template.render([{"role": "user", "content": "hi <b>"}]) == "[user]hi <b>"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ raise_exception('no system role') }}",
        "{{ 1 / 0 }}",
        "{{ undefined_thing.attribute }}",
    ],
)
def test_a_template_that_reaches_out_of_its_sandbox_or_fails_is_an_error(source):
    with pytest.raises(UsageError, match="chat template"):
        with_template(source).render([{"role": "user", "content": "hi"}])


def test_a_template_that_is_broken_is_named_as_such():
    with pytest.raises(ModelFileError, match="broken"):
        with_template("{% for m in messages %}")


def test_a_model_without_template_says_what_to_do(runtime):
    with pytest.raises(UsageError, match="no chat template"):
        runtime.chat([{"role": "user", "content": "hi"}])


@pytest.mark.parametrize("equal", [True, False])
def test_near_ties_are_reported_where_a_loaded_pair_may_turn_them(equal):
    loaded = SimpleNamespace(is_equal_to_the_bit=equal)
    assert parts_of(loaded, Loading()).rounds_by_width is not equal
