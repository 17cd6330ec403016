"""Who drafts where nobody is named: what `bench` measured, as long as it holds."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from localspec import load
from localspec.apps.commands.forget import forget
from localspec.interfaces.backend import Options
from localspec.running.runtime.drafter_choice import pair_files, remember_fastest
from localspec.running.runtime.loading import Loading
from localspec.running.runtime.pair_files import PairFiles
from tests import engines

LOADING = Loading(Options(threads=1, context=512, gpu_layers=0))


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A model and its drafter, which was measured to be fastest."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    draft = tmp_path / "draft.gguf"
    shutil.copy(engines.tiny("llama", seed=3), draft)
    pair = PairFiles.locate(engines.tiny("llama"), draft, "auto")
    assert remember_fastest(pair, "small", 1.31, LOADING)
    return pair


def choose(files, draft=None, loading=LOADING):
    return pair_files(files.target, draft, loading).draft


def test_a_measured_drafter_drafts_where_none_is_named_and_that_is_said(files):
    with load(files.target.path, loading=LOADING) as runtime:
        assert runtime.facts.pairing is not None
        first = runtime.facts.advice[0]
    assert first.startswith("drafts by small: measured 1.31 of plain on this machine on 20")
    assert first.endswith("; --draft to choose, `localspec forget` to undo")


def test_what_the_user_chooses_comes_first(files):
    other = engines.tiny("llama", seed=4)
    assert choose(files, other).path == other
    assert choose(files, "none") is None
    for chosen in (replace(LOADING, proposer="suffix"), replace(LOADING, depth=2)):
        assert choose(files, loading=chosen) is None
    assert choose(files).path == files.draft.path


def test_no_draft_model_may_be_the_measured_choice(files, tmp_path):
    pulled = replace(files.target, draft=tmp_path / "draft.gguf")
    remember_fastest(PairFiles(pulled), "none", 1.1, LOADING)
    pair = pair_files(pulled, None, LOADING)
    assert pair.draft is None
    assert pair.reason.startswith("drafts without a draft model: measured 1.10")


def test_a_choice_ends_with_the_files_and_the_ways_that_were_measured(files):
    more = replace(LOADING, options=replace(LOADING.options, threads=2))
    assert choose(files, loading=more) is None
    trained = replace(files.target, draft=engines.tiny("llama", seed=5))
    assert pair_files(trained, None, LOADING).draft.path == trained.draft
    shutil.copy(engines.tiny("llama", seed=6), files.draft.path)
    assert choose(files) is None
    files.draft.path.unlink()
    assert choose(files) is None


def test_other_slots_and_contexts_are_no_other_way(files):
    options = replace(LOADING.options, slots=4, context=1024)
    assert choose(files, loading=replace(LOADING, options=options)).path == files.draft.path


def test_a_choice_ends_with_the_engine_of_another_version(files, monkeypatch):
    versions = type(files.target.engine).versions
    monkeypatch.setattr(type(files.target.engine), "versions", lambda e: [*versions(e), "llama 9"])
    assert choose(files) is None


def test_a_choice_is_forgotten_by_its_command(files, capsys):
    forget.callback()
    assert capsys.readouterr().out == "removed who drafts for 1 model\n"
    assert choose(files) is None
    forget.callback()
    assert capsys.readouterr().out == "there was nothing to remove\n"
