"""The model that is chosen where none is named."""

from __future__ import annotations

import io
import re
import shutil
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pytest

from localspec.apps.chat import choice, command, session
from localspec.apps.chat.choice import STARTER, Candidate, MachineFigures
from localspec.apps.chat.session import ChatMessage, Session
from localspec.apps.command_line.serve import chosen as chosen_for_server
from localspec.base.errors import NotPulled, PullError, UsageError
from localspec.console.speakers.local_models import LocalModels
from localspec.console.speakers.server import AttachedServer
from localspec.core.requests.settings import Settings
from localspec.running.memory.machine import size
from localspec.running.memory.planner import Limits
from localspec.running.models import recent, store
from localspec.running.models.catalogue import entries
from localspec.running.models.stored_pair import File, PulledPair, StoredModel
from localspec.running.pulling.at_hand import INSTALLED, at_hand, with_a_way_on
from localspec.running.pulling.pace import TALKING_SPEED, Pace, expectation, pace, speed_text
from localspec.running.runtime.loading import Loading
from tests import engines, tiny_bert

ROOMY = Loading(limits=Limits("cpu", 64 << 30, supposed=True))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


def pull(name, path, *, size=None):
    actual = path.stat().st_size
    file = File(path, size or actual, "", large=True)
    store.keep(PulledPair(name, "Q8_0", "llamacpp", StoredModel(f"hf:some/{name}", path, (file,))))


def talked(model):
    conversation = Session(model, said=[ChatMessage("user", "hi"), ChatMessage("assistant", "ho")])
    conversation.keep()


def here(loading=ROOMY):
    """List the names of what is here, but for the starter, which may be installed."""
    candidates = choice.runnable(loading, MachineFigures(loading))
    return [one.name for one in candidates if one.why != INSTALLED]


def quick_machine(name="llama-3.2-1b"):
    """Make a place where a model is just quick enough to talk to."""
    [entry] = [entry for entry in entries().values() if entry.name == name]
    place = MachineFigures(ROOMY)
    most = next(iter(entry.offers["gguf"].weights.values())).bytes
    place.pace = lambda _: Pace(1.1 * TALKING_SPEED * most)
    return place


def test_nobody_is_known_at_first():
    assert here() == []
    assert choice.without_asking(ROOMY) == ""


def test_the_largest_that_is_here_whole_and_fits_comes_before_smaller_ones(home):
    small, large = sorted(
        (engines.tiny("llama"), engines.tiny("mamba2")), key=lambda path: path.stat().st_size
    )
    broken = home / "broken.gguf"
    broken.write_bytes(b"x" * (large.stat().st_size + 1))
    pull("small", small)
    pull("large", large)
    pull("partial", small, size=1 << 40)
    pull("broken", broken)
    assert here() == ["large:Q8_0", "small:Q8_0"]
    assert here(Loading(limits=Limits("cpu", 1, supposed=True))) == []


def test_what_was_used_lately_comes_before_what_was_pulled_whether_name_or_path(home):
    copy = home / "copy.gguf"
    shutil.copy(engines.tiny("llama"), copy)
    pull("large", engines.tiny("mamba2"))
    pull("small", engines.tiny("llama"))
    for name in ("gone.gguf", "small:Q8_0", str(copy)):
        recent.remember(name)
    assert here() == [str(copy), "small:Q8_0", "large:Q8_0"]
    assert choice.without_asking(ROOMY) == str(copy)


def test_a_server_without_a_name_serves_what_was_used_last_and_what_continues_texts(
    home, monkeypatch, capsys
):
    monkeypatch.setattr(
        "localspec.running.pulling.at_hand.entries", dict
    )  # a starter may be installed
    with pytest.raises(NotPulled, match=r"no model is here yet: .* localspec pull NAME"):
        chosen_for_server("auto")
    pull("a-model-of-vectors", tiny_bert.write(home / "vectors.gguf", "mean"))
    pull("small", engines.tiny("llama"))
    assert chosen_for_server("auto") == "small:Q8_0"
    pull("large", engines.tiny("mamba2"))
    recent.remember("large")
    assert chosen_for_server("auto") == "large"
    err = capsys.readouterr().err
    assert "no model is named: serving large (used lately)" in err


def test_a_list_of_recent_models_that_is_broken_names_none(home):
    for broken in ("[" * 200_000, "{}", "", "[1]", '{"names": [1]}', '{"names": 1}'):
        recent.file().parent.mkdir(parents=True, exist_ok=True)
        recent.file().write_text(broken)
        assert recent.names() == []
    recent.remember("one")
    assert recent.names() == ["one"]


