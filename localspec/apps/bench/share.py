"""A row for a public table: what was measured, on what, and nothing of whose it is.

No path, file name, user or host goes in: a model is known by the sums of its files. Replies to
built-in prompts do, with a sum by which a table checks them; those to prompts of one's own do not.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from localspec.apps.bench import machine
from localspec.apps.bench.modes import PLAIN
from localspec.apps.bench.report import Report
from localspec.apps.bench.summary import Summary, total
from localspec.apps.bench.verdict import Ratio, Row
from localspec.base.errors import LocalSpecError
from localspec.base.system import free_memory, kept_json
from localspec.interfaces.backend import Options
from localspec.running.models import catalogue, catalogue_file
from localspec.running.models.engines import EngineHere
from localspec.running.models.trial import ResolvedModel
from localspec.running.runtime.resolved_pair import ResolvedPair

FORMAT = 2  # of the row
Run = Callable[[Sequence[str]], bytes]


def run_localspec(arguments: Sequence[str]) -> bytes:
    """Run another LocalSpec to its end; return what it printed, whatever it exits with."""
    command = [sys.executable, "-m", "localspec", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout


def prove(arguments: Sequence[str], run: Run = run_localspec) -> dict[str, Any] | None:
    """Have `localspec prove` judge the pair; None where it could not."""
    try:
        verdict = kept_json.decode(run(["prove", *arguments, "--json"]))
        greedy = verdict["greedy"]
        return {
            "proven": verdict["proven"],
            "faults": verdict["faults"],
            "texts": greedy["texts"],
            "equal_texts": greedy["equal"],
            "sampled_rounds": verdict["sampled"]["rounds"],
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


def row(name: str, resolved: ResolvedPair, report: Report, *, built_in: bool) -> dict[str, object]:
    """Collect the row, but for the proof; `built_in`: the prompts are LocalSpec's own."""
    if report.verdict is None:
        raise LocalSpecError("there is nothing to share: no prompt was answered by all modes")
    setup, load = report.setup, report.outcome.load
    *kinds, everything = report.verdict.rows
    summaries = {summary.mode: summary for summary in total(report.sections).summaries}
    texts = texts_by(PLAIN, report)
    models = [resolved.target, *([resolved.draft] if resolved.draft else [])]
    target, *draft = map(_model, models, setup.weights)
    heading = dict(setup.heading)
    public = name in catalogue_file.names(catalogue.builtin())
    return {
        "format": FORMAT,
        "hardware": hardware(resolved.target.engine),
        "name": name if public else None,
        "model": target,
        "draft": draft[0] if draft else None,
        "options": _options(resolved.plan.options),
        "versions": heading["versions"].split(", "),
        "sampling": heading["sampling"],
        "prompts": everything.prompts,
        "plain_tokens_per_second": round(everything.plain, 3),
        "first_token_seconds": rounded(summaries[PLAIN].first_token, 6),
        "memory_bytes": sum(item.bytes for item in resolved.plan.items),
        "modes": {
            mode: _mode(summaries[mode], ratio) | {"texts_sha256": digest(texts_by(mode, report))}
            for mode, ratio in everything.ratios.items()
        },
        "kinds": {kind.kind: _kind(kind) for kind in kinds} if built_in else {},
        "texts": texts if built_in else None,
        "texts_sha256": digest(texts),
        "unsteady": round(report.verdict.unsteady, 3),
        "load_of_others": round(load.others, 3),
        "copied_bytes_a_second": round(load.memory_speed),
    }


def texts_by(mode: str, report: Report) -> dict[str, str]:
    """Return the first reply of a mode to each prompt, by the prompt's name."""
    replies = [trial[mode] for trial in report.trials]
    return {reply.prompt.name: reply.text for reply in replies if not reply.repeat}


def digest(texts: Mapping[str, str]) -> str:
    """Compute the sum of replies, by which a row is checked."""
    return sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()


def rounded(number: float | None, digits: int = 3) -> float | None:
    return None if number is None else round(number, digits)


def hardware(engine: EngineHere) -> dict[str, object]:
    """Describe this machine; a device of another one may have an address for a name."""
    devices = [device for device in engine.devices if device.kind != "cpu"]
    return {
        "processor": machine.processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "memory_bytes": free_memory.memory().total_bytes,
        "devices": [device.name for device in devices if not device.worker],
        "workers": len({device.worker for device in devices if device.worker}),
    }


def _model(model: ResolvedModel, sums: Sequence[str]) -> dict[str, object]:
    footprint = model.footprint
    return {
        "architecture": footprint.architecture,
        "quantisation": footprint.quantisation,
        "parameters": footprint.parameters,
        "bytes": footprint.file_bytes,
        "sha256": sums,
    }


def _options(options: Options) -> dict[str, object]:
    return {
        "kv_type": options.kv_type,
        "flash_attention": options.flash_attention,
        "gpu_layers": options.gpu_layers,
        "cpu_moe": options.cpu_moe,
        "threads": options.threads,
        "threads_batch": options.threads_batch,
        "micro_batch": options.micro_batch,
        "split_mode": options.split_mode,
        "bit_exact": options.bit_exact,
        "products": options.products,
        "adapter": bool(options.adapters),
    }


def _mode(summary: Summary, ratio: Ratio) -> dict[str, object]:
    return {
        "times_plain": round(ratio.value, 3),
        "low": round(ratio.low, 3),
        "high": round(ratio.high, 3),
        "accepted": rounded(summary.acceptance_rate),
        "texts": summary.replies,
        "texts_of_plain": summary.same_text,
    }


def _kind(kind: Row) -> dict[str, object]:
    return {
        "prompts": kind.prompts,
        "plain_tokens_per_second": round(kind.plain, 3),
        "times_plain": {mode: round(ratio.value, 3) for mode, ratio in kind.ratios.items()},
    }
