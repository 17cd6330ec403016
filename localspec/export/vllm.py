"""vLLM, by the options of 0.33."""

from __future__ import annotations

import json

from localspec.export.deployment import LOOKUP, Deployment
from localspec.export.differences import (
    ALONE,
    draft_original,
    listed,
    of_original,
    original,
    quantised,
    words,
)
from localspec.export.script import Script

METHODS = {"model": "draft_model", "mtp-inside": "mtp"}  # where the catalogue has another word
LONGEST = 4  # tokens that prompt lookup compares


def script(wanted: Deployment) -> Script:
    settings = wanted.settings
    options = {
        "--max-model-len": settings.context,
        "--max-num-seqs": settings.slots,
        "--kv-cache-dtype": "fp8" if quantised(wanted) else "",
        "--speculative-config": json.dumps(speculation(wanted)) if wanted.drafts else "",
    }
    alone = [ALONE] if wanted.drafts and wanted.drafter != LOOKUP else []
    notes = listed(wanted, *of_original(wanted), *alone)
    return Script([["vllm", "serve", original(wanted), *words(options)]], notes)


def speculation(wanted: Deployment) -> dict[str, object]:
    """Describe the drafter as vLLM's SpeculativeConfig has it."""
    method = METHODS.get(wanted.drafter, wanted.drafter)
    found: dict[str, object] = {"method": method, "num_speculative_tokens": wanted.depth}
    if wanted.drafter == LOOKUP:
        found["prompt_lookup_max"] = LONGEST
    if model := draft_original(wanted):
        found["model"] = model
    if not wanted.one_vocabulary:
        found["use_heterogeneous_vocab"] = True
    return found
