"""The scaling of rotary positions beyond the length that a model was first trained for."""

from __future__ import annotations

import math

import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from mlx_conversion.gguf_file import GgufFile

Scaling = dict[str, float | str]

FACTORS = "rope_freqs.weight"  # what each frequency is divided by
# Of the rules that such factors may come from, the one in use; the largest factor is its own.
RULE = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
CLOSE = 1e-4  # relative; factors are computed in 32 bits


def read_scaling(file: GgufFile, name: str, head_width: int, theta: float) -> Scaling | None:
    """The `rope_scaling` of config.json; None where positions are taken as they are."""
    prefix = f"{name}.rope.scaling"
    kind = file.text(f"{prefix}.type") or "linear"
    if kind not in ("none", "linear"):
        file.refuse(f"stretches positions by {kind!r}; linear and llama3 can be converted")
    if file.real(f"{prefix}.attn_factor", 1.0) != 1.0:
        file.refuse(f"has a {prefix}.attn_factor, which MLX would not apply")
    factor = file.real(f"{prefix}.factor", file.real(f"{name}.rope.scale_linear", 0.0))
    stretched = kind == "linear" and factor not in (0.0, 1.0)
    if FACTORS in file.tensors:
        if stretched:
            file.refuse(f"stretches positions twice, by {factor} and by {FACTORS}")
        return llama3(file, head_width, theta)
    return {"rope_type": "linear", "factor": factor} if stretched else None


def llama3(file: GgufFile, head_width: int, theta: float) -> Scaling | None:
    """Find Llama 3's rule: low frequencies are divided, high ones are not, others in part."""
    tensor = file.tensors[FACTORS]
    if tensor.shape != (head_width // 2,) or tensor.kind != GGMLQuantizationType.F32:
        found = f"{tensor.kind.name} of shape {list(tensor.shape)}"
        file.refuse(f"has {FACTORS} as {found}, not F32 of {head_width // 2}")
    divisors = file.read(tensor.start, tensor.row_bytes).view(np.float32)
    most = float(divisors.max())
    if np.all(divisors == 1.0):
        return None
    if not 1 < most < math.inf or not np.allclose(divisors, rule(head_width, theta, most), CLOSE):
        file.refuse(f"has values in {FACTORS} that follow no rule of MLX")
    return {"rope_type": "llama3", "factor": most, **RULE}


def rule(head_width: int, theta: float, most: float) -> NDArray[np.float64]:
    low, high, context = RULE.values()
    wavelengths = 2 * math.pi * theta ** (np.arange(0, head_width, 2) / head_width)
    share = np.clip((context / wavelengths - low) / (high - low), 0.0, 1.0)
    divisors: NDArray[np.float64] = 1 / ((1 - share) / most + share)
    return divisors
