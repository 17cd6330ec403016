"""Tiny random models as GGUF files, one for each kind of memory an engine has to truncate.

The weights are random but not arbitrary. What came before counts for so much that a token too many
or too few in a cache shows in the logits, and texts do not soon fall into loops. And the first
layer is exact whatever the order of its sums, since embeddings are of plus and minus one and
weights are rounded. Logits deviate by 4 and, without flash attention, were seen to move by 0.006 at
most with the batches; flash attention accumulates in half precision, and moves them by up to 0.05.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from gguf import GGUFReader, GGUFWriter

from tests.tiny_vocabulary import (
    BEGIN,
    CHAT_TEMPLATE,
    END,
    Layout,
    Vocabulary,
    every_text,
    is_readable,
    is_written,
    vocabulary,
)

CONTEXT = 4096
WIDTH = 64
HEADS = 2
HEAD_WIDTH = WIDTH // HEADS
FEED_FORWARD = 96
WINDOW = 16  # tokens that gemma3's windowed layers look back on
CONVOLUTION = 4  # tokens that a convolution of qwen35 or mamba2 spans
DELTA_KEYS, DELTA_VALUES, DELTA_STATE = 2, 4, 16  # qwen35: heads, and the width of a square state
EXPERTS = 2  # of glm4moe's head
SCAN_WIDTH, SCAN_HEADS, SCAN_STATE = 2 * WIDTH, 4, 128  # mamba2

FOCUS = 2.5  # standard deviation of attention scores; at 1 the past is averaged away

# What attention adds to the residual stream. A cache in half precision amplifies rounding, so
# layers with inexact inputs speak softly: with 2.0 in all, batch widths differ by 1e-2 in logits.
FIRST, LATER = 2.0, 0.3

Array = npt.NDArray[np.float32]


class Weights:
    """Draws tensors and adds them to a file."""

    def __init__(self, writer: GGUFWriter, seed: int) -> None:
        self._writer = writer
        self._random = np.random.default_rng(seed)

    def normal(self, *shape: int) -> Array:
        return self._random.standard_normal(shape, dtype=np.float32)

    def uniform(self, low: float, high: float, *shape: int) -> Array:
        return self._random.uniform(low, high, shape).astype(np.float32)

    def add(self, name: str, values: npt.ArrayLike) -> None:
        self._writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))

    def matrix(self, name: str, inputs: int, outputs: int, gain: float = 1.0) -> None:
        values = self.normal(outputs, inputs) * (gain * inputs**-0.5)
        self.add(f"{name}.weight", np.round(values * 64) / 64)

    def norm(self, name: str, width: int = WIDTH, gain: float = 1.0) -> None:
        self.add(f"{name}.weight", gain * np.round(self.uniform(0.8, 1.2, width) * 16) / 16)


Block = Callable[[Weights, str], None]


def feed_forward(weights: Weights, block: str, gain: float = 1.0) -> None:
    weights.matrix(f"{block}.ffn_gate", WIDTH, FEED_FORWARD)
    weights.matrix(f"{block}.ffn_up", WIDTH, FEED_FORWARD)
    weights.matrix(f"{block}.ffn_down", FEED_FORWARD, WIDTH, gain)


def _attention(weights: Weights, block: str, gain: float, query_width: int = WIDTH) -> None:
    weights.norm(f"{block}.attn_norm")
    weights.matrix(f"{block}.attn_q", WIDTH, query_width)
    weights.matrix(f"{block}.attn_k", WIDTH, HEAD_WIDTH, FOCUS)
    weights.matrix(f"{block}.attn_v", WIDTH, HEAD_WIDTH)
    weights.matrix(f"{block}.attn_output", WIDTH, WIDTH, gain)


def _query_and_key_norms(weights: Weights, block: str) -> None:
    weights.norm(f"{block}.attn_q_norm", HEAD_WIDTH)
    weights.norm(f"{block}.attn_k_norm", HEAD_WIDTH, FOCUS)


def _llama(weights: Weights, block: str, gain: float) -> None:
    _attention(weights, block, gain)
    weights.norm(f"{block}.ffn_norm")
    feed_forward(weights, block)


def _llama_soft(weights: Weights, block: str, gain: float) -> None:
    _attention(weights, block, gain)
    weights.norm(f"{block}.ffn_norm")
    feed_forward(weights, block, gain)


def _qwen3(weights: Weights, block: str, gain: float) -> None:
    _llama(weights, block, gain)
    _query_and_key_norms(weights, block)


def _mimo2_head(weights: Weights, block: str, gain: float) -> None:
    """Attend with one matrix for queries, keys and values: the only layout the head may have."""
    weights.norm(f"{block}.attn_norm")
    rows = [
        np.round(weights.normal(HEAD_WIDTH, WIDTH) * scale * WIDTH**-0.5 * 64) / 64
        for scale in (*[1.0] * HEADS, FOCUS, 1.0)
    ]
    weights.add(f"{block}.attn_qkv.weight", np.concatenate(rows))
    weights.matrix(f"{block}.attn_output", WIDTH, WIDTH, gain)
    weights.norm(f"{block}.ffn_norm")
    feed_forward(weights, block)


def _gemma3(weights: Weights, block: str, gain: float) -> None:
    _qwen3(weights, block, gain=1.0)
    weights.norm(f"{block}.post_attention_norm", gain=gain)
    weights.norm(f"{block}.post_ffw_norm", gain=0.5)


def _qwen35_attention(weights: Weights, block: str) -> None:
    _attention(weights, block, gain=1.0, query_width=2 * WIDTH)  # half of it gates the values
    _query_and_key_norms(weights, block)
    weights.norm(f"{block}.post_attention_norm")
    feed_forward(weights, block)


def _qwen35_delta(weights: Weights, block: str) -> None:
    values = DELTA_VALUES * DELTA_STATE
    mixed = 2 * DELTA_KEYS * DELTA_STATE + values
    weights.norm(f"{block}.attn_norm")
    weights.matrix(f"{block}.attn_qkv", WIDTH, mixed)
    weights.matrix(f"{block}.attn_gate", WIDTH, values)
    weights.matrix(f"{block}.ssm_conv1d", CONVOLUTION, mixed)
    weights.matrix(f"{block}.ssm_alpha", WIDTH, DELTA_VALUES)
    weights.matrix(f"{block}.ssm_beta", WIDTH, DELTA_VALUES)
    weights.add(f"{block}.ssm_a", -weights.uniform(0.002, 0.05, DELTA_VALUES))
    weights.add(f"{block}.ssm_dt.bias", weights.uniform(-1.0, 0.0, DELTA_VALUES))
    weights.norm(f"{block}.ssm_norm", DELTA_STATE)
    weights.matrix(f"{block}.ssm_out", values, WIDTH)
    weights.norm(f"{block}.post_attention_norm")
    feed_forward(weights, block)


def _mamba2(weights: Weights, block: str) -> None:
    mixed = SCAN_WIDTH + 2 * SCAN_STATE
    weights.norm(f"{block}.attn_norm")
    weights.matrix(f"{block}.ssm_in", WIDTH, SCAN_WIDTH + mixed + SCAN_HEADS)
    weights.matrix(f"{block}.ssm_conv1d", CONVOLUTION, mixed, gain=0.5)
    weights.add(f"{block}.ssm_conv1d.bias", 0.1 * weights.normal(mixed))
    weights.add(f"{block}.ssm_dt.bias", weights.uniform(-1.0, 0.0, SCAN_HEADS))
    weights.add(f"{block}.ssm_a", -weights.uniform(0.002, 0.05, SCAN_HEADS, 1))
    weights.add(f"{block}.ssm_d", weights.uniform(0.0, 0.2, SCAN_HEADS, 1))
    weights.add(f"{block}.ssm_norm.weight", weights.uniform(0.8, 1.2, 1, SCAN_WIDTH))
    weights.matrix(f"{block}.ssm_out", SCAN_WIDTH, WIDTH, gain=2.0)


def _lfm2_convolution(weights: Weights, block: str) -> None:
    weights.norm(f"{block}.attn_norm")
    weights.matrix(f"{block}.shortconv.in_proj", WIDTH, 3 * WIDTH)
    weights.matrix(f"{block}.shortconv.conv", 3, WIDTH)
    weights.matrix(f"{block}.shortconv.out_proj", WIDTH, WIDTH)
    weights.norm(f"{block}.ffn_norm")
    feed_forward(weights, block)


def _glm4moe(weights: Weights, block: str, gain: float) -> None:
    _attention(weights, block, gain)
    weights.norm(f"{block}.post_attention_norm")
    feed_forward(weights, block, gain)


def _glm4moe_head(weights: Weights, block: str, gain: float) -> None:
    """The head of a mixture of experts has experts, too."""
    _attention(weights, block, gain)
    weights.norm(f"{block}.post_attention_norm")
    weights.matrix(f"{block}.ffn_gate_inp", WIDTH, EXPERTS)
    weights.add(f"{block}.exp_probs_b.bias", np.zeros(EXPERTS))
    for name, inputs, outputs in (
        ("gate", WIDTH, FEED_FORWARD),
        ("up", WIDTH, FEED_FORWARD),
        ("down", FEED_FORWARD, WIDTH),
    ):
        values = weights.normal(EXPERTS, outputs, inputs) * (gain * inputs**-0.5)
        weights.add(f"{block}.ffn_{name}_exps.weight", values)


def _drafts(block: Block, hidden: float = 0.5) -> Block:
    """Add what makes a block a drafting head: it reads an embedding, and so much of a state."""

    def write(weights: Weights, name: str) -> None:
        block(weights, name)
        mixed = np.concatenate([np.eye(WIDTH), hidden * weights.normal(WIDTH, WIDTH)], axis=1)
        weights.add(f"{name}.nextn.eh_proj.weight", mixed)
        for norm in ("enorm", "hnorm"):
            weights.norm(f"{name}.nextn.{norm}")

    return write


def _with_gain(block: Callable[[Weights, str, float], None], gain: float) -> Block:
    return lambda weights, name: block(weights, name, gain)


def _eagle3(weights: Weights, block: str) -> None:
    """Attend to the same token, which is the newest at least, and pass its embedding on."""
    embedding, nothing = np.eye(WIDTH), np.zeros((WIDTH, WIDTH))
    looking = 1.5 * weights.normal(WIDTH, WIDTH) * WIDTH**-0.5
    for name in ("q", "k"):
        weights.add(f"{block}.attn_{name}.weight", np.concatenate((looking, nothing), axis=1))
    weights.add(f"{block}.attn_v.weight", np.concatenate((embedding, nothing), axis=1))
    weights.add(f"{block}.attn_output.weight", embedding)
    for name in ("attn_norm", "attn_norm_2", "ffn_norm"):
        weights.norm(f"{block}.{name}")
    feed_forward(weights, block, 0.1)


def _dflash2(weights: Weights, block: str) -> None:
    """Mix each token of a block with those before it, on both sides of attention and layers."""
    _qwen3(weights, block, FIRST)
    for part in ("attn", "ffn"):
        weights.add(f"{block}.{part}_conv_base", 0.5 * weights.normal(2, CONVOLUTION, WIDTH))
        weights.matrix(f"{block}.{part}_conv_proj", WIDTH, 2 * CONVOLUTION * WIDTH // SPREAD, 0.3)


def _three(block: Callable[[Weights, str, float], None]) -> tuple[Block, ...]:
    return tuple(_with_gain(block, gain) for gain in (FIRST, LATER, LATER))


@dataclass(frozen=True, slots=True)
class Architecture:
    """The blocks of a model, and the metadata it adds to what all have."""

    blocks: tuple[Block, ...]
    metadata: Mapping[str, int | list[int]]
    embedding: float = 1.0
    last_norm: str = "output_norm"


ATTENTION: Mapping[str, int] = {
    "feed_forward_length": FEED_FORWARD,
    "attention.head_count": HEADS,
    "attention.head_count_kv": 1,
    "attention.key_length": HEAD_WIDTH,
    "attention.value_length": HEAD_WIDTH,
    "rope.dimension_count": HEAD_WIDTH,
}

ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture(_three(_llama), ATTENTION),
    "qwen3": Architecture(_three(_qwen3), ATTENTION),
    "gemma3": Architecture(
        _three(_gemma3),
        {
            **ATTENTION,
            "attention.sliding_window": WINDOW,
            "attention.sliding_window_pattern": [1, 1, 0],
        },
        embedding=WIDTH**-0.5,  # gemma3 multiplies by the root
    ),
    "qwen35": Architecture(
        (_qwen35_attention, _qwen35_delta, _qwen35_delta),
        {
            **ATTENTION,
            "attention.recurrent_layers": [0, 1, 1],
            "rope.dimension_sections": [6, 5, 5, 0],
            "ssm.conv_kernel": CONVOLUTION,
            "ssm.inner_size": DELTA_VALUES * DELTA_STATE,
            "ssm.state_size": DELTA_STATE,
            "ssm.time_step_rank": DELTA_VALUES,
            "ssm.group_count": DELTA_KEYS,
        },
    ),
    "mamba2": Architecture(
        (_mamba2, _mamba2, _mamba2),
        {
            "feed_forward_length": 0,
            "attention.head_count": 0,
            "ssm.conv_kernel": CONVOLUTION,
            "ssm.inner_size": SCAN_WIDTH,
            "ssm.state_size": SCAN_STATE,
            "ssm.time_step_rank": SCAN_HEADS,
            "ssm.group_count": 1,
        },
    ),
    "lfm2": Architecture(
        (_with_gain(_qwen3, 1.0), _lfm2_convolution, _lfm2_convolution),
        {**ATTENTION, "attention.head_count_kv": [1, 0, 0], "shortconv.l_cache": 3},
        last_norm="token_embd_norm",
    ),
}

_DENSE = {"expert_feed_forward_length": FEED_FORWARD}  # a mixture that is dense throughout
_EXPERTS = {
    **ATTENTION,
    "expert_count": EXPERTS,
    "expert_used_count": 1,
    "expert_shared_count": 0,
    "expert_feed_forward_length": FEED_FORWARD,
    "leading_dense_block_count": 3,
    "nextn_predict_layers": 1,
}
# Mixtures of experts: a dense block, then two of which each token uses a part.
MIXTURES: Mapping[str, Architecture] = {
    "glm4moe-experts": Architecture(
        (_with_gain(_glm4moe, FIRST), *[_with_gain(_glm4moe_head, LATER)] * 2),
        {**_EXPERTS, "leading_dense_block_count": 1, "nextn_predict_layers": 0},
    ),
}
# With a drafting head (MTP) in the file, as the last block.
WITH_HEADS: Mapping[str, Architecture] = {
    "glm4moe-mtp": Architecture(
        (*_three(_glm4moe), _drafts(_with_gain(_glm4moe_head, LATER))), _EXPERTS
    ),
    # Its tokens follow from the one before as good as alone, so that the head is often right.
    "glm4moe-soft-mtp": Architecture(
        (*[_with_gain(_glm4moe, 0.1)] * 3, _drafts(_with_gain(_glm4moe_head, 0.1), 0.05)),
        _EXPERTS,
    ),
    # Each block drafts one token. Only hy_v3 gives hidden states of all tokens, not of outputs.
    "hy_v3-chain-mtp": Architecture(
        (*_three(_qwen3), *[_drafts(_with_gain(_qwen3, LATER))] * 2),
        {**ATTENTION, **_DENSE, "nextn_predict_layers": 2},
    ),
    "step35-chain-mtp": Architecture(
        (*_three(_llama), *[_drafts(_with_gain(_llama, LATER))] * 3),
        {
            **ATTENTION,
            **_DENSE,
            "attention.sliding_window": WINDOW,
            "attention.sliding_window_pattern": [1, 1, 0, 1, 0, 1],
            "nextn_predict_layers": 3,
        },
    ),
    "mimo2-chain-mtp": Architecture(
        (*_three(_llama), *[_drafts(_with_gain(_mimo2_head, LATER))] * 3),
        {
            **ATTENTION,
            **_DENSE,
            "attention.sliding_window": WINDOW,
            "attention.sliding_window_pattern": [1, 1, 0, 1, 1, 1],
            "expert_count": EXPERTS,
            "expert_used_count": 1,
            "nextn_predict_layers": 3,
        },
    ),
    "qwen35-mtp": Architecture(
        (_qwen35_attention, _qwen35_delta, _qwen35_delta, _drafts(_qwen35_attention)),
        {
            **ARCHITECTURES["qwen35"].metadata,
            "attention.recurrent_layers": [0, 1, 1, 0],
            "nextn_predict_layers": 1,
        },
    ),
}

# Targets of heads in files of their own; the tokens of the first follow from the one before. And
# a model whose layers come in the order that MLX has for them.
FOR_HEADS: Mapping[str, Architecture] = {
    "llama-soft": Architecture((_with_gain(_llama_soft, 0.1),) * 3, ATTENTION),
    "qwen35-last-mtp": Architecture(
        (_qwen35_delta, _qwen35_delta, _qwen35_attention, _drafts(_qwen35_attention)),
        {**WITH_HEADS["qwen35-mtp"].metadata, "attention.recurrent_layers": [1, 1, 0, 0]},
    ),
}
# A language model whose positions have axes, of which pictures use three; see `tests.tiny_vision`.
WITH_AXES: Mapping[str, Architecture] = {
    "qwen3vl": Architecture(_three(_qwen3), {**ATTENTION, "rope.dimension_sections": [6, 5, 5, 0]}),
}
BLOCK, MASK = 8, 1  # tokens that DFlash fills at once, and the one that stands for them
CANDIDATES, SPREAD = 4, 16  # of DFlash 2: for each token; numbers that share a convolution
MARKOV = 8  # rank of DSpark's table of what follows what
_DFLASH: Mapping[str, int | list[int]] = {**ATTENTION, "block_size": BLOCK, "target_layers": [1, 2]}
# Heads in files of their own.
BESIDE: Mapping[str, Architecture] = {
    "eagle3": Architecture(
        (_eagle3,),
        {
            **ATTENTION,
            "attention.head_count_kv": HEADS,
            "target_hidden_size": WIDTH,
            "target_layers": [0, 1, 2],
        },
    ),
    "dflash": Architecture((_with_gain(_qwen3, FIRST),) * 2, _DFLASH),
    "dflash-spark": Architecture((_with_gain(_qwen3, FIRST),) * 2, _DFLASH),  # DSpark
    "dflash-two": Architecture(
        (_dflash2,) * 2,
        {
            **_DFLASH,
            "conv_kernel_size": CONVOLUTION,
            "conv_group_size": SPREAD,
            "selector_rank": MARKOV,
            "selector_top_k": CANDIDATES,
        },
    ),
    "dflash-hybrid": Architecture(
        (_with_gain(_qwen3, FIRST),) * 2,
        {**_DFLASH, "rope.dimension_sections": [HEAD_WIDTH // 2, 0, 0, 0]},
    ),
}
NOT_DRAFTED = 8  # every so many-th token is none that EAGLE-3 can draft


@dataclass(frozen=True, slots=True)
class Head:
    """The output matrix of a model; models that differ in it share a hidden state."""

    sharpness: float = 4.0  # standard deviation of a letter's logits
    drift: float = 0.0  # share of other logits: at 0.2 seven of ten greedy tokens stay
    end_gain: float = 0.0  # end token's deviation over a letter's: at 1.3 most texts end


def write(
    path: Path,
    architecture: str,
    *,
    seed: int = 0,
    layout: Layout = "plain",
    head: Head = Head(),
) -> Path:
    """Write a model and return its path.

    The same seed is the same model over either layout of the vocabulary; another is a stranger.
    """
    shape = _shape(architecture)
    words = vocabulary(layout)
    writer = _described(path, architecture, words)
    weights = Weights(writer, seed)
    texts = every_text()
    rows = [texts.index(text) for text in words.tokens]
    signs = np.sign(weights.normal(len(texts), WIDTH))
    weights.add("token_embd.weight", signs[rows] * shape.embedding)
    for index, block in enumerate(shape.blocks):
        block(weights, f"blk.{index}")
    weights.norm(shape.last_norm)
    own, other = weights.normal(2, len(texts), WIDTH)
    mixed = np.sqrt(1 - head.drift**2) * own + head.drift * other
    weights.add("output.weight", mixed[rows] * (WIDTH**-0.5 * _loudness(words, head)))
    finish(writer)
    return path


def write_head(path: Path, name: str, target: Path, *, seed: int = 0) -> Path:
    """Write a head for a target that was written before, in the form of llama.cpp's converter."""
    words, shape = vocabulary("plain"), BESIDE[name]
    held = {tensor.name: tensor.data for tensor in GGUFReader(target).tensors}
    writer = _described(path, name, words)
    weights = Weights(writer, seed + 1)
    layers = shape.metadata["target_layers"]
    assert isinstance(layers, list)
    weights.matrix("fc", len(layers) * WIDTH, WIDTH, 0.5)
    weights.add("output_norm.weight", held.get("output_norm.weight", np.ones(WIDTH)))
    for index, block in enumerate(shape.blocks):
        block(weights, f"blk.{index}")
    if name == "eagle3":
        drafted = [at for at in range(len(words.tokens)) if at % NOT_DRAFTED]
        writer.add_tensor("d2t", np.array(drafted, np.int64))
        weights.add("output.weight", held["output.weight"][drafted])
    else:
        writer.add_mask_token_id(MASK)
        weights.norm("enc.output_norm")
    if name == "dflash-spark":
        for part in ("w1", "w2"):
            weights.matrix(f"markov_{part}", MARKOV, len(words.tokens))
    if name == "dflash-two":
        for part in ("predecessor", "successor"):
            weights.add(f"selector_{part}.weight", weights.normal(len(words.tokens), MARKOV))
        weights.matrix("selector_hidden", WIDTH, MARKOV)
    finish(writer)
    return path


