"""The sizes of a llama-like model, and its config.json for mlx-lm."""

from __future__ import annotations

from dataclasses import dataclass

from mlx_conversion.gguf_file import GgufFile
from mlx_conversion.rotation import Scaling, read_scaling

CLASSES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
ATTENTION = frozenset(("attn_q", "attn_k", "attn_v", "attn_output"))
FEED_FORWARD = frozenset(("ffn_gate", "ffn_up", "ffn_down"))
MOST = 1 << 24  # of any size; the largest seen is a context of 2**20


@dataclass(frozen=True, slots=True)
class LlamaShape:
    architecture: str
    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_width: int
    vocabulary: int
    context: int
    epsilon: float
    theta: float  # base of the rotation's frequencies
    scaling: Scaling | None
    tied: bool  # the embedding is the output matrix too
    biased: frozenset[str]  # projections that add something


def read_shape(file: GgufFile) -> LlamaShape:
    name = architecture(file)
    width, heads = (
        size(file, f"{name}.embedding_length"),
        size(file, f"{name}.attention.head_count"),
    )
    head_width = size(file, f"{name}.attention.key_length", width // heads)
    kv_heads = size(file, f"{name}.attention.head_count_kv", heads)
    check_heads(file, name, head_width)
    if heads % kv_heads or (name == "qwen2" and heads * head_width != width):
        file.refuse(f"has {heads} heads of {head_width} over {kv_heads}, and a width of {width}")
    theta = positive(file, f"{name}.rope.freq_base", 10_000.0)
    return LlamaShape(
        architecture=name,
        layers=size(file, f"{name}.block_count"),
        width=width,
        feed_forward=size(file, f"{name}.feed_forward_length"),
        heads=heads,
        kv_heads=kv_heads,
        head_width=head_width,
        vocabulary=file.header.length("tokenizer.ggml.tokens"),
        context=size(file, f"{name}.context_length"),
        epsilon=positive(file, f"{name}.attention.layer_norm_rms_epsilon"),
        theta=theta,
        scaling=read_scaling(file, name, head_width, theta),
        tied="output.weight" not in file.tensors,
        biased=biased(file, name),
    )


def architecture(file: GgufFile) -> str:
    name = file.text("general.architecture")
    if name not in CLASSES:
        file.refuse(f"has the architecture {name!r}; {', '.join(CLASSES)} can be converted")
    parts = file.integer("split.count", 1)
    if parts > 1:
        file.refuse(f"is cut into {parts} parts: join them first with llama-gguf-split --merge")
    experts = file.integer(f"{name}.expert_count", 0)
    if experts:
        file.refuse(f"is a mixture of {experts} experts, which cannot be converted")
    return name


def biased(file: GgufFile, name: str) -> frozenset[str]:
    """Name the biased projections: of llama all of a part or none, of Qwen those of its family."""
    if name != "llama":
        return frozenset(("attn_q", "attn_k", "attn_v") if name == "qwen2" else ())
    found = {tensor.split(".")[-2] for tensor in file.tensors if tensor.endswith(".bias")}
    return frozenset(name for part in (ATTENTION, FEED_FORWARD) if found & part for name in part)


def size(file: GgufFile, key: str, default: int | None = None) -> int:
    found = file.integer(key, default)
    if not 0 < found <= MOST:
        file.refuse(f"has a {key} of {found:,}; it must be from 1 to {MOST:,}")
    return found


def positive(file: GgufFile, key: str, default: float | None = None) -> float:
    found = file.real(key, default)
    if found <= 0:
        file.refuse(f"has a {key} of {found}; it must be more than 0")
    return found


def check_heads(file: GgufFile, name: str, width: int) -> None:
    """Refuse heads that MLX cannot run: it rotates whole heads, and values are as wide as keys."""
    for key in ("attention.value_length", "rope.dimension_count"):
        found = size(file, f"{name}.{key}", width)
        if found != width:
            file.refuse(f"has a {name}.{key} of {found}, but heads of {width}")
    if width % 2:
        file.refuse(f"has heads of {width}, whose halves cannot be turned")
    if file.real(f"{name}.attention.scale", 0.0):
        file.refuse(f"has a {name}.attention.scale, which MLX would not apply")


def config(shape: LlamaShape) -> dict[str, object]:
    """Write the configuration from which mlx-lm builds the model."""
    found: dict[str, object] = {
        "model_type": shape.architecture,
        "architectures": [CLASSES[shape.architecture]],
        "hidden_size": shape.width,
        "intermediate_size": shape.feed_forward,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_width,
        "hidden_act": "silu",
        "rms_norm_eps": shape.epsilon,
        "rope_theta": shape.theta,
        "max_position_embeddings": shape.context,
        "vocab_size": shape.vocabulary,
        "tie_word_embeddings": shape.tied,
        "attention_bias": "attn_q" in shape.biased,
        "mlp_bias": "ffn_gate" in shape.biased,
    }
    return found | ({"rope_scaling": shape.scaling} if shape.scaling else {})
