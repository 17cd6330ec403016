"""SGLang, by the options of 0.5.23."""

from __future__ import annotations

from localspec.export.deployment import LOOKUP, Deployment
from localspec.export.differences import (
    ALONE,
    by_known_method,
    draft_original,
    listed,
    of_original,
    original,
    quantised,
    words,
)
from localspec.export.script import Script

ALGORITHMS = {
    LOOKUP: "NGRAM",
    "model": "STANDALONE",
    "mtp": "NEXTN",
    "mtp-inside": "NEXTN",
    "eagle3": "EAGLE3",
    "dflash": "DFLASH",
}
STEPPING = ("STANDALONE", "NEXTN", "EAGLE3")  # draft one token after the other


def script(wanted: Deployment) -> Script:
    settings, notes = wanted.settings, of_original(wanted)
    wanted, lost = by_known_method(wanted, ALGORITHMS)
    notes += lost
    if not wanted.one_vocabulary:
        notes.append("the draft model: its vocabulary is of another size, which SGLang refuses")
        wanted = wanted.without_draft()
    elif wanted.drafts and wanted.drafter != LOOKUP:
        notes.append(ALONE)
    options = {
        "--model-path": original(wanted),
        "--context-length": settings.context,
        "--max-running-requests": settings.slots,
        "--kv-cache-dtype": "fp8_e4m3" if quantised(wanted) else "",
    }
    speculating = speculation(wanted) if wanted.drafts else {}
    command = ["python", "-m", "sglang.launch_server", *words(options | speculating)]
    return Script([command], listed(wanted, *notes))


def speculation(wanted: Deployment) -> dict[str, object]:
    algorithm = ALGORITHMS[wanted.drafter]
    steps = {"--speculative-num-steps": wanted.depth, "--speculative-eagle-topk": 1}
    return {
        "--speculative-algorithm": algorithm,
        "--speculative-draft-model-path": draft_original(wanted),
        **(steps if algorithm in STEPPING else {}),
        "--speculative-num-draft-tokens": wanted.depth + 1,  # with the target's own
    }
