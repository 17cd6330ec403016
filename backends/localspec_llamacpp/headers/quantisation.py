"""The number formats a GGUF file may store its weights in, and their names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quantisation:
    name: str
    block: int  # numbers that are packed together
    size: int  # bytes of one such block


TYPES = {
    0: Quantisation("F32", 1, 4),
    1: Quantisation("F16", 1, 2),
    2: Quantisation("Q4_0", 32, 18),
    3: Quantisation("Q4_1", 32, 20),
    6: Quantisation("Q5_0", 32, 22),
    7: Quantisation("Q5_1", 32, 24),
    8: Quantisation("Q8_0", 32, 34),
    9: Quantisation("Q8_1", 32, 36),
    10: Quantisation("Q2_K", 256, 84),
    11: Quantisation("Q3_K", 256, 110),
    12: Quantisation("Q4_K", 256, 144),
    13: Quantisation("Q5_K", 256, 176),
    14: Quantisation("Q6_K", 256, 210),
    15: Quantisation("Q8_K", 256, 292),
    16: Quantisation("IQ2_XXS", 256, 66),
    17: Quantisation("IQ2_XS", 256, 74),
    18: Quantisation("IQ3_XXS", 256, 98),
    19: Quantisation("IQ1_S", 256, 50),
    20: Quantisation("IQ4_NL", 32, 18),
    21: Quantisation("IQ3_S", 256, 110),
    22: Quantisation("IQ2_S", 256, 82),
    23: Quantisation("IQ4_XS", 256, 136),
    24: Quantisation("I8", 1, 1),
    25: Quantisation("I16", 1, 2),
    26: Quantisation("I32", 1, 4),
    27: Quantisation("I64", 1, 8),
    28: Quantisation("F64", 1, 8),
    29: Quantisation("IQ1_M", 256, 56),
    30: Quantisation("BF16", 1, 2),
    34: Quantisation("TQ1_0", 256, 54),
    35: Quantisation("TQ2_0", 256, 66),
    39: Quantisation("MXFP4", 32, 17),
    40: Quantisation("NVFP4", 64, 36),
    41: Quantisation("Q1_0", 128, 18),
    42: Quantisation("Q2_0", 64, 18),
}
F32 = 0
# The engine computes with these but has no kernel for weights stored in them.
NOT_FOR_WEIGHTS = frozenset({9, 15, 24, 25, 26, 27, 28})

# What `general.file_type` stands for: the recipe, where TYPES names a single tensor's format.
RECIPES = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K"}
RECIPES |= dict(
    enumerate(["Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K"], 11)
)
RECIPES |= dict(
    enumerate(["IQ2_XXS", "IQ2_XS", "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S"], 19)
)
RECIPES |= dict(enumerate(["IQ3_M", "IQ2_S", "IQ2_M", "IQ4_XS", "IQ1_M", "BF16"], 27))
RECIPES |= dict(enumerate(["TQ1_0", "TQ2_0", "MXFP4", "NVFP4", "Q1_0", "Q2_0"], 36))
