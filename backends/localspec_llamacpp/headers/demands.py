"""What single architectures demand of their numbers, as a table of what llama.cpp asserts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from localspec_llamacpp.headers.hyperparameters import Hyperparameters
from localspec_llamacpp.headers.layers import Layers, own_cache_layers


@dataclass(frozen=True, slots=True)
class Case:
    """One number under question, and what it may have to agree with."""

    value: int
    params: Hyperparameters
    layers: Layers

    def number(self, key: str, default: int = 0) -> int:
        return self.params.number(key, default)

    def divides(self, key: str) -> bool:
        return self.value > 0 and self.number(key) % self.value == 0


@dataclass(frozen=True, slots=True)
class Demand:
    architectures: str
    key: str
    wanted: str
    holds: Callable[[Case], bool]
    default: int = 0


MAMBA2 = "falcon-h1 granitehybrid mamba2 nemotron_h nemotron_h_moe"
DELTA = "qwen35 qwen35moe qwen3next qwen4exp"
RANK, STATE, INNER = "ssm.time_step_rank", "ssm.state_size", "ssm.inner_size"
WIDTH = "embedding_length"
KV_HEADS = "attention.head_count_kv"
AT_LEAST_1 = "it must be at least 1"


def positive(case: Case) -> bool:
    return 0 < case.value < 1 << 31


def stacked(case: Case) -> bool:
    cycles = case.number("hrm.h_cycles") * (case.number("hrm.l_cycles") + 1)
    return case.value > 0 and case.value * cycles == case.layers.count


def rotates_indexer(case: Case) -> bool:
    return case.value >= case.number("rope.dimension_count", case.layers.key)


def reuses_alike(case: Case) -> bool:
    """Layers without a cache read the last windowed, or the last full, one that has it."""
    first, windowed = own_cache_layers(case.params, case.value), case.layers.windowed
    later = set(windowed[first:])
    if first < 2 or not later:
        return first >= 2
    return windowed[first - 2] >= (True in later) and windowed[first - 1] <= (False not in later)


DEMANDS = (
    Demand(MAMBA2, RANK, f"it must divide {INNER}", lambda case: case.divides(INNER)),
    Demand(MAMBA2, "ssm.group_count", f"it must divide {RANK}", lambda case: case.divides(RANK)),
    Demand("plamo2", RANK, f"it must divide {INNER}", lambda case: case.divides(INNER)),
    Demand("plamo2", "ssm.group_count", "it must be 0", lambda case: case.value == 0),
    Demand(
        "granitehybrid jamba",
        INNER,
        f"it must be twice {WIDTH}",
        lambda case: case.value == 2 * case.number(WIDTH),
    ),
    Demand(DELTA, "ssm.group_count", f"it must divide {RANK}", lambda case: case.divides(RANK)),
    Demand(
        DELTA,
        INNER,
        f"it must be {RANK} times {STATE}",
        lambda case: case.value == case.number(RANK) * case.number(STATE),
    ),
    Demand("rwkv6 rwkv7", "token_shift_count", "it must be 2", lambda case: case.value == 2, 2),
    Demand(
        "arwkv7 rwkv6qwen2", "token_shift_count", "it must be 1", lambda case: case.value == 1, 2
    ),
    Demand(
        "arwkv7 rwkv6 rwkv6qwen2 rwkv7",
        "wkv.head_size",
        f"it must divide {WIDTH}",
        lambda case: case.divides(WIDTH),
    ),
    Demand(
        "rwkv6",
        KV_HEADS,
        f"it must be 0 or {WIDTH} / wkv.head_size",
        lambda case: (
            case.layers.kv_heads[0] in (0, case.number(WIDTH) // case.number("wkv.head_size"))
        ),
    ),
    Demand(
        "deepseek4 dots1 minicpm3 olmoe",
        KV_HEADS,
        "it must be 1 in deepseek4 and attention.head_count elsewhere",
        lambda case: (
            case.layers.kv_heads[0]
            == (1 if case.params.architecture == "deepseek4" else case.layers.heads[0])
        ),
    ),
    Demand(
        "deci",
        "block_count",
        "the last of them needs a feed_forward_length",
        lambda case: case.params.per_layer("feed_forward_length", case.value)[-1] > 0,
    ),
    Demand("llama4", "block_count", "4 or more are needed", lambda case: case.layers.count >= 4),
    Demand(
        "llama4 nemotron_h nemotron_h_moe",
        "nextn_predict_layers",
        "it must be less than block_count",
        lambda case: case.value < case.number("block_count"),
    ),
    Demand("gemma3n gemma4", "block_count", "those that share a cache find none", reuses_alike),
    Demand("hrm_text", "hrm.h_cycles", AT_LEAST_1, positive),
    Demand("hrm_text", "hrm.l_cycles", AT_LEAST_1, positive),
    Demand("hrm_text", "hrm.layers_per_stack", "its cycles must make up block_count", stacked),
    Demand(
        "qwen3vl qwen3vlmoe",
        "n_deepstack_layers",
        "it must be less than block_count",
        lambda case: case.value < case.layers.count,
    ),
    Demand(
        "grovemoe",
        "experts_per_group",
        "it must divide expert_count",
        lambda case: case.divides("expert_count"),
    ),
    Demand("minimax-m3", "attention.indexer.block_size", AT_LEAST_1, positive),
    Demand(
        "minimax-m3",
        "attention.indexer.head_count",
        "it must equal attention.head_count_kv",
        lambda case: case.value == case.layers.kv_heads[0],
    ),
    Demand(
        "minimax-m3",
        "leading_dense_block_count",
        "it must be less than block_count",
        lambda case: case.value < case.layers.count,
    ),
    Demand(
        "deepseek32 deepseek4 dots3note glm-dsa minimax-m3 qwen4exp",
        "attention.indexer.key_length",
        "it must not be less than rope.dimension_count",
        rotates_indexer,
    ),
    Demand(
        "deepseek4 glm5-next",
        "hyper_connection.count",
        "it must be 4",
        lambda case: case.value == 4,
    ),
    Demand("deepseek4 glm5-next", "hyper_connection.sinkhorn_iterations", AT_LEAST_1, positive),
    Demand(
        "deepseek4",
        "hyper_connection.count",
        "attention.compress_ratios must not all be 0",
        lambda case: any(case.params.listed("attention.compress_ratios") or ()),
    ),
    Demand(
        "deepseek4",
        "attention.output_group_count",
        "it must divide attention.head_count",
        lambda case: case.divides("attention.head_count"),
    ),
    Demand(
        "glm5-next",
        "attention.indexer.kpool",
        "it must be at least 2 and divide attention.indexer.top_k",
        lambda case: case.value > 1 and case.divides("attention.indexer.top_k"),
    ),
    Demand(
        "bailingmoe3",
        "kda.head_dim",
        "kda.safe_gate must be set and kda.gate_lower_bound negative",
        lambda case: (
            case.params.flag("kda.safe_gate", True)
            and float("-inf") < (case.params.real("kda.gate_lower_bound") or 0) < 0
        ),
    ),
)


def check_demands(params: Hyperparameters, layers: Layers) -> None:
    for demand in DEMANDS:
        if params.architecture in demand.architectures.split():
            value = params.number(demand.key, demand.default)
            holds = demand.holds(Case(value, params, layers))
            params.require(holds, demand.key, value, demand.wanted)
