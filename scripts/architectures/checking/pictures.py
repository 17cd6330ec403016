"""Prompts with pictures, and the answers of llama-server and LocalSpec, token by token.

The server's own probabilities weigh a token by which they part.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import localspec
from architectures.checking import llama_server
from architectures.checking.answers import NEAR, TOKENS, shared
from benchmarks.serving.process import post
from localspec import Loading, Runtime, Settings
from localspec.interfaces.media import Medium
from localspec.running.runtime.media_text import MediaText
from tests.tiny_vision import picture

PLACE = "<picture>"
LIKELY = 20  # tokens whose probabilities are asked for
FAR = float("inf")
Picture = tuple[int, int, int]  # a number, and its pixels across and down
Answer = dict[str, Any]  # as answers are kept


@dataclass(frozen=True, slots=True)
class PicturePrompt:
    text: str  # with `PLACE` for each picture
    pictures: tuple[Picture, ...]

    @property
    def files(self) -> list[bytes]:
        return [picture(*one) for one in self.pictures]

    def read(self, model: Runtime) -> tuple[list[int], Settings]:
        """Read it as LocalSpec does."""
        media = [Medium("image", file) for file in self.files]
        tokens, runs = MediaText(self.text.split(PLACE), media).read(model.text)
        return tokens, Settings(max_tokens=TOKENS, media=runs)


# At the beginning, in the middle, several, the same twice at the end, and none.
PROMPTS = (
    PicturePrompt(f"{PLACE} The quick brown fox", ((0, 60, 44),)),
    PicturePrompt(f"Hello there {PLACE} how are {PLACE} you today?", ((1, 130, 70), (2, 33, 90))),
    PicturePrompt(f"def main(x): {PLACE} return {PLACE}", ((3, 64, 64),) * 2),
    PicturePrompt("The quick brown fox", ()),
)


def theirs(program: Path, file: Path, projector: Path) -> list[Answer]:
    """Ask llama-server."""
    with llama_server.serving(program, file, projector) as client:
        mark = client.get("/props").json()["media_marker"]
        return [ask_server(client, prompt, mark) for prompt in PROMPTS]


def ask_server(client: httpx.Client, prompt: PicturePrompt, mark: str) -> Answer:
    data = [base64.b64encode(file).decode() for file in prompt.files]
    text = {"prompt_string": prompt.text.replace(PLACE, mark), "multimodal_data": data}
    wish = {**llama_server.WISH, "n_probs": LIKELY, "prompt": text if data else prompt.text}
    reply = post(client, "/completion", wish)
    likely = list(likely_tokens(reply["tokens"], reply["completion_probabilities"]))
    return {"prompt": reply["tokens_evaluated"], "tokens": reply["tokens"], "likely": likely}


def likely_tokens(tokens: Sequence[int], steps: Sequence[Answer]) -> Iterator[dict[str, float]]:
    """Yield what was likely at each token; the server leaves out those that end no character."""
    left = list(steps)
    for token in tokens:
        alternatives = left.pop(0)["top_logprobs"] if left and left[0]["id"] == token else ()
        yield {str(one["id"]): one["logprob"] for one in alternatives}


def ours(path: str, plain: Loading, drafting: Loading) -> dict[str, list[Answer]]:
    """Ask LocalSpec: without drafts, with them, again by a kept prefix, and in two slots."""
    with localspec.load(path, loading=plain) as model:
        answers = {"plain": [answer(model, prompt) for prompt in PROMPTS]}
    with localspec.load(path, loading=drafting) as model:
        for way in ("drafting", "again"):
            answers[way] = [answer(model, prompt) for prompt in PROMPTS]
        answers["together"] = list(together(model))
    return answers


def answer(model: Runtime, prompt: PicturePrompt) -> Answer:
    tokens, settings = prompt.read(model)
    return {"prompt": len(tokens), "tokens": model.generate(tokens, settings).tokens}


def together(model: Runtime) -> Iterator[Answer]:
    """Ask for two at once, with the last one beside the first."""
    for first, second in zip(PROMPTS, (*PROMPTS[1:], PROMPTS[0]), strict=True):
        read = [prompt.read(model) for prompt in (first, second)]
        streams = [model.stream(tokens, settings) for tokens, settings in read]
        results = [stream.result for stream in streams]
        yield {"prompt": len(read[0][0]), "tokens": results[0].tokens}


def faults(their: Sequence[Answer], our: Mapping[str, Sequence[Answer]]) -> tuple[list[str], int]:
    """Describe the answers that part from the server's, and count those that part at near-ties."""
    described, near = [], 0
    for way, answers in our.items():
        for at, (engine, own) in enumerate(zip(their, answers, strict=True)):
            margin = parted_by(engine, own)
            near += 0 < margin <= NEAR
            if margin > NEAR:
                place = shared(engine["tokens"], own["tokens"])
                described.append(
                    f"picture {way} {at}: token {place} is {margin:.2f} below the best; "
                    f"prompts of {own['prompt']} and {engine['prompt']} tokens"
                )
    return described, near


def parted_by(engine: Answer, own: Answer) -> float:
    """Return how far below the best the first differing token is; 0.0: they are equal."""
    if engine["prompt"] != own["prompt"]:
        return FAR
    if engine["tokens"] == own["tokens"]:
        return 0.0
    at = shared(engine["tokens"], own["tokens"])
    if at >= min(len(engine["tokens"]), len(own["tokens"]), len(engine["likely"])):
        return FAR
    likely = engine["likely"][at]
    below = float(max(likely.values(), default=FAR) - likely.get(str(own["tokens"][at]), -FAR))
    return max(below, 1e-6)  # a tie is near as well
