"""mlx-lm's own generation, in a process of its own: the engine without LocalSpec. FOLDER.

A list of partings on standard input is weighed in place of generating: by how much less likely each
token is than the likeliest.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generate_step
from mlx_lm.utils import load

from architectures.checking.answers import PROMPTS, TOKENS


def main() -> int:
    model, tokenizer = load(sys.argv[1])
    if partings := json.loads(sys.stdin.read() or "[]"):
        print(json.dumps([margins(model, parting) for parting in partings]))
        return 0
    reply = []
    for text in PROMPTS:
        prompt = tokenizer.encode(text)
        steps = generate_step(mx.array(prompt), model, max_tokens=TOKENS)
        tokens = [int(token) for token, _ in steps]
        reply.append({"text": text, "prompt": prompt, "tokens": tokens})
    print(json.dumps(reply))
    return 0


def margins(model: Any, parting: Mapping[str, Any]) -> tuple[float, float]:
    """Measure margins token by token as generated, and with the whole text read at once."""
    steps = generate_step(mx.array(parting["prompt"]), model, max_tokens=len(parting["said"]) + 1)
    *_, (_, logprobs) = steps
    text = mx.array([*parting["prompt"], *parting["said"]])
    [(_, at_once)] = generate_step(text, model, max_tokens=1)
    return below(logprobs, parting["token"]), below(at_once, parting["token"])


def below(logprobs: mx.array, token: int) -> float:
    return float(mx.max(logprobs) - logprobs[token])


if __name__ == "__main__":
    sys.exit(main())
