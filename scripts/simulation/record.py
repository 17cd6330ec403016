"""Record at each place of real replies every proposer's draft, and how much of it is right."""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import llama_cpp
import numpy as np

from localspec.backend import Options
from localspec.bench.measure import Question, questions
from localspec.bench.prompts import built_in, choose
from localspec.engine.engine import Engine
from localspec.engine.job import Event, Result
from localspec.engine.settings import Settings
from localspec.memory.planner import Limits
from localspec.models.engines import backend
from localspec.models.locate import locate
from localspec.pairing.pair import Pair
from localspec.proposer import Ask, Hints, Proposer
from localspec.proposers import registry
from localspec.proposers.silent import Silent
from localspec.runtime.loaded_pair import resolve_and_load
from localspec.runtime.pair_files import PairFiles
from localspec.sampling.parameters import GREEDY
from localspec.sampling.sampler import Sampler
from localspec.tokens import Tokens, common_prefix, tokens_of
from simulation.texts import RECORDED

LEAST = 0.01  # of a draft being right, at which no more is drafted
LENGTH = 120  # tokens of a reply
EACH = 2  # prompts of a category
REACH = 12  # tokens of a draft


def main() -> None:
    """Write `recorded.json`: SmolLM2 in Q8_0, drafted by Q4_0 and by lookup."""
    with tempfile.TemporaryDirectory() as folder:
        starter = locate("smollm2-135m", "llamacpp").path
        target = quantised(starter, Path(folder) / "q8.gguf", "Q8_0")
        draft = quantised(starter, Path(folder) / "q4.gguf", "Q4_0")
        files = PairFiles.locate(target, draft, "auto")
        options = Options(context=2048, tentative=16)
        with resolve_and_load(files, options, Limits()) as models:
            pair = models.pair
            prompts = choose(built_in(), (), EACH)
            asked = questions(pair.target, prompts, Settings(max_tokens=LENGTH))
            replies = [recorded(pair, question) for question in asked]
    lines = ",\n".join(json.dumps(reply, separators=(",", ":")) for reply in replies)
    RECORDED.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def recorded(pair: Pair, question: Question) -> dict[str, object]:
    """Record one plain reply, then every proposer's draft at each of its places."""
    reply = reply_to(pair, question)
    text = np.concatenate((question.tokens, reply))
    hints = Hints(pair.target.tokenizer.encode(question.prompt.prediction))
    proposers = registry.make_proposers(registry.choose("auto", registry.DRAFT), pair)
    drafts = {
        by: [
            places(proposer, text, len(question.tokens) + at, question, hints)
            for at in range(len(reply))
        ]
        for by, proposer in proposers.items()
        if by != "forced"
    }
    for proposer in proposers.values():
        proposer.release(0)
    print(f"{question.prompt.name}: {len(reply)} tokens", file=sys.stderr)
    return {"name": question.prompt.name, "drafts": drafts}


def reply_to(pair: Pair, question: Question) -> Tokens:
    events: list[Event] = []
    engine = Engine(pair.target, Silent(), 0)
    engine.add(engine.prepare(question.tokens, question.settings, events.append))
    while engine.busy:
        engine.step()
    assert isinstance(events[-1], Result), events[-1]
    return tokens_of(events[-1].tokens)


def places(
    proposer: Proposer, text: Tokens, length: int, question: Question, hints: Hints
) -> tuple[list[int], int]:
    """Record a proposer's draft at one place: confidences in percent, and how many are right."""
    start = len(question.tokens)
    sampler = Sampler(GREEDY, 0, question.tokens)
    [draft] = proposer.propose([Ask(0, text[:length], REACH, sampler, start, hints, sure_enough)])
    right = common_prefix(draft.tokens, text[length:])
    return [round(100 * c) for c in draft.confidences], right


def sure_enough(confidences: Sequence[float]) -> bool:
    return math.prod(confidences) > LEAST


def quantised(source: Path, made: Path, kind: str) -> Path:
    """Quantise the starter model to another precision, by llama.cpp's own quantiser."""
    backend("llamacpp")  # which keeps llama.cpp quiet
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}")
    parameters.allow_requantize = True
    llama_cpp.llama_model_quantize(str(source).encode(), str(made).encode(), parameters)
    return made
