"""Models that are loaded with a corpus: exact, drafted from files and replies of before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.apps.command_line import run
from localspec.apps.server.command import keeping_replies_apart
from localspec.base.errors import UsageError
from localspec.console.speakers.local_models import describe
from localspec.core.corpus import replies, stored
from localspec.core.proposers import registry
from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import Options
from localspec.running.runtime.loading import Loading, load
from tests import engines
from tests.waiting import until

LONG = Settings(max_tokens=120, ignore_end=True)
WORDS = "the code is"
LOADING = Loading(Options(context=512, threads=1, slots=2), depth=4)


@pytest.fixture(autouse=True)
def _folders_of_their_own(tmp_path, monkeypatch):
    for name in ("CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))


@pytest.fixture(scope="module")
def model():
    return engines.tiny("llama")


def by_corpus(result):
    return result.speculation.tokens_by_source.get("corpus", 0)


@pytest.fixture(scope="module")
def plain(model):
    with load(model, loading=replace(LOADING, proposer="none")) as runtime:
        return runtime.generate(WORDS, LONG)


def test_a_reply_is_drafted_from_files_and_stays_the_same(model, plain, tmp_path):
    (tmp_path / "notes.txt").write_text(WORDS + plain.text)
    loading = replace(LOADING, proposer="corpus", corpus=(tmp_path / "notes.txt",))
    with load(model, loading=loading) as runtime:
        until(lambda: runtime.facts.corpus.segments)
        assert runtime.facts.proposers == ("corpus",)
        results = runtime.batch([WORDS] * 3, LONG, raw=True)
        sampled = runtime.generate(WORDS, LONG, temperature=1.0, seed=3)
    assert {result.text for result in results} == {plain.text}
    assert all(by_corpus(result) > 30 for result in results)
    with load(model, loading=replace(LOADING, proposer="none")) as runtime:
        assert runtime.generate(WORDS, LONG, temperature=1.0, seed=3).text == sampled.text


def test_a_model_that_was_loaded_again_drafts_from_its_earlier_replies(model, plain, capsys):
    loading = replace(LOADING, learn=True)
    with load(model, loading=loading) as runtime:
        assert by_corpus(runtime.generate(WORDS, LONG)) == 0
    assert len(replies.replies(replies.kept_folder())) == 1
    with load(model, loading=loading) as runtime:
        assert runtime.facts.proposers[-1] == "corpus"
        until(lambda: runtime.facts.corpus.segments)
        result = runtime.generate(WORDS, LONG)
        assert result.text == plain.text
        assert by_corpus(result) > 30
        [facts] = runtime.facts.corpus.facts()
        assert (facts.name, facts.texts) == ("kept replies", 1)
        about = list(describe("llama", runtime.facts, 512))[-1]
        assert about.startswith(
            f"texts to draft from in kept replies: 1, with {facts.tokens:,} tokens"
        )
    assert run(["doctor", "--json"]) == 0
    assert "1 reply (1 MiB) and 1 index of texts" in capsys.readouterr().out
    assert run(["forget"]) == 0
    assert capsys.readouterr().out.startswith("removed 1 reply (1 MiB) and 1 index")
    assert stored.stored() == stored.NOTHING
    assert run(["forget"]) == 0
    assert capsys.readouterr().out == "there was nothing to remove\n"


@pytest.mark.parametrize("shares", [True, False])
def test_nothing_of_a_reply_drafts_for_another_where_replies_are_not_shared(model, shares):
    loading = replace(LOADING, proposer="suffix", shares_replies=shares)
    with load(model, loading=loading) as runtime:
        runtime.generate("go on: a tale of", LONG)
        again = runtime.generate("go on: a tale of", LONG)
    with load(model, loading=loading) as runtime:
        alone = runtime.generate("go on: a tale of", LONG)
    assert again.text == alone.text
    assert (again.speculation.accepted == alone.speculation.accepted) is not shares


def test_with_several_api_keys_replies_are_neither_shared_nor_learned():
    assert keeping_replies_apart(LOADING, ()).shares_replies
    assert keeping_replies_apart(replace(LOADING, learn=True), ("one",)).shares_replies
    assert not keeping_replies_apart(LOADING, ("one", "two")).shares_replies
    with pytest.raises(UsageError, match="2 API keys together"):
        keeping_replies_apart(replace(LOADING, learn=True), ("one", "two"))


def test_what_one_api_key_was_told_drafts_for_no_other_in_a_later_server_either(model):
    learning = replace(LOADING, learn=True)
    for keys, drafts in (("one",), False), (("two",), False), ((), False), (("one",), True):
        with load(model, loading=keeping_replies_apart(learning, keys)) as runtime:
            until(lambda: runtime.facts.corpus.facts()[0].is_current)
            assert (by_corpus(runtime.generate(WORDS, LONG)) > 30) is drafts
    folders = {path.parent for _, _, path in replies.replies(replies.kept_folder())}
    assert len(folders) == 3
    assert {folder.stat().st_mode & 0o77 for folder in (*folders, replies.kept_folder())} == {0}


def test_what_cannot_be_drafted_from_is_refused_before_anything_is_loaded(tmp_path):
    with pytest.raises(UsageError, match="there is no file or folder"):
        replace(LOADING, corpus=(tmp_path / "gone",))
    with pytest.raises(UsageError, match="omit one"):
        replace(LOADING, proposer="none", learn=True)
    with pytest.raises(UsageError, match="name files with --corpus"):
        registry.choose("corpus")
    assert registry.choose("ngram", corpus=True) == ("ngram", "corpus")
    assert registry.choose("auto", "mtp", corpus=True)[-2:] == ("corpus", "mtp")
