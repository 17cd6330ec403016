"""Tiny random models as MLX folders, one for each kind of cache an architecture of mlx-lm asks for.

The definitions are mlx-lm's own; the weights are drawn by name and shape, in 32 bits. Attention
scores deviate by more than 1, so that what came before shows in the logits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes as get_classes
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from localspec_mlx.folder.thinning import thin
from tests.tiny_vocabulary import BEGIN, CHAT_TEMPLATE, CONTROL, END, Layout, vocabulary

WINDOW = 16
WIDTH = 64
FOCUS = 2.5  # gain of key projections

_SHARED: Mapping[str, Any] = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 3,
    "intermediate_size": 96,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000.0,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}
_DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 3,
    "partial_rotary_factor": 0.5,
}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
}
_SCAN = {
    "num_heads": 4,
    "head_dim": 32,
    "state_size": 16,
    "layer_norm_epsilon": 1e-6,
    "conv_kernel": 4,
    "n_groups": 1,
    "use_bias": False,
    "use_conv_bias": True,
    "time_step_limit": [0.0, 100.0],
    "time_step_rank": 4,
}

# What each adds to the shared configuration; the name is mlx-lm's `model_type`.
ARCHITECTURES: Mapping[str, Mapping[str, Any]] = {
    "llama": {},
    "qwen3": {},
    "qwen3_moe": EXPERTS,
    "gemma3_text": {
        "sliding_window": WINDOW,
        "sliding_window_pattern": 3,
        "query_pre_attn_scalar": 32,
        "rope_local_base_freq": 10_000.0,
    },
    "gpt_oss": {
        "num_hidden_layers": 4,
        "sliding_window": WINDOW,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "rope_theta": 10_000,
    },
    "qwen3_5": {
        **_DELTA,
        "rope_parameters": {
            "type": "default",
            "rope_theta": 10_000,
            "partial_rotary_factor": 0.5,
        },
    },
    "qwen3_next": {**_DELTA, **EXPERTS, "shared_expert_intermediate_size": 32},
    "mamba2": _SCAN,
    "lfm2": {
        "norm_eps": 1e-6,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": WIDTH,
        "block_multiple_of": 8,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "layer_types": ["conv", "full_attention", "conv"],
    },
    "falcon_h1": {
        "mamba_d_ssm": 128,
        "mamba_n_heads": 4,
        "mamba_d_head": 32,
        "mamba_d_state": 16,
        "mamba_chunk_size": 16,
        "embedding_multiplier": 1.0,
        "lm_head_multiplier": 1.0,
        "key_multiplier": 1.0,
    },
    "nemotron_h": {
        "hybrid_override_pattern": ["M", "*", "-", "M"],
        "attention_bias": False,
        "mlp_bias": False,
        "mamba_num_heads": 4,
        "mamba_head_dim": 32,
        "mamba_proj_bias": False,
        "ssm_state_size": 16,
        "conv_kernel": 4,
        "n_groups": 1,
        "layer_norm_epsilon": 1e-6,
        "use_bias": False,
        "use_conv_bias": True,
    },
    "granitemoehybrid": {
        "attention_bias": False,
        "embedding_multiplier": 1.0,
        "attention_multiplier": 0.2,
        "logits_scaling": 1.0,
        "residual_multiplier": 1.0,
        "layer_types": ["mamba", "attention", "mamba"],
        "mamba_n_heads": 4,
        "mamba_d_head": 32,
        "mamba_proj_bias": False,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_n_groups": 1,
        "mamba_conv_bias": True,
    },
}

# Models that are written to be drafted for.
TARGETS: Mapping[str, Mapping[str, Any]] = {
    "gemma4_text": {
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 1,
        "global_head_dim": 32,
        "hidden_size_per_layer_input": 0,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "use_double_wide_mlp": False,
        "tie_word_embeddings": True,
    },
}


def write(
    folder: Path,
    architecture: str,
    *,
    seed: int = 0,
    drift: float = 0.0,
    layout: Layout = "plain",
    **changes: Any,
) -> Path:
    """Write a model and return its folder; `drift` is the share of other logits."""
    folder.mkdir(parents=True, exist_ok=True)
    words = vocabulary(layout)
    config = {
        "model_type": architecture,
        "vocab_size": len(words.tokens),
        "eos_token_id": words.id_of(END),
        "bos_token_id": words.id_of(BEGIN),
        **_SHARED,
        **{**ARCHITECTURES, **TARGETS}.get(architecture, {}),
        **changes,
    }
    (folder / "config.json").write_text(json.dumps(config))
    model_class, arguments = get_classes(config)
    model = model_class(arguments.from_dict(config))
    own, other = (np.random.default_rng([seed, part]) for part in (0, 1))
    weights = {}
    for name, old in sorted(tree_flatten(model.parameters())):
        values = weight(own, name, old.shape)
        if "lm_head" in name:
            values = np.sqrt(1 - drift**2) * values + drift * weight(other, name, old.shape)
        weights[name] = mx.array(values.astype(np.float32))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    write_tokenizer(folder, layout)
    return folder


def write_embedder(
    folder: Path, pooling: str = "lasttoken", *, architecture: str = "qwen3", **changes: Any
) -> Path:
    """Write an embedder as Qwen's are: an inner model, and a token that ends each text."""
    write(folder, architecture, tie_word_embeddings=True, **changes)
    path = folder / "model.safetensors"
    weights = {
        name.removeprefix("model."): array
        for name, array in mx.load(str(path)).items()
        if "lm_head" not in name
    }
    mx.eval(weights)
    mx.save_safetensors(str(path), weights, metadata={"format": "pt"})
    kinds = ("Transformer", "Pooling", "Normalize")
    modules = [{"type": f"sentence_transformers.models.{kind}"} for kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    modes = {f"pooling_mode_{name}": name == pooling for name in POOLINGS}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    path, [text, end] = folder / "tokenizer.json", [{"Sequence": {"id": "A", "type_id": 0}}, END]
    mark = {"SpecialToken": {"id": end, "type_id": 0}}
    ids = {"id": end, "ids": [vocabulary("plain").id_of(end)], "tokens": [end]}
    template = {"type": "TemplateProcessing", "single": [text, mark], "pair": [text, mark]}
    template["special_tokens"] = {end: ids}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": template}))
    return folder


POOLINGS = {"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "last", "max_tokens": ""}

# Models with a drafting head, by the kind that it is of: among their weights, or beside them.
WITH_HEADS: Mapping[str, str] = {
    "qwen3_5-mtp": "qwen3_5",
    "gemma4_text-mtp": "gemma4_text",
    "llama-eagle": "llama",
    "llama-eagle3": "llama",
    "qwen3_5-dflash": "qwen3_5",
    "qwen3_5-medusa": "qwen3_5",
    "llama-mlp_speculator": "llama",
    "llama-layerskip": "llama",
}
# What later kinds of DFlash add to a head's settings.
LATER: Mapping[str, Mapping[str, Any]] = {
    "dspark": {"projector_type": "dspark", "markov_rank": 8},
    "dflash2": {
        "selector_rank": 8,
        "selector_top_k": 5,
        "conv_kernel_size": 3,
        "conv_group_size": 16,
    },
}
ASSISTANT: Mapping[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "layer_types": ["sliding_attention", "full_attention"],
}


def write_with_head(
    folder: Path, architecture: str, kind: str = "mtp", *, seed: int = 0, **changes: Any
) -> Path:
    """Write a model with a head as mlx-lm's and mlx-vlm's conversions leave it; return the head."""
    if architecture == "gemma4_text":
        write(folder, architecture, seed=seed, **changes)
        return write_assistant(folder, folder / "head", seed=seed)
    if kind in WRITERS:
        write(folder, architecture, seed=seed, **changes)
        return WRITERS[kind](folder, folder / "head", seed=seed)
    write(folder, architecture, seed=seed, mtp_num_hidden_layers=1, **changes)
    weights = {f"mtp.{name}": array for name, array in head_weights(folder, seed).items()}
    mx.save_safetensors(str(folder / "model-mtp.safetensors"), weights, metadata={"format": "mlx"})
    return folder


def write_assistant(target: Path, folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Write an assistant of Gemma 4 for a target."""
    folder.mkdir()
    config = json.loads((target / "config.json").read_text())
    text = {**config, **ASSISTANT}
    settings = {
        "model_type": "gemma4_assistant",
        "backbone_hidden_size": config["hidden_size"],
        "text_config": text,
        **changes,
    }
    (folder / "config.json").write_text(json.dumps(settings))
    width, inner, reads = text["hidden_size"], text["intermediate_size"], config["hidden_size"]
    queries = text["num_attention_heads"] * text["head_dim"]
    shapes = {
        "model.embed_tokens.weight": (text["vocab_size"], width),
        "model.norm.weight": (width,),
        "pre_projection.weight": (width, 2 * reads),
        "post_projection.weight": (reads, width),
    }
    for at in range(text["num_hidden_layers"]):
        place = f"model.layers.{at}."
        shapes |= {
            f"{place}layer_scalar": (1,),
            f"{place}self_attn.q_proj.weight": (queries, width),
            f"{place}self_attn.o_proj.weight": (width, queries),
            f"{place}self_attn.q_norm.weight": (text["head_dim"],),
            f"{place}mlp.gate_proj.weight": (inner, width),
            f"{place}mlp.up_proj.weight": (inner, width),
            f"{place}mlp.down_proj.weight": (width, inner),
        }
        for name in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            shapes[f"{place}{name}_layernorm.weight"] = (width,)
    random = np.random.default_rng([seed, 3])
    weights = {name: mx.array(weight(random, name, shape)) for name, shape in shapes.items()}
    if clusters := changes.get("num_centroids"):
        weights["masked_embedding.centroids.weight"] = mx.array(
            weight(random, "centroids.weight", (clusters, width))
        )
        order = random.permutation(text["vocab_size"])
        weights["masked_embedding.token_ordering"] = mx.array(order, mx.int64)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    return folder


EAGLE3: Mapping[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 1,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000.0,
}


def write_eagle3(
    target: Path, folder: Path, *, seed: int = 0, speculators: bool = False, **changes: Any
) -> Path:
    """Write an EAGLE-3 head for a target, as SpecForge does or as speculators does."""
    folder.mkdir()
    config = json.loads((target / "config.json").read_text())
    tokens, reads = config["vocab_size"], config["hidden_size"]
    few = 2 * tokens // 3
    layer = {**EAGLE3, "vocab_size": tokens} | changes
    width = layer["hidden_size"]
    settings = {"draft_vocab_size": few, "target_hidden_size": reads}
    if speculators:
        settings |= {"speculators_model_type": "eagle3", "transformer_layer_config": layer}
        settings |= {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}
    else:
        settings |= {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", **layer}
        settings |= {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}}
    (folder / "config.json").write_text(json.dumps(settings | changes))
    place = "layers.0." if speculators else "midlayer."
    queries, keys = 64, 32
    shapes = {
        "fc.weight": (width, 3 * reads),
        "norm.weight": (width,),
        "lm_head.weight": (few, width),
        "embed_tokens.weight": (tokens, width),
        f"{place}self_attn.q_proj.weight": (queries, 2 * width),
        f"{place}self_attn.k_proj.weight": (keys, 2 * width),
        f"{place}self_attn.v_proj.weight": (keys, 2 * width),
        f"{place}self_attn.o_proj.weight": (width, queries),
        f"{place}mlp.gate_proj.weight": (64, width),
        f"{place}mlp.up_proj.weight": (64, width),
        f"{place}mlp.down_proj.weight": (width, 64),
    }
    for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        shapes[f"{place}{name}.weight"] = (width,)
    random = np.random.default_rng([seed, 4])
    weights = {}
    for name, shape in shapes.items():  # draws alike under either name
        weights[name] = mx.array(weight(random, name, shape))
    ids = np.sort(random.permutation(tokens)[:few])
    weights |= {"d2t": mx.array(ids - np.arange(few), mx.int64)}
    weights |= {"t2d": mx.array(np.isin(np.arange(tokens), ids))}
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "pt"})
    return folder


def write_eagle(target: Path, folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Write an EAGLE head for a target, in the layout of its authors."""
    folder.mkdir()
    config = json.loads((target / "config.json").read_text())
    width, tokens = config["hidden_size"], config["vocab_size"]
    settings = {**EAGLE3, "hidden_size": width, "vocab_size": tokens, "model_type": "llama"}
    settings |= {"architectures": ["LlamaForCausalLM"], **changes}
    (folder / "config.json").write_text(json.dumps(settings))
    place, inner = "layers.0.", settings["intermediate_size"]
    shapes = {
        "embed_tokens.weight": (tokens, width),
        "fc.weight": (width, 2 * width),
        "fc.bias": (width,),
        f"{place}self_attn.q_proj.weight": (64, width),
        f"{place}self_attn.k_proj.weight": (32, width),
        f"{place}self_attn.v_proj.weight": (32, width),
        f"{place}self_attn.o_proj.weight": (width, 64),
        f"{place}mlp.gate_proj.weight": (inner, width),
        f"{place}mlp.up_proj.weight": (inner, width),
        f"{place}mlp.down_proj.weight": (width, inner),
        f"{place}post_attention_layernorm.weight": (width,),
    }
    random = np.random.default_rng([seed, 10])
    weights = {name: mx.array(weight(random, name, shape)) for name, shape in shapes.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "pt"})
    return folder


def write_dflash(
    target: Path, folder: Path, *, seed: int = 0, later: Mapping[str, Any] = {}, **changes: Any
) -> Path:
    """Write a DFlash head for a target, or of a later kind, in the layout of its authors."""
    config = json.loads((target / "config.json").read_text())
    own = {"mask_token_id": 1, "target_layer_ids": [0, 2], **later}
    settings = {**_SHARED, "num_hidden_layers": 2, "block_size": 6, "dflash_config": own} | changes
    tokens, width = config["vocab_size"], settings["hidden_size"]
    write(folder, "qwen3", seed=seed + 7, **settings)
    (folder / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["DFlashDraftModel"],
                "model_type": "qwen3",
                "vocab_size": tokens,
                **settings,
            }
        )
    )
    weights = {
        name.removeprefix("model."): array
        for name, array in mx.load(str(folder / "model.safetensors")).items()
        if "embed_tokens" not in name and "lm_head" not in name
    }
    random = np.random.default_rng([seed, 5])
    shapes = {"fc.weight": (width, 2 * config["hidden_size"]), "hidden_norm.weight": (width,)}
    if rank := later.get("markov_rank"):
        shapes |= {f"markov_head.markov_w{at}.weight": (tokens, rank) for at in (1, 2)}
        shapes |= {"confidence_head.proj.weight": (1, width + rank)}
    if rank := later.get("selector_rank"):
        place, length = "candidate_selector.", later["conv_kernel_size"]
        shapes |= {
            f"{place}{each}_codebook": (tokens, rank) for each in ("predecessor", "successor")
        }
        shapes |= {f"{place}hidden_projection.weight": (rank, width)}
        for at in range(settings["num_hidden_layers"]):
            for conv in ("attention_conv", "mlp_conv"):
                groups = width // later["conv_group_size"]
                shapes[f"layers.{at}.{conv}.base_kernel"] = (2, length, width)
                shapes[f"layers.{at}.{conv}.kernel_projection.weight"] = (
                    2 * length * groups,
                    width,
                )
    weights |= {name: mx.array(weight(random, name, shape)) for name, shape in shapes.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    return folder


def write_medusa(
    target: Path, folder: Path, *, seed: int = 0, stages: int = 5, layers: int = 1
) -> Path:
    """Write Medusa heads for a target, in the layout of their authors."""
    folder.mkdir()
    config = json.loads((target / "config.json").read_text())
    settings = {"medusa_num_heads": stages, "medusa_num_layers": layers}
    (folder / "config.json").write_text(json.dumps({"base_model_name_or_path": "a/b", **settings}))
    width, random = config["hidden_size"], np.random.default_rng([seed, 6])
    shapes = {}
    for at in range(stages):
        for block in range(layers):
            shapes[f"{at}.{block}.linear.weight"] = (width, width)
            shapes[f"{at}.{block}.linear.bias"] = (width,)
        shapes[f"{at}.{layers}.weight"] = (config["vocab_size"], width)
    weights = {name: mx.array(weight(random, name, shape)) for name, shape in shapes.items()}
    mx.save_safetensors(str(folder / "medusa_lm_head.safetensors"), weights)
    return folder


def write_speculator(target: Path, folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Write an MLP speculator for a target, in the layout of its authors."""
    folder.mkdir()
    config = json.loads((target / "config.json").read_text())
    reads, tokens = config["hidden_size"], config["vocab_size"]
    settings = {
        "architectures": ["MLPSpeculatorPreTrainedModel"],
        "model_type": "mlp_speculator",
        "emb_dim": reads,
        "inner_dim": 48,
        "n_predict": 5,
        "vocab_size": tokens,
    } | changes
    (folder / "config.json").write_text(json.dumps(settings))
    width, random = settings["inner_dim"], np.random.default_rng([seed, 8])
    shapes = {}
    for at in range(settings["n_predict"]):
        shapes |= {
            f"speculator.emb.{at}.weight": (tokens, width),
            f"speculator.proj.{at}.weight": (width, width if at else reads),
            f"speculator.ln.{at}.weight": (width,),
            f"speculator.ln.{at}.bias": (width,),
            f"speculator.head.{at}.weight": (tokens, width),
        }
    weights = {name: mx.array(weight(random, name, shape)) for name, shape in shapes.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "pt"})
    return folder


def write_first_layers(target: Path, folder: Path, *, seed: int = 0) -> Path:
    """Write all layers of a model but the last."""
    layers = json.loads((target / "config.json").read_text())["num_hidden_layers"]
    thin(target, range(layers - 1), folder)
    return folder


# Heads that lie beside their model, by their kind.
WRITERS = {
    "eagle": write_eagle,
    "eagle3": write_eagle3,
    "dflash": write_dflash,
    **{kind: partial(write_dflash, later=settings) for kind, settings in LATER.items()},
    "medusa": write_medusa,
    "mlp_speculator": write_speculator,
    "layerskip": write_first_layers,
}


def head_weights(folder: Path, seed: int = 0) -> dict[str, mx.array]:
    """The tensors of a head for the model in a folder, by the names of its own layers."""
    config = json.loads((folder / "config.json").read_text())
    model_class, arguments = get_classes(config)
    like = model_class(
        arguments.from_dict({**config, "num_hidden_layers": 1, "full_attention_interval": 1})
    )
    width = config["hidden_size"]
    shapes = {"fc.weight": (width, 2 * width), "norm.weight": (width,)}
    shapes |= {f"pre_fc_norm_{each}.weight": (width,) for each in ("embedding", "hidden")}
    for name, array in tree_flatten(like.model.layers[0].parameters()):
        shapes[f"layers.0.{name}"] = array.shape
    random = np.random.default_rng([seed, 2])
    return {name: mx.array(weight(random, name, shape)) for name, shape in sorted(shapes.items())}


def weight(random: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor such as its name and shape suggest."""
    kind = name.rpartition(".")[2]
    part = name.removesuffix(f".{kind}").rpartition(".")[2]
    values = random.standard_normal(shape, dtype=np.float32)
    if kind == "A_log":
        return np.log(0.05 + 0.2 * np.abs(values))
    if kind in ("dt_bias", "D", "bias", "sinks"):
        return 0.2 * values
    if len(shape) == 1:
        return (0.8 + 0.2 * np.abs(values)).astype(np.float32)
    if "embed" in name:
        return values
    fan_in = np.prod(shape[1:]) if "conv" in part else shape[-1]
    gain = {"k_proj": FOCUS, "lm_head": 4.0}.get(part, 1.0)
    return (values * (gain * fan_in**-0.5)).astype(np.float32)


def write_tokenizer(folder: Path, layout: Layout = "plain") -> None:
    """The tiny vocabulary as tokenizer.json, with the settings that go with it."""
    words = vocabulary(layout)
    pairs = [tuple(pair.split(" ")) for pair in words.merges]
    ids = {text: at for at, text in enumerate(words.tokens)}
    tokenizer = Tokenizer(models.BPE(ids, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [w for w, kind in zip(words.tokens, words.types, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in control])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BEGIN,
        "eos_token": END,
        "add_bos_token": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def store_in_16_bits(folder):
    """Store all numbers in 16 bits, as people have them."""
    for path in folder.rglob("*.safetensors"):
        weights, about = mx.load(str(path), return_metadata=True)
        halves = {
            name: array.astype(mx.bfloat16) if array.dtype == mx.float32 else array
            for name, array in weights.items()
        }
        mx.eval(halves)
        mx.save_safetensors(str(path), halves, metadata=about)
