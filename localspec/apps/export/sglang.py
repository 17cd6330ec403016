"""SGLang, by the options of 0.5.23."""

from __future__ import annotations

from localspec.apps.export.deployment import LOOKUP, Deployment
from localspec.apps.export.script import (
    ALONE,
    Script,
    draft_original,
    notes_on,
    of_original,
    option_words,
    original,
    quantised,
    with_lookup_if_unknown,
)

ALGORITHMS = {
    LOOKUP: "NGRAM",
    "model": "STANDALONE",
    "mtp": "NEXTN",
    "mtp-inside": "NEXTN",
    "eagle3": "EAGLE3",
    "dflash": "DFLASH",
}
STEPPING = ("STANDALONE", "NEXTN", "EAGLE3")  # draft one token after the other


def script(deployment: Deployment) -> Script:
    settings, notes = deployment.settings, of_original(deployment)
    deployment, lost = with_lookup_if_unknown(deployment, ALGORITHMS)
    notes += lost
    if not deployment.one_vocabulary:
        notes.append("the draft model: its vocabulary is of another size, which SGLang refuses")
        deployment = deployment.without_draft()
    elif deployment.drafts and deployment.drafter != LOOKUP:
        notes.append(ALONE)
    options = {
        "--model-path": original(deployment),
        "--context-length": settings.context,
        "--max-running-requests": settings.slots,
        "--kv-cache-dtype": "fp8_e4m3" if quantised(deployment) else "",
    }
    speculating = speculation(deployment) if deployment.drafts else {}
    command = ["python", "-m", "sglang.launch_server", *option_words(options | speculating)]
    return Script([command], notes_on(deployment, *notes))


def speculation(deployment: Deployment) -> dict[str, object]:
    algorithm = ALGORITHMS[deployment.drafter]
    steps = {"--speculative-num-steps": deployment.depth, "--speculative-eagle-topk": 1}
    return {
        "--speculative-algorithm": algorithm,
        "--speculative-draft-model-path": draft_original(deployment),
        **(steps if algorithm in STEPPING else {}),
        "--speculative-num-draft-tokens": deployment.depth + 1,  # with the target's own
    }
