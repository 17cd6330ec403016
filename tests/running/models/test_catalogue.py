"""The catalogue: its strict schema, a user's own file, names and engines."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.base.errors import DoesNotFit, NotPulled, PullError, UnknownModel, UsageError
from localspec.running.models import catalogue, catalogue_file, engines
from localspec.running.models.catalogue import builtin, choose, entries
from localspec.running.models.catalogue_file import read
from localspec.running.models.engines import all_engines
from localspec.running.models.entry import Entry, Offer, Shape, Weights
from localspec.running.models.locate import ModelFiles, locate
from localspec.running.models.recommended import (
    ThoughtDefaults,
    recommended_by_name,
    thought_defaults,
)
from localspec.running.models.sources import Address, Hub, LocalFiles, Package, source
from localspec.running.pulling import resolve
from localspec.running.pulling.estimate import fitting, rough_plan
from localspec.running.pulling.listing import Remote
from localspec.running.pulling.pull_plan import PullPart
from tests.engines import GGUF_ENGINE, MLX_ENGINE
from tests.machines import GB, MACHINES, cpu

OFFER = Offer({"q8_0": Weights(Hub("a/b"), 10**9)})
BOTH = Entry("both", "about", "licence", {"gguf": OFFER, "mlx": OFFER})
GGUF = Entry("gguf", "about", "licence", {"gguf": OFFER})
APPLE, OTHERS = (MLX_ENGINE, GGUF_ENGINE), (GGUF_ENGINE, MLX_ENGINE)

GOOD = """\
[one]
about = "a model"
licence = "MIT"
context = 4096
good-at = ["chat"]
sampling = { temperature = 0.7, top-k = 20 }
shape = { layers = 2, kv-heads = 1, head = 64, vocabulary = 100 }

[one.gguf]
drafter = "model"
draft = "one:q4_0"

