"""LocalSpec on one model, in a process of its own: PATH [PROJECTOR]. Prints JSON."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

import psutil

import localspec
from architectures.checking import pictures
from architectures.checking.answers import CONTEXT, PROMPTS, TOKENS
from localspec import Loading, LocalSpecError, Options, Result, Runtime, Settings
from localspec.apps.command_line import run
from localspec.running.memory.planner import Limits


def loading(path: str, proposer: str, slots: int = 1, projector: Path | None = None) -> Loading:
    """Load with as many threads as the engine beside it; MLX decides that itself."""
    threads = None if Path(path).is_dir() else 1
    depth = 0 if proposer == "none" else 4
    options = Options(slots=slots, context=CONTEXT, threads=threads, projector=projector)
    return Loading(options, proposer, depth, limits=Limits(text_only=True))


def main() -> int:
    path = sys.argv[1]
    result: dict[str, object] = {"fault": "", "info": info(path)}
    try:
        result |= plain(path)
        result |= drafting(path)
        if sys.argv[2:]:
            result["pictures"] = with_pictures(path, Path(sys.argv[2]))
    except LocalSpecError as error:
        result["fault"] = str(error)
    print(json.dumps(result))
    return 0


def info(path: str) -> object:
    """Run `localspec info --json`; return its output or its error."""
    log, failed = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(log), contextlib.redirect_stderr(failed):
        status = run(["info", path, "--json"])
    return failed.getvalue() if status else json.loads(log.getvalue())


def plain(path: str) -> dict[str, object]:
    """Run each prompt alone, without proposers; measure the memory."""
    before = psutil.Process().memory_info().rss
    with localspec.load(path, loading=loading(path, "none")) as model:
        answers = [answer(model, prompt, generate(model, path, prompt)) for prompt in PROMPTS]
        grown = psutil.Process().memory_info().rss - before
        plan = model.facts.plan
    planned = sum(item.bytes for item in plan.items) if plan else 0
    return {"plain": answers, "grown": grown, "planned": planned}


def drafting(path: str) -> dict[str, object]:
    """Run with proposers: each prompt alone, then two at once, twice."""
    with localspec.load(path, loading=loading(path, "ngram,suffix", 2)) as model:
        results = [generate(model, path, prompt) for prompt in PROMPTS]
        alone = list(map(answer, [model] * len(PROMPTS), PROMPTS, results))
        pairs = zip(PROMPTS, (*PROMPTS[1:], PROMPTS[0]), strict=True)
        both = [
            answer(model, *exchange) for pair in pairs for exchange in together(model, path, pair)
        ]
    drafted = sum(result.speculation.drafted for result in results)
    return {"drafting": alone, "together": both, "drafted": drafted}


def with_pictures(path: str, projector: Path) -> dict[str, list[pictures.Answer]]:
    plain = loading(path, "none", projector=projector)
    return pictures.ours(path, plain, loading(path, "ngram,suffix", 2, projector))


def together(model: Runtime, path: str, pair: tuple[str, str]) -> list[tuple[str, Result]]:
    streams = [model.stream(prompt, settings(path), raw=True) for prompt in pair]
    return [(prompt, stream.result) for prompt, stream in zip(pair, streams, strict=True)]


def generate(model: Runtime, path: str, prompt: str) -> Result:
    return model.generate(prompt, settings(path))


def settings(path: str) -> Settings:
    """End replies as MLX does: LocalSpec knows more end tokens by their texts than mlx-lm."""
    return Settings(max_tokens=TOKENS, ignore_end=Path(path).is_dir())


def answer(model: Runtime, prompt: str, result: Result) -> dict[str, object]:
    return {"text": prompt, "prompt": model.encode(prompt), "tokens": result.tokens}


if __name__ == "__main__":
    sys.exit(main())
