"""What llama.cpp takes for granted about each architecture, as of llama-cpp-python 0.3.36.

A name that is not listed is not held to the rule in question: a newer engine may know it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Windows:
    """How an architecture alternates sliding-window and full layers."""

    every: int | None  # one of so many layers is full; None: the file lists them
    default: int = 0  # tokens, where the file says nothing
    size: int = 0  # tokens, whatever the file says
    full_first: bool = False  # the full one is the first of its group, not the last


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LISTED = Windows(None)
WINDOWS = {
    "afmoe": Windows(4),
    "cohere2": Windows(4),
    "cohere2moe": Windows(4, full_first=True),
    "dflash": LISTED,
    "dots3note": LISTED,
    "exaone-moe": Windows(4),
    "exaone4": Windows(4, default=4096),
    "gemma2": Windows(2, default=4096),
    "gemma3": Windows(6),
    "gemma3n": Windows(5),
    "gemma4": LISTED,
    "gemma4-assistant": LISTED,
    "gpt-oss": Windows(2),
    "granite_swa": LISTED,
    "laguna": Windows(4, full_first=True),
    "llama4": Windows(4, default=8192, size=8192),
    "maple": LISTED,
    "mellum": Windows(4),
    "mimo2": LISTED,
    "muse-glimmer": Windows(4),
    "olmo2": Windows(4),
    "plamo3": Windows(8),
    "smallthinker": Windows(4, size=4096, full_first=True),
    "spark2_5": LISTED,
    "step35": LISTED,
}
# Sliding-window layers may have heads of another size.
TWO_SIZES = names("dots3note gemma4 gemma4-assistant")

# Embed, draw, speak or fill in; none of them continues a text token by token.
NOT_GENERATIVE = names(
    """
    bert clip dream eurobert gemma-embedding jina-bert-v2 jina-bert-v3 llada llada-moe modern-bert
    neo-bert nomic-bert nomic-bert-moe rnd1 t5 t5encoder wavtokenizer-dec
    """
)

RECURRENT = names("mamba mamba2 rwkv6 rwkv6qwen2 rwkv7 arwkv7")
# A layer is recurrent where the file gives it no key-value heads ...
HEADLESS_RECURRENT = names(
    "bailingmoe3 glm5-next granitehybrid jamba kimi-k3 kimi-linear lfm2 lfm2moe plamo2"
)
NEMOTRON = names("nemotron_h nemotron_h_moe")  # ... and no feed-forward.
# Every n-th layer attends, unless the file lists the recurrent ones.
INTERVALS = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "qwen4exp": 4, "minimax-01": 8}
HYBRID = HEADLESS_RECURRENT | NEMOTRON | INTERVALS.keys()
DELTA_ATTENTION = names("bailingmoe3 glm5-next kimi-k3 kimi-linear")

# Asserted while the graph is built: keys as long as values ...
EQUAL_HEADS = names(
    """
    afmoe apertus arcee arctic baichuan bailingmoe bailingmoe2 bitnet bloom chameleon chatglm
    codeshell cogvlm cohere2 cohere2moe command-r dbrx deci deepseek deepseek4 dots1 ernie4_5
    ernie4_5-moe exaone exaone-moe exaone4 falcon falcon-h1 gemma gemma2 gemma3 gemma3n gemma4 glm4
    glm4moe gpt-oss gpt2 gptneox granite granite_swa granitehybrid granitemoe graniteswitch grok
    grovemoe hrm_text hunyuan-dense hunyuan-moe hunyuan_vl hy_v3 internlm2 jais jais2 jamba laguna
    lfm2 lfm2moe llama llama-embed llama4 maincoder maple mellum minicpm minimax-01 minimax-m2
    minimax-m3 mistral3 mpt muse-glimmer nanbeige nemotron nemotron_h nemotron_h_moe olmo olmo2
    olmoe openelm orion paddleocr pangu-embedded phi2 phi3 phimoe plamo pockettts qwen qwen2
    qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe qwen3next qwen3tts qwen3vl qwen3vlmoe qwen4exp
    refact seed_oss smallthinker smollm3 spark2_5 stablelm starcoder starcoder2 talkie xverse
    """
)
# ... rotation of whole heads ...
WHOLE_ROTATION = names(
    """
    apertus arcee arctic baichuan bailingmoe chameleon codeshell cogvlm cohere2moe dbrx deci
    deepseek dots1 ernie4_5 ernie4_5-moe exaone exaone-moe exaone4 falcon gpt-oss granite
    granite_swa granitemoe graniteswitch grok grovemoe hunyuan-dense hunyuan-moe hunyuan_vl hy_v3
    internlm2 jais2 llama llama-embed llama4 maincoder mellum minicpm mistral3 olmo olmo2 olmoe
    orion paddleocr pangu-embedded plamo pockettts qwen2 qwen2moe qwen2vl qwen3 qwen3moe qwen3tts
    qwen3vl qwen3vlmoe seed_oss smallthinker smollm3 starcoder2 talkie xverse
    """
)
# ... or at least of a part: with none, the first decode never ends.
SOME_ROTATION = names(
    """
    afmoe bailingmoe2 bailingmoe3 bitnet chatglm cohere2 command-r deepseek2 deepseek32 falcon-h1
    gemma gemma2 gemma3 gemma3n gemma4 glm-dsa glm4 glm4moe gptneox hrm_text hy_v4 kimi-k3
    kimi-linear laguna lfm2 lfm2moe maple mimo2 minimax-01 minimax-m2 minimax-m3 mistral4
    muse-glimmer nanbeige nemotron openelm phi2 phi3 phimoe plamo2 plamo3 qwen qwen35 qwen35moe
    qwen3next qwen4exp spark2_5 stablelm step35
    """
)
# Rotate by sections of a head, so need some.
SECTIONED = names("paddleocr qwen2vl qwen35 qwen35moe qwen3tts qwen3vl qwen3vlmoe qwen4exp")
# Cache a compressed latent, whose length other numbers must add up to.
LATENT = names(
    """
    bailingmoe3 deepseek2 deepseek32 dots3note glm-dsa glm5-next hy_v4 kimi-k3 kimi-linear mistral4
    """
)
# Have no default for how experts are weighed; others do, yet take a given 0 for an answer.
GATED = names("dots1 hy_v4 minimax-m2 smallthinker")
EXPLICITLY_GATED = GATED | names(
    """
    bailingmoe2 bailingmoe3 deepseek32 dots3note exaone-moe kimi-k3 kimi-linear lfm2moe minimax-m3
    """
)
