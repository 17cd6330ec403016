"""TensorRT-LLM, by the documentation of 1.3."""

from __future__ import annotations

import json
from collections.abc import Iterator

from localspec.export.deployment import LOOKUP, Deployment
from localspec.export.differences import (
    ALONE,
    by_known_method,
    draft_original,
    listed,
    of_original,
    original,
    quantised,
)
from localspec.export.script import Script

TYPES = {
    LOOKUP: "NGram",
    "model": "DraftTarget",
    "mtp": "MTP",
    "mtp-inside": "MTP",
    "eagle3": "Eagle3",
    "dflash": "DFlash",
}
LONGEST = 4  # tokens that prompt lookup compares
FILE = "trtllm.yaml"


def script(wanted: Deployment) -> Script:
    notes = of_original(wanted)
    wanted, lost = by_known_method(wanted, TYPES)
    notes += lost
    if wanted.drafts and wanted.drafter != LOOKUP:
        notes.append(ALONE)
    if wanted.drafts and TYPES[wanted.drafter] == "MTP":
        notes.append("perhaps the drafter: MTP is documented for DeepSeek only; else --depth 0")
    content = "\n".join(lines(wanted))
    command = ["trtllm-serve", original(wanted)]
    if content:
        command += ["--config", FILE]
    return Script([command], listed(wanted, *notes), FILE, content)


def lines(wanted: Deployment) -> Iterator[str]:
    """Write the settings as YAML."""
    if wanted.settings.context:
        yield f"max_seq_len: {wanted.settings.context}"
    if wanted.settings.slots:
        yield f"max_batch_size: {wanted.settings.slots}"
    if quantised(wanted):
        yield "kv_cache_config:"
        yield "  dtype: fp8"
    if wanted.drafts:
        yield "speculative_config:"
        yield f"  decoding_type: {TYPES[wanted.drafter]}"
        yield f"  max_draft_len: {wanted.depth}"
        if wanted.drafter == LOOKUP:
            yield f"  max_matching_ngram_size: {LONGEST}"
        if model := draft_original(wanted):
            yield f"  speculative_model: {json.dumps(model)}"
