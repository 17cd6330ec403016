"""What a model keeps of the past, in the bytes that llama.cpp will allocate."""

from __future__ import annotations

from localspec_llamacpp.headers.architectures import DELTA_ATTENTION
from localspec_llamacpp.headers.hyperparameters import Hyperparameters
from localspec_llamacpp.headers.layers import Layers

KV_BYTES = 2  # of one 16-bit key or value
STATE_BYTES = 4  # recurrent state is kept in float32


def cache_bytes(params: Hyperparameters, layers: Layers, windowed: bool) -> int:
    """16-bit keys and values of one token in all the layers that do, or do not, slide."""
    key, value = layers.key, layers.value
    if windowed:
        key, value = layers.window_key, layers.window_value
    if keeps_keys_only(params):
        value = 0
    heads = sum(
        layers.kv_heads[layer]
        for layer in range(layers.count)
        if layers.attends[layer] and layers.windowed[layer] == windowed
    )
    extra = 0 if windowed else indexer_numbers(params, layers) + router_numbers(params, layers)
    return KV_BYTES * (heads * (key + value) + extra)


def keeps_keys_only(params: Hyperparameters) -> bool:
    """With latent attention the values are a part of the keys."""
    compressed = (
        params.number("attention.key_length_mla"),
        params.number("attention.value_length_mla"),
    )
    return all(compressed) or params.architecture == "deepseek4"


def router_numbers(params: Hyperparameters, layers: Layers) -> int:
    """One more layer of one head, which chooses adapters."""
    return layers.key + layers.value if params.architecture == "graniteswitch" else 0


def indexer_numbers(params: Hyperparameters, layers: Layers) -> int:
    """What sparse attention keeps of a token to choose by, in all layers."""
    name, size = params.architecture, params.number("attention.indexer.key_length")
    if name == "deepseek4":
        return compressed_numbers(params, layers, size)
    if name == "minimax-m3":
        return (size + layers.value) * max(
            0, layers.count - params.number("leading_dense_block_count")
        )
    if name == "hy_v4" and not params.number("attention.indexer.top_k"):
        return 0
    if name not in ("deepseek32", "dots3note", "glm-dsa", "glm5-next", "hy_v4", "qwen4exp"):
        return 0
    choosing = params.listed("attention.indexer.types") or (1,) * layers.count
    choosers = sum(
        1 for own, attends in zip(choosing, layers.attends, strict=False) if own and attends
    )
    return choosers * size * (3 if name == "glm5-next" else 1)


def compressed_numbers(params: Hyperparameters, layers: Layers, indexer: int) -> int:
    """DeepSeek 4 keeps one row for so many tokens behind its window; a part counts as whole."""
    ratios = params.listed("attention.compress_ratios") or ()
    ratios = ratios[: layers.count]
    row = layers.key * max(layers.kv_heads, default=0)
    return -(-ratios.count(4) * (row + indexer) // 4) - (-ratios.count(128) * row // 128)


def state_bytes(params: Hyperparameters, layers: Layers) -> int:
    """Recurrent state of one sequence."""
    if params.architecture == "deepseek4":
        return STATE_BYTES * compressor_numbers(params, layers)
    return STATE_BYTES * (
        sum(layers.recurrent)
        * (convolution_numbers(params, layers) + memory_numbers(params, layers))
        + history_numbers(params)
    )


def convolution_numbers(params: Hyperparameters, layers: Layers) -> int:
    """What a recurrent layer keeps of its latest inputs."""
    embedding, kernel = params.number("embedding_length"), params.number("ssm.conv_kernel")
    if "rwkv" in params.architecture:
        return params.number("token_shift_count", 2) * embedding
    if params.architecture in ("lfm2", "lfm2moe"):
        return embedding * max(params.number("shortconv.l_cache") - 1, 0)
    if params.architecture == "minimax-01":
        return 0
    if params.architecture in DELTA_ATTENTION:
        width = layers.heads[0] * params.number("kda.head_dim")
        return 3 * (kernel - 1 if kernel else 3) * width
    groups = (
        params.number("ssm.group_count") if params.architecture not in ("mamba", "jamba") else 0
    )
    width = params.number("ssm.inner_size") + 2 * groups * params.number("ssm.state_size")
    return max(kernel - 1, 0) * width


def memory_numbers(params: Hyperparameters, layers: Layers) -> int:
    """What a recurrent layer keeps of all before."""
    if "rwkv" in params.architecture:
        return params.number("embedding_length") * params.number("wkv.head_size")
    if params.architecture in ("lfm2", "lfm2moe"):
        return 0
    if params.architecture in DELTA_ATTENTION:
        return params.number("kda.head_dim") ** 2 * layers.heads[0]
    if params.architecture == "minimax-01":
        return layers.key**2 * layers.heads[0]
    return params.number("ssm.state_size") * params.number("ssm.inner_size")


def history_numbers(params: Hyperparameters) -> int:
    """Inputs of the one layer that looks up n-grams."""
    if params.architecture != "qwen4exp" or not params.listed("ple.layers"):
        return 0
    width = params.number("hyper_connection.count") * params.number("embedding_length")
    return (params.number("ple.conv_kernel") - 1) * params.number("ple.ngram_size") * width


def compressor_numbers(params: Hyperparameters, layers: Layers) -> int:
    """DeepSeek 4's tokens and scores that wait until a row of them is full."""
    ratios = (params.listed("attention.compress_ratios") or ())[: layers.count]
    fine = 8 * 2 * (layers.key + params.number("attention.indexer.key_length"))
    return 2 * (ratios.count(4) * fine + ratios.count(128) * 128 * layers.key)