def write_vocabulary(path: Path, architecture: str = "llama", layout: Layout = "plain") -> Path:
    """Write a model's metadata and vocabulary without tensors, and return its path."""
    finish(_described(path, architecture, vocabulary(layout)))
    return path


def _shape(architecture: str) -> Architecture:
    every = {**ARCHITECTURES, **MIXTURES, **WITH_HEADS, **FOR_HEADS, **WITH_AXES, **BESIDE}
    return every[architecture]


def _loudness(words: Vocabulary, head: Head) -> Array:
    """Return a factor for each token: letters, fewer stray bytes, and nothing that is no text."""
    factors = np.array([1.0 if is_readable(text) else 0.5 for text in words.tokens])
    factors *= [is_written(kind) for kind in words.types]
    factors[words.id_of(END)] = head.end_gain
    return (head.sharpness * factors).astype(np.float32)[:, None]


def _described(path: Path, architecture: str, words: Vocabulary) -> GGUFWriter:
    return described(path, architecture.partition("-")[0], _shape(architecture), words)


def described(
    path: Path, architecture: str, shape: Architecture, words: Vocabulary, width: int = WIDTH
) -> GGUFWriter:
    """Begin a file with its metadata."""
    writer = GGUFWriter(path, architecture)
    writer.add_name(f"tiny {architecture}")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(width)
    writer.add_block_count(len(shape.blocks))
    writer.add_layer_norm_rms_eps(1e-8)  # too small to change a mean square of one
    for key, value in shape.metadata.items():
        if isinstance(value, int):
            writer.add_uint32(f"{architecture}.{key}", value)
        else:
            writer.add_array(f"{architecture}.{key}", value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(words.tokens)
    writer.add_token_types(words.types)
    writer.add_token_merges(words.merges)
    writer.add_bos_token_id(words.id_of(BEGIN))
    writer.add_add_bos_token(False)
    writer.add_eos_token_id(words.id_of(END))
    writer.add_eot_token_id(words.id_of(END))
    writer.add_chat_template(CHAT_TEMPLATE)
    return writer


def finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