def test_the_one_used_last_comes_before_all_others_if_it_is_still_here():
    pull("small", engines.tiny("llama"))
    pull("large", engines.tiny("mamba2"))
    for name in ("small", "small:Q8_0", str(engines.tiny("llama"))):
        talked(name)
        assert choice.without_asking(ROOMY) == name
        assert choice.choose_model(ROOMY) == name
    talked("gone")
    assert choice.without_asking(ROOMY) == "large:Q8_0"


def test_only_what_is_quick_enough_to_talk_to_is_offered():
    best = choice.best_to_pull(ROOMY, quick_machine())
    assert best
    assert best.name == "llama-3.2-1b"
    slow = quick_machine()
    slow.pace = lambda _: Pace(1e6)
    assert choice.best_to_pull(ROOMY, slow) is None
    small = Loading(limits=Limits("cpu", 1, supposed=True))
    assert choice.best_to_pull(small, quick_machine()) is None


def test_a_model_that_reasons_first_is_offered_where_its_reasoning_is_quick():
    place, entry = quick_machine("qwen3-1.7b"), entries()["qwen3-1.7b"]
    assert choice.offer(entry, ROOMY, place) is None
    assert choice.offer(replace(entry, reasons=False), ROOMY, place)
    place.pace = lambda _: Pace(1e12)
    assert choice.offer(entry, ROOMY, place)


def test_only_the_experts_that_a_token_reads_take_time():
    dense, mixed = entries()["qwen3-32b"], entries()["qwen3-30b-a3b"]
    reading = Pace(20e9)
    assert dense.active_share == 1
    assert mixed.active_share == pytest.approx(3.3 / 30.5)
    assert reading.tokens_a_second(20 << 30, mixed.active_share) > 8 * reading.tokens_a_second(
        20 << 30, dense.active_share
    )


@pytest.mark.parametrize(
    ("reading", "words", "busy"),
    [
        (Pace(10e9), "about 9 tokens/s", "9 tokens/s or more"),
        (Pace(1e9), "a token/s or less", "speed not known"),
        (Pace(1e9, gpu_bytes=10**9), "on the GPU", "on the GPU"),
        (Pace(1e9, gpu_bytes=9 * 10**8), "about 9 tokens/s", "9 tokens/s or more"),
        (Pace(1e12, slow=True), "slow without a GPU", "slow without a GPU"),
    ],
)
def test_a_speed_is_told_in_words(reading, words, busy):
    speed = reading.tokens_a_second(10**9)
    assert speed_text(reading, speed) == words
    assert speed_text(replace(reading, busy=True), speed) == busy


def test_what_is_to_be_pulled_is_told_with_its_size_and_speed():
    outlook = expectation("qwen3-8b", "auto", ROOMY.limits)
    assert re.fullmatch(
        r"q8_0 takes 8\.1 GiB; (about \d+ tokens/s|\d+ tokens/s or more|a token/s or less|"
        "speed not known) here, "
        "and it reasons .*",
        expectation("qwen3-8b:q8_0", "auto", ROOMY.limits),
    )
    assert outlook.startswith("q4_k_m takes 4.7 GiB; ")
    assert expectation("nobody", "auto", ROOMY.limits) == ""
    assert expectation("qwen3-8b", "auto", Limits("cpu", 1, supposed=True)) == ""


def test_mlx_is_said_to_be_slow_where_it_has_no_gpu():
    pytest.importorskip("mlx.core")
    assert pace(engines.MLX_ENGINE, Limits("cpu")).slow
    assert not pace(engines.GGUF_ENGINE, Limits("cpu")).slow


def picks(number, monkeypatch, *candidates):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{number}\n"))
    return choice.pick(candidates, ROOMY)


SMALL = Candidate("small", "94 MiB, installed", 1, quick=True, why=INSTALLED)
LARGE = Candidate("llama-3.2-1b", "1.2 GiB to download", 2, quick=True)


def test_a_user_picks_by_number_and_what_is_here_is_the_default(monkeypatch, capsys):
    other = replace(SMALL, name="other")
    assert picks(2, monkeypatch, SMALL, other) == "other"
    assert "  1  small  94 MiB, installed\n  2  other" in capsys.readouterr().err
    assert picks("", monkeypatch, SMALL, other) == "small"
    assert picks("", monkeypatch, other) == "other"
    assert "Which" in capsys.readouterr().err


