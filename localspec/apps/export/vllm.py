"""vLLM, by the options of 0.33."""

from __future__ import annotations

import json

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
)

METHODS = {"model": "draft_model", "mtp-inside": "mtp"}  # where the catalogue has another word
MAX_NGRAM = 4  # tokens that prompt lookup compares


def script(deployment: Deployment) -> Script:
    settings = deployment.settings
    options = {
        "--max-model-len": settings.context,
        "--max-num-seqs": settings.slots,
        "--kv-cache-dtype": "fp8" if quantised(deployment) else "",
        "--speculative-config": json.dumps(speculation(deployment)) if deployment.drafts else "",
    }
    alone = [ALONE] if deployment.drafts and deployment.drafter != LOOKUP else []
    notes = notes_on(deployment, *of_original(deployment), *alone)
    return Script([["vllm", "serve", original(deployment), *option_words(options)]], notes)


def speculation(deployment: Deployment) -> dict[str, object]:
    """Describe the drafter as vLLM's SpeculativeConfig has it."""
    method = METHODS.get(deployment.drafter, deployment.drafter)
    config: dict[str, object] = {"method": method, "num_speculative_tokens": deployment.depth}
    if deployment.drafter == LOOKUP:
        config["prompt_lookup_max"] = MAX_NGRAM
    if model := draft_original(deployment):
        config["model"] = model
    if not deployment.one_vocabulary:
        config["use_heterogeneous_vocab"] = True
    return config
