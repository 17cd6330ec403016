"""Each cell of the table in docs/heads.md: all that a head of any kind does beside drafting."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from localspec.core.proposers.head import HeadProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.formats.grammar.grammar import Grammar
from tests import engines
from tests.runs import TEXTS, Want, replies, said

NAMES = [name for name in engines.HEADS if "soft" not in name]
GGUF = [name for name in NAMES if name not in engines.MLX_HEADS]
LIST = '{"type": "array", "items": {"type": "integer"}}'
WISHES = {
    "grammar": {"grammar": Grammar("json_schema", LIST)},
    "tools": {"grammar": Grammar("lark", 'start: "<call>" /[a-d]{3,9}/ "</call>"')},
    "penalties": {"sampling": Sampling(repetition=1.3, presence=0.5)},
    "logprobs": {"logprobs": 3},
    "banned strings": {"banned_strings": ("e", "ad", " re")},
    "sampled": {"logprobs": 2, "sampled_logprobs": True, "sampling": Sampling(top_k=5)},
    "seeded dice": {"sampling": Sampling(temperature=0.8, top_k=9), "logprobs": 2},
}


def alike(model, wants):
    """Run requests plain and with a head at once; require that they say the same."""
    plain = replies(model, Silent(), wants)
    fast = replies(model, HeadProposer(model.head, floor=0.0), wants)
    exact = [at for at, want in enumerate(wants) if not want.settings.sampling.temperature]
    assert said([fast[at] for at in exact]) == said([plain[at] for at in exact])
    assert all(each.speculation.drafted for each in fast if each.usage.completion_tokens > 2)
    return plain, fast


@pytest.mark.parametrize(
    ("name", "slots"),
    [
        *((name, 3) for name in GGUF),
        *((name, 8) for name in engines.MLX_HEADS),
        *(pytest.param(name, 3, marks=pytest.mark.long) for name in engines.MLX_HEADS),
    ],
)
def test_requests_of_every_kind_share_rounds_with_a_head(name, slots):
    """A schema, tools, penalties, logprobs and dice at once, which mlx-vlm refuses or mixes up."""
    with closing(engines.target(name, slots=slots)) as model:
        prompt = model.tokenizer.encode("def add(a, b)").tolist()
        wishes = [*WISHES.values(), *({"max_tokens": 3 + 8 * at} for at in range(3))]
        settings = [
            Settings(**{"max_tokens": 12, **wish}, seed=at) for at, wish in enumerate(wishes)
        ]
        wants = [Want([*prompt * (1 + at % 4), 300 + at], each) for at, each in enumerate(settings)]
        found = alike(model, wants)
        at = list(WISHES).index("logprobs")
        plain, fast = ([each.logprob for each in results[at].logprobs] for results in found)
        assert plain == pytest.approx(fast, abs=0.02)


def texts(model, count):
    settings = Settings(max_tokens=32, ignore_end=True)
    prompts = [model.tokenizer.encode(text).tolist() for text in TEXTS[:count]]
    return [Want(prompt, settings) for prompt in prompts]


@pytest.mark.parametrize("name", GGUF)
def test_heads_of_llama_cpp_draft_over_quantised_keys_and_values(name):
    with closing(engines.target(name, kv_type="q8_0")) as model:
        alike(model, texts(model, 1))


@pytest.mark.skipif(not engines.MLX, reason="there is no MLX here")
@pytest.mark.parametrize("kind", ["eagle", "eagle3", "mlp_speculator"])
def test_heads_on_mlx_draft_for_hybrids(kind, tmp_path):
    """The others are tested with one throughout."""
    from localspec_mlx import backend as mlx
    from tests import tiny_mlx

    head = tiny_mlx.write_with_head(tmp_path / "made", "qwen3_5", kind)
    options = replace(engines.OPTIONS, slots=3, threads=None, head=head)
    with closing(mlx.load(tmp_path / "made", options)) as model:
        alike(model, texts(model, 4))