def test_a_pull_that_fails_ends_with_what_is_here(monkeypatch, capsys):
    assert picks(2, monkeypatch, SMALL, LARGE) == "small"
    assert "; going on with small\n" in capsys.readouterr().err
    with pytest.raises(PullError):
        picks("", monkeypatch, LARGE)


def test_a_pull_that_fails_names_what_could_be_used_instead():
    pull("small", engines.tiny("llama"))
    failure = with_a_way_on(PullError("the hub is out of reach"), "qwen3-8b", "auto")
    assert str(failure).endswith(
        "out of reach; or try small:Q8_0, which is here: localspec chat small:Q8_0"
    )
    recent.remember("small:Q8_0")
    assert "try small" not in str(with_a_way_on(PullError("no"), "small", "auto"))


def chosen(name="", before="", *, asks=True, loading=ROOMY):
    source = LocalModels(loading, None, Settings(), frozenset())
    return command.model_to_open(source, name, before, loading, asks=asks)


def test_a_name_comes_first_then_the_conversation_then_what_suits():
    pull("small", engines.tiny("llama"))
    pull("large", engines.tiny("mamba2"))
    assert chosen("small", "large") == "small"
    assert chosen("", "large") == "large"
    talked("small")
    assert chosen() == "small"
    with pytest.raises(NotPulled, match="localspec pull qwen3-8b"):
        chosen("qwen3-8b")


def test_without_a_terminal_nobody_is_asked_and_the_starter_answers(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("2\n"))
    missing = pytest.raises(NotPulled, match="is not installed")
    with nullcontext() if choice.runnable(ROOMY, MachineFigures(ROOMY)) else missing:
        assert chosen(asks=False) == STARTER


@dataclass
class Server(AttachedServer):
    """A server with a model of this name."""

    name: str

    def names(self):
        return [self.name]


@pytest.mark.parametrize(
    ("typed", "apart"),
    [
        (("", ""), ("", "")),
        (("qwen3-8b", ""), ("qwen3-8b", "")),
        (("qwen3-8b", "what?"), ("qwen3-8b", "what?")),
        (("what is that?", ""), ("", "what is that?")),
        (("my model.gguf", ""), ("my model.gguf", "")),
    ],
)
def test_a_lone_argument_with_spaces_that_is_no_file_is_a_question(home, monkeypatch, typed, apart):
    (home / "my model.gguf").touch()
    monkeypatch.chdir(home)
    assert (
        command.model_and_question(LocalModels(ROOMY, None, Settings(), frozenset()), *typed)
        == apart
    )


@pytest.mark.parametrize(
    ("typed", "apart"),
    [
        (("hi", ""), ("", "hi")),
        (("small", ""), ("small", "")),
        (("small", "hi"), ("small", "hi")),
        (("other", "hi"), ("other", "hi")),
    ],
)
def test_a_lone_argument_that_a_server_has_no_model_of_is_a_question(typed, apart):
    assert command.model_and_question(Server("small"), *typed) == apart


def test_a_conversation_is_gone_on_with_by_its_name_and_anything_else_is_an_argument():
    talked("small")
    for name in ("hi", "HI", "1"):
        conversation, *arguments = command.find_conversation(name, "small", "what?")
        assert (conversation.said[0].content, arguments) == ("hi", ["small", "what?"])
    assert command.find_conversation("", "small", "what?") == (None, "small", "what?")
    assert command.find_conversation("small", "what?", "") == (None, "small", "what?")
    with pytest.raises(UsageError, match="no conversation begins with 'ho'"):
        command.find_conversation("ho", "small", "what?")


def test_what_is_here_is_listed_with_its_size():
    path = engines.tiny("llama")
    pull("small", path)
    source = LocalModels(ROOMY, None, Settings(), frozenset())
    assert "small:Q8_0" in source.names()
    assert source.about("small:Q8_0") == size(path.stat().st_size)
    installed = any(model.why == INSTALLED for model in at_hand())
    assert (STARTER in source.names()) == installed
    assert source.about("nobody") == ""


def test_a_path_is_the_same_from_wherever_it_is_given(home, monkeypatch):
    (home / "model.gguf").touch()
    monkeypatch.chdir(home)
    assert command.resolve_path("model.gguf") == str(home / "model.gguf")
    assert command.resolve_path("qwen3-8b") == "qwen3-8b"
    assert command.resolve_path("") == ""
    assert session.last(command.resolve_path("model.gguf")) == (None, [])
