"""Advice at load about what cannot bring what it is meant to."""

from __future__ import annotations

from dataclasses import replace

from localspec import load
from localspec.console.questions.interactive_load import report_concessions
from localspec.interfaces.backend import Options
from localspec.interfaces.costs import Costs
from localspec.running.memory.planner import Limits
from localspec.running.runtime.draft_price import estimate_price, token_bytes, warn_of_price
from localspec.running.runtime.loaded_pair import advice as pair_advice
from localspec.running.runtime.loaded_pair import resolve_and_load, uneven_weights
from localspec.running.runtime.loading import Loading
from localspec.running.runtime.pair_files import PairFiles
from localspec_llamacpp.headers.metadata import Tensor
from localspec_llamacpp.headers.rounding import uneven
from localspec_llamacpp.loading import inspect
from tests import engines


def loading(**options):
    return Loading(Options(threads=1, context=512, gpu_layers=0, **options))


def advice(draft=None, draft_cost=0.001, **options):
    """Load with costs that are kept, however busy this machine is: 10 ms for a plain token."""
    files = PairFiles.locate(engines.tiny("llama"), draft, "auto")
    with resolve_and_load(files, loading(**options).options, Limits()) as pair:
        costs = Costs({1: 0.01, 9: 0.02}, {"draft-model": {1: draft_cost, 4: 4 * draft_cost}})
        return list(pair_advice(pair, costs))


def tensors(*kinds, output=True):
    names = ["token_embd.weight", *(f"blk.{at}.weight" for at in range(len(kinds)))]
    names += ["output.weight"] if output else []
    kinds = ["F16", *kinds, *(["Q8_0"] if output else [])]
    tensors = [Tensor(name, (8, 8), kind, 64, 0) for name, kind in zip(names, kinds, strict=True)]
    return [*tensors, Tensor("blk.0.attn_norm.weight", (8,), "F32", 32, 0)]


def test_bit_exact_says_at_load_which_weights_keep_texts_from_being_equal(capsys):
    without = {"bit_exact": True, "products": "llama.cpp"}
    [advised] = advice(**without)
    assert advised.startswith(
        "--bit-exact: texts may still differ at near-ties, since 22 tensors in"
    )
    assert advice() == []
    with load(engines.tiny("llama"), loading=loading(**without)) as runtime:
        report_concessions(runtime.facts)
    assert capsys.readouterr().err == f"localspec: {advised}\n"


def test_bit_exact_has_nothing_to_say_where_products_round_all_weights_alike():
    with load(engines.tiny("llama"), loading=loading(bit_exact=True)) as runtime:
        target, plan = runtime.facts.target, runtime.facts.plan
    even, odd = (replace(target.footprint, even=each) for each in (True, False))
    assert uneven_weights(even, plan.options) == ""
    for change in ({"products": "llama.cpp"}, {"mmap": True}):
        assert uneven_weights(even, replace(plan.options, **change))
    assert uneven_weights(odd, plan.options)
    assert uneven_weights(even, replace(plan.options, bit_exact=False)) == ""


def test_weights_that_round_by_the_width_of_a_batch_are_counted_by_type():
    assert uneven(tensors("Q4_0", "Q8_0", "Q5_1", "Q4_K", "Q6_K")) == ""
    assert uneven(tensors("F16", "BF16", "F16")) == "2 tensors in F16, 1 tensor in BF16"


def test_embeddings_count_where_they_are_the_output_as_well():
    assert uneven(tensors("Q8_0", output=False)) == "1 tensor in F16"


def test_a_draft_model_that_costs_as_much_as_the_model_is_named_at_load():
    [sentence] = advice(draft=engines.tiny("llama", seed=3), draft_cost=0.0093)
    assert sentence == (
        "a token of the draft model takes 0.93 of the time of a plain one (measured here): such "
        "drafts cannot pay here; --draft none does without"
    )
    [sentence] = advice(draft=engines.tiny("llama", seed=3), draft_cost=0.006)
    assert "takes 0.60 of" in sentence
    assert "pay only where most of them are right" in sentence
    assert advice(draft=engines.tiny("llama", seed=3), draft_cost=0.004) == []


def test_what_was_not_measured_is_estimated_by_bytes_and_on_a_card_by_layers():
    small, large = (replace(inspect(engines.tiny("llama")), read_bytes=size * 10**6, layers=layers)
                    for size, layers in ((400, 24), (1000, 28)))  # fmt: skip
    assert estimate_price(small, large, on_host=True) == 0.4
    assert round(estimate_price(small, large, on_host=False), 2) == 0.62
    assert warn_of_price(small, large, None, on_host=True) == ""
    assert "0.62 of the time of a plain one (estimated" in warn_of_price(
        small, large, Costs(), on_host=False
    )


def test_of_experts_only_the_active_ones_are_read_for_a_token():
    footprint = inspect(engines.tiny("llama"))
    assert token_bytes(footprint) == footprint.read_bytes < footprint.weight_bytes
    mixture = replace(footprint, read_bytes=0, weight_bytes=800, experts=8, active_experts=2)
    assert token_bytes(mixture) == 200
    assert token_bytes(replace(mixture, experts=0)) == 800