[one.gguf.weights]
q8_0 = { from = "hf:people/one", size = "1.5GB" }
q4_0 = { from = "hf:people/one:one-*.gguf", size = "800MB" }
"""


@pytest.fixture
def write(tmp_path):
    def written(text: str) -> Path:
        path = tmp_path / "models.toml"
        path.write_text(text)
        return path

    return written


def test_a_catalogue_is_read_as_it_is_meant(write):
    [entry] = read(write(GOOD)).values()
    weights = {
        "q8_0": Weights(Hub("people/one"), 1_500_000_000),
        "q4_0": Weights(Hub("people/one", "one-*.gguf"), 800_000_000),
    }
    assert entry == Entry(
        "one",
        "a model",
        "MIT",
        {"gguf": Offer(weights, "model", "one:q4_0")},
        context=4096,
        good_at=("chat",),
        sampling={"temperature": 0.7, "top-k": 20.0},
        shape=Shape(2, 1, 64, 100),
    )
    assert entry.shape.token_bytes == 2 * 2 * 2 * 64


FAULTS = [
    ('licence = "MIT"', 'license = "MIT"', 1, "lacks 'licence'"),
    ("context = 4096", "contxt = 4096", 4, "key 'contxt' is not known; did you mean 'context'?"),
    ("context = 4096", 'context = "4096"', 4, "key 'context' is '4096'; it must be of type int"),
    ("context = 4096", "context = true", 4, "must be of type int"),
    ("context = 4096", "context = -1", 4, "must not be negative"),
    ('["chat"]', "[1]", 5, "must be a list of words"),
    ("top-k = 20", "topk = 20", 6, "'topk' is not known; did you mean 'top-k'?"),
    ("head = 64, ", "", 7, "one.shape: lacks 'head'"),
    ('drafter = "model"', 'drafter = "magic"', 10, "is 'magic'; known: none, model"),
    ('draft = "one:q4_0"', "", 9, "is missing where the drafter is 'model'"),
    ('drafter = "model"', 'drafter = "none"', 11, "must be omitted where the drafter is 'none'"),
    ('draft = "one:q4_0"', 'draft = "one:q4_0"\ndraft-size = "1GB"', 12, "is of a head, and the"),
    ('draft = "one:q4_0"', 'draft = "one:q4_0"\nprojector = "x"', 12, "needs a projector-size"),
    (
        'draft = "one:q4_0"',
        'draft = "one:q4_0"\nprojector-size = "1GB"',
        12,
        "is of a projector, and",
    ),
    (
        "[one.gguf]",
        '[one.gguf]\nprojector = "hf:a"\nprojector-size = "1GB"',
        10,
        "'hf:a' is no source",
    ),
    ('size = "1.5GB"', 'size = "1.5"', 14, "is '1.5'; write it as 5.0GB or 98MB"),
    ("hf:people/one:one-*.gguf", "hf:people", 15, "'hf:people' is no source"),
    ("hf:people/one:one-*.gguf", "hf:a/b:../c.gguf", 15, "outside of its repository"),
    ("[one.gguf.weights]", "[one.gguf.wieghts]", 9, "has no weights"),
    ("[one.gguf]", "[one.gguff]", 1, "has weights for no engine|is not known"),
    ('about = "a model"', "about = 3", 2, "of type str"),
]


@pytest.mark.parametrize(("good", "bad", "line", "said"), FAULTS)
def test_what_is_wrong_is_named_with_its_line(write, good, bad, line, said):
    assert good in GOOD
    text = GOOD.replace(good, bad)
    if bad == "[one.gguff]":
        text = text.replace("[one.gguf.weights]", "[one.gguff.weights]")
    path = write(text)
    with pytest.raises(UsageError) as refused:
        read(path)
    assert re.search(said, str(refused.value)), refused.value
    assert f"{path}, line {line}:" in str(refused.value)


@pytest.mark.parametrize("name", ["Bad Name", "", "../up", "x" * 65])
def test_names_are_such_as_can_be_typed_and_stored(write, name):
    with pytest.raises(UsageError, match="is no name"):
        read(write(GOOD.replace("[one", f'["{name}"').replace("one:q4_0", "hf:a/b")))


def test_what_is_no_toml_at_all_is_told(write):
    with pytest.raises(UsageError, match="cannot be read: Expected"):
        read(write("[one"))
    with pytest.raises(UsageError, match="cannot be read: maximum recursion depth"):
        read(write("a = " + "[" * 100_000))


keys = st.sampled_from(
    ["about", "licence", "context", "gguf", "drafter", "weights", "from", "size", "sampling", "x"]
)
values = st.recursive(
    st.sampled_from(["", "a", "none", "hf:a/b", "5.0GB", -1, 0, 7, True, 0.5]),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=8,
)


@given(st.dictionaries(keys, values, max_size=5))
def test_whatever_a_table_holds_is_read_or_refused(table):
    reader = catalogue_file.CatalogueReader(Path("models.toml"), "")
    with suppress(UsageError):
        listed = reader.entry("one", table)
        assert set(table) <= set(Entry.__slots__) | set(listed.offers)
        assert listed.offers


def test_a_user_s_own_file_adds_and_overrides(monkeypatch, write):
    path = write(GOOD)
    monkeypatch.setattr(catalogue, "own", lambda: path)
    listed = entries()
    assert listed["one"].about == "a model"
    path.write_text(GOOD.replace("[one", "[smollm2-135m").replace("one:q4", "smollm2-135m:q4"))
    assert entries()["smollm2-135m"].licence == "MIT"
    path.write_text(GOOD.replace("one:q4_0", "two:q4_0"))
    with pytest.raises(UsageError, match="one drafts with two, which is not there as gguf"):
        entries()
    path.write_text(GOOD.replace("one:q4_0", "one:q3"))
    with pytest.raises(UsageError, match="one drafts with one:q3; one has: q8_0, q4_0"):
        entries()


def test_a_budget_for_thought_is_the_catalogues_where_nobody_chose(monkeypatch, write):
    budget = 'reasoning-budget = 2048\nreasoning-budget-message = " Enough."\ncontext'
    path = write(GOOD.replace("context", budget))
    monkeypatch.setattr(catalogue, "own", lambda: path)
    nothing, chosen = ThoughtDefaults(), ThoughtDefaults(0, "")
    assert thought_defaults("one:q4_0", nothing) == (2048, " Enough.")
    assert thought_defaults("one", chosen) == chosen
    assert thought_defaults("one", ThoughtDefaults(-1)) == (-1, " Enough.")
    assert thought_defaults("smollm2-135m", nothing) == nothing
    assert thought_defaults("other", nothing) == nothing


def test_a_model_may_name_its_samplers_in_their_order(monkeypatch, write):
    path = write(GOOD.replace("context", 'samplers = ["min-p", "temp"]\ncontext'))
    monkeypatch.setattr(catalogue, "own", lambda: path)
    sampling = recommended_by_name("one:q4_0")
    assert sampling.samplers == ("min_p", "temperature")
    assert (sampling.temperature, sampling.top_p, sampling.min_p) == (0.7, 1, 0)
    path.write_text(path.read_text().replace("min-p", "minpp"))
    with pytest.raises(UsageError, match="key 'samplers' has 'minpp'; known: penalties, dry, "):
        entries()


@pytest.mark.parametrize("machine", ["8 GB laptop", "32 GB box", "18 GB Mac", "64 GB Mac",
                                     "8 GB card", "two 24 GB cards"])  # fmt: skip
def test_every_pair_is_planned_on_every_machine(machine):
    place, fit = MACHINES[machine], 0
    for entry in entries().values():
        for engine in (each for each in all_engines() if each.spec.format in entry.offers):
            try:
                weights = fitting(entry, engine, "", place)
            except DoesNotFit:
                continue
            fit += 1
            plan = rough_plan(entry, engine, weights, place)
            assert all(plan.taken(pool) <= pool.available for pool in plan.pools)
    assert fit >= 8


def test_there_is_something_for_everybody():
    listed = entries()
    assert len(listed) >= 25
    assert sum("fill in the middle" in entry.good_at for entry in listed.values()) >= 3
    assert {offer.drafter for entry in listed.values() for offer in entry.offers.values()} >= {
        "model",
        "mtp",
        "mtp-inside",
        "none",
    }


def test_a_draft_model_is_small_enough_to_pay():
    """One of a third of the bytes brought nothing on two cores; on a card layers count as well."""
    checked = 0
    for entry in entries().values():
        for kind, offer in entry.offers.items():
            if offer.drafter == "model" and not offer.draft.startswith("hf:"):
                name, _, weights = offer.draft.partition(":")
                draft, target = entries()[name], next(iter(offer.weights.values()))
                read = draft.offers[kind].weights[weights].bytes
                assert read <= 0.3 * target.bytes * entry.active_share, (entry.name, kind)
                if draft.shape and entry.shape:
                    assert draft.shape.layers <= 0.9 * entry.shape.layers, (entry.name, kind)
                checked += 1
    assert checked >= 15


def test_nothing_unchecked_claims_a_sum_or_a_revision():
    tables = tomllib.loads(builtin().read_text(encoding="utf-8"))
    for entry in entries().values():
        if not entry.checked:
            text = str(tables[entry.name])
            assert "sha256" not in text
            assert "revision" not in text
            sources = [w.source for offer in entry.offers.values() for w in offer.weights.values()]
            assert all(isinstance(each, Hub) and not each.revision for each in sources)


def test_the_first_weights_that_fit_are_chosen():
    entry = entries()["llama-3.3-70b"]
    assert fitting(entry, GGUF_ENGINE, "", MACHINES["64 GB box"]) == "q4_k_m"
    assert fitting(entry, GGUF_ENGINE, "q3_k_m", MACHINES["8 GB laptop"]) == "q3_k_m"
    between = cpu(64 * GB).instead(38 * GB)
    assert fitting(entry, GGUF_ENGINE, "", between) == "q3_k_m"
    with pytest.raises(DoesNotFit, match="name the weights to pull it all the same"):
        fitting(entry, GGUF_ENGINE, "", MACHINES["8 GB laptop"])
    with pytest.raises(UsageError, match="has no q9; it has: q4_k_m, q3_k_m"):
        fitting(entry, GGUF_ENGINE, "q9", MACHINES["8 GB laptop"])


def test_sources_are_told_apart():
    assert source("hf:a/b") == Hub("a/b")
    assert source("hf:a/b@main:c*.gguf") == Hub("a/b", "c*.gguf", "main")
    assert source(f"https://x.org/m.gguf#sha256={'a' * 64}") == Address(
        "https://x.org/m.gguf", "a" * 64
    )
    assert source("package:mod/file.gguf") == Package("mod", "file.gguf")
    assert source("/models/m.gguf") == LocalFiles(Path("/models/m.gguf"))
    for text in ("hf:a", "hf:a/b/c", "https://x.org/m.gguf", "package:x", "hf:a/b:/etc/passwd", ""):
        with pytest.raises(UsageError):
            source(text)


@given(st.sampled_from(("", "hf:a/", "hf:a/b:", "hf:a/b@", "package:", "https://a.b/")), st.text())
def test_whatever_is_written_is_a_source_or_refused(begun, text):
    try:
        parsed = source(begun + text)
    except (UsageError, ValueError):  # the latter: a path with a zero
        return
    if not isinstance(parsed, LocalFiles):
        assert source(str(parsed)) == parsed


def test_a_file_and_a_folder_decide_for_themselves(tmp_path):
    file = tmp_path / "model.gguf"
    file.touch()
    assert locate(str(file)) == locate(str(file), "llamacpp") == ModelFiles(GGUF_ENGINE, file)
    folder = ModelFiles(MLX_ENGINE, tmp_path)
    assert locate(str(tmp_path), "mlx") == folder  # which will say why not
    with pytest.raises(UsageError, match=r"a model is one file in it: model\.gguf"):
        locate(str(tmp_path), "llamacpp")
    file.rename(tmp_path / "model.safetensors")
    (tmp_path / "config.json").touch()
    assert locate(str(tmp_path)) == locate(str(tmp_path), "mlx") == folder
    with pytest.raises(UsageError, match="GGUF file"):
        locate(str(tmp_path), "llamacpp")
    file.touch()
    with pytest.raises(UsageError, match="MLX folder"):
        locate(str(file), "mlx")


def test_a_name_runs_on_mlx_where_it_was_made_for_and_the_model_is_there_for_it(monkeypatch):
    assert {*all_engines()} == {*APPLE}
    monkeypatch.setattr(engines, "all_engines", lambda: APPLE)
    assert (choose(BOTH, "auto"), choose(GGUF, "auto")) == APPLE
    monkeypatch.setattr(engines, "all_engines", lambda: OTHERS)
    assert choose(BOTH, "auto") == GGUF_ENGINE


def test_a_wish_for_an_engine_is_granted_or_refused():
    assert (choose(BOTH, "mlx"), choose(BOTH, "llamacpp")) == APPLE
    with pytest.raises(UsageError, match="gguf is not listed as an MLX folder"):
        choose(GGUF, "mlx")


def test_an_unknown_name_suggests_one_that_is_near():
    with pytest.raises(UnknownModel, match=r"did you mean smollm2-135m or smolvlm2-500m\?"):
        locate("smollm-135m")
    with pytest.raises(UnknownModel, match="no file"):
        locate("nowhere/model.gguf")
    with pytest.raises(UnknownModel, match="`localspec list` shows them"):
        locate("zzzzzz")


def test_what_is_not_here_comes_with_the_command_that_gets_it():
    with pytest.raises(NotPulled, match="not here yet: localspec pull qwen3-8b:q8_0"):
        locate("qwen3-8b:q8_0")
    with pytest.raises(UsageError, match="qwen3-8b has no q1; it has: q4_k_m, q8_0"):
        locate("qwen3-8b:q1")


def test_the_docs_list_the_catalogue_as_it_is():
    from catalogue import table

    page = table.PAGE.read_text(encoding="utf-8")
    assert table.replaced(page) == page, "run `python -m catalogue.table` in scripts/"


def test_what_was_checked_is_written_where_it_belongs():
    from catalogue import check

    part = PullPart(
        Hub("people/one", revision="c0ffee"),
        None,
        (Remote("one.gguf", 10**9, "ab" * 32, True),),
    )
    [entry] = [
        catalogue_file.CatalogueReader(Path("x"), GOOD).entry("one", tomllib.loads(GOOD)["one"])
    ]
    weights = entry.offers["gguf"].weights["q8_0"]
    unchecked = GOOD.replace('licence = "MIT"', 'licence = "MIT"\nchecked = false')
    text = check.enter_weights(unchecked, "q8_0", weights, part)
    text = check.mark_checked(text, "one")
    listed = catalogue_file.CatalogueReader(Path("x"), text).entry(
        "one", tomllib.loads(text)["one"]
    )
    assert listed.checked
    assert listed.offers["gguf"].weights["q8_0"] == Weights(part.source, 10**9, sums=("ab" * 32,))
    assert listed.offers["gguf"].weights["q4_0"] == entry.offers["gguf"].weights["q4_0"]


def test_a_draft_model_is_planned_for_unless_one_goes_without():
    entry, place = entries()["qwen3-8b"], MACHINES["64 GB box"]
    whole = rough_plan(entry, GGUF_ENGINE, "q4_k_m", place)
    alone = rough_plan(entry, GGUF_ENGINE, "q4_k_m", place, alone=True)
    assert [item.what for item in whole.items] == ["weights", "context", "draft model", "buffers"]
    assert [item.what for item in alone.items] == ["weights", "context", "buffers"]


def test_a_head_of_a_known_size_is_planned_for_unless_one_goes_without():
    entry, place = entries()["qwen3-8b"], MACHINES["64 GB box"]
    headed = replace(entry.offers["gguf"], drafter="eagle3", draft="hf:a/b", draft_bytes=10**9)
    entry = replace(entry, offers={"gguf": headed})
    whole = rough_plan(entry, GGUF_ENGINE, "q4_k_m", place)
    alone = rough_plan(entry, GGUF_ENGINE, "q4_k_m", place, alone=True)
    taken = {item.what: item.bytes for item in whole.items}
    assert taken["drafting head"] == 10**9
    assert "drafting head" not in {item.what for item in alone.items}


def test_a_block_that_drafts_inside_has_keys_and_values_too():
    entry, place = entries()["qwen3-8b"], MACHINES["64 GB box"]
    inside = replace(entry.offers["gguf"], drafter="mtp-inside", draft="")
    whole = rough_plan(replace(entry, offers={"gguf": inside}), GGUF_ENGINE, "q4_k_m", place)
    alone = rough_plan(entry, GGUF_ENGINE, "q4_k_m", place, alone=True)
    kept = [
        next(item.bytes for item in plan.items if item.what == "context") for plan in (whole, alone)
    ]
    assert kept[0] * entry.shape.layers == kept[1] * (entry.shape.layers + 1)


def test_what_differs_from_what_was_checked_is_refused(monkeypatch):
    file = Remote("one.gguf", 10, "ab" * 32, True)
    monkeypatch.setattr(resolve, "part", lambda *_: PullPart(Hub("people/one"), None, (file,)))
    checked = Weights(Hub("people/one"), 10, sums=("ab" * 32,))
    assert resolve.listed_part(checked, GGUF_ENGINE, "q8_0").files == (file,)
    with pytest.raises(PullError, match="is not what was checked for the catalogue"):
        resolve.listed_part(replace(checked, sums=("cd" * 32,)), GGUF_ENGINE, "q8_0")
