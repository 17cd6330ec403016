"""MLX folders made of GGUF files, so that both engines run one model.

Tests and benchmarks convert tiny models and the starter: Llama or Qwen3, in 32 or 16 bits, whose
texts are split as Qwen2's or SmolLM's are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

Array = NDArray[np.float32]

CONTRACTION = r"'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])"
BLANKS = r"\s+(?!\S)|\s+"
# How a name in a GGUF has llama.cpp cut a text before bytes are merged: one pattern after another.
SPLITS = {
    "qwen2": (
        rf"{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|{BLANKS}",
    ),
    "smollm": (
        r"\p{N}",
        rf"'(?:[sdmt]|ll|ve|re)| ?\p{{L}}+| ?[^\s\p{{L}}\p{{N}}]+|{BLANKS}",
    ),
}
CONTROL, USER_DEFINED = 3, 4  # types of tokens
PARTS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


class Header:
    """The values of a GGUF: those of its architecture, and those of its tokenizer."""

    def __init__(self, reader: GGUFReader) -> None:
        self._fields = reader.fields
        self.architecture = self.value("general.architecture")
        assert self.architecture in ("llama", "qwen3")

    def value(self, key: str, default: Any = None) -> Any:
        field = self._fields.get(key)
        return default if field is None else field.contents()

    def size(self, key: str, default: Any = None) -> Any:
        return self.value(f"{self.architecture}.{key}", default)

    def words(self, key: str, default: Any = None) -> Any:
        return self.value(f"tokenizer.ggml.{key}", default)

    @property
    def head_width(self) -> int:
        width = self.size("embedding_length") // self.size("attention.head_count")
        return int(self.size("attention.key_length", width))


def convert(source: Path, folder: Path, dtype: mx.Dtype = mx.float32) -> Path:
    """Write a folder that mlx-lm loads, its weights in so many bits."""
    reader = GGUFReader(source)
    header = Header(reader)
    folder.mkdir(exist_ok=True)
    write_tokenizer(header, folder)
    arrays = {}
    for name, values in weights(reader, header):
        arrays[name] = mx.array(values, dtype)
        mx.eval(arrays[name])  # one is unpacked at a time
    mx.save_safetensors(str(folder / "model.safetensors"), arrays, metadata={"format": "mlx"})
    write(folder / "config.json", config(header, tied="lm_head.weight" not in arrays))
    return folder


def config(header: Header, tied: bool) -> dict[str, object]:
    heads = header.size("attention.head_count")
    return {
        "model_type": header.architecture,
        "hidden_size": header.size("embedding_length"),
        "intermediate_size": header.size("feed_forward_length"),
        "num_hidden_layers": header.size("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": header.size("attention.head_count_kv", heads),
        "head_dim": header.head_width,
        "rms_norm_eps": header.size("attention.layer_norm_rms_epsilon"),
        "rope_theta": header.size("rope.freq_base", 10_000.0),
        "max_position_embeddings": header.size("context_length"),
        "vocab_size": len(header.words("tokens")),
        "tie_word_embeddings": tied,
    }


def weights(reader: GGUFReader, header: Header) -> Iterator[tuple[str, Array]]:
    """Unpack the tensors, with mlx-lm's names and order of rows."""
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        block, _, part = tensor.name.removesuffix(".weight").rpartition(".")
        if block:
            name = f"model.layers.{block.removeprefix('blk.')}.{PARTS[part]}"
        else:
            name = OUTSIDE[part]
        if header.architecture == "llama" and part in ("attn_q", "attn_k"):
            values = by_halves(values, header.head_width)
        yield f"{name}.weight", values


def by_halves(values: Array, head_width: int) -> Array:
    """Put the rows of each head, which lie pair by pair, half by half."""
    heads = values.reshape(-1, head_width // 2, 2, *values.shape[1:])
    return np.ascontiguousarray(heads.swapaxes(1, 2)).reshape(values.shape)


def write_tokenizer(header: Header, folder: Path) -> None:
    """Write what turns text into tokens and back, and which tokens end a reply."""
    tokens = header.words("tokens")
    ids = {text: at for at, text in enumerate(tokens)}
    merges = [
        (line[:1] + left, right)
        for line in header.words("merges")
        for left, _, right in [line[1:].partition(" ")]
    ]
    tokenizer = Tokenizer(models.BPE(ids, merges))
    split = SPLITS[header.words("pre")]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in split),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    for text, kind in zip(tokens, header.words("token_type"), strict=True):
        if kind in (CONTROL, USER_DEFINED):
            added = AddedToken(text, special=kind == CONTROL, normalized=False)
            tokenizer.add_tokens([added])
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    marks = {name: header.words(f"{name}_token_id") for name in ("bos", "eos", "eot")}
    named = {f"{name}_token": tokens[at] for name, at in marks.items() if at is not None}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "add_bos_token": False,
        "chat_template": header.value("tokenizer.chat_template"),
    }
    write(folder / "tokenizer_config.json", named | settings)
    ends = {marks[name] for name in ("eos", "eot")} - {None}
    write(folder / "generation_config.json", {"eos_token_id": sorted(ends)})


def write(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
