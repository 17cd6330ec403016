"""TensorRT-LLM, by the documentation of 1.3."""

from __future__ import annotations

import json
from collections.abc import Iterator

from localspec.apps.export.deployment import LOOKUP, Deployment
from localspec.apps.export.script import (
    ALONE,
    Script,
    draft_original,
    notes_on,
    of_original,
    original,
    quantised,
    with_lookup_if_unknown,
)

TYPES = {
    LOOKUP: "NGram",
    "model": "DraftTarget",
    "mtp": "MTP",
    "mtp-inside": "MTP",
    "eagle3": "Eagle3",
    "dflash": "DFlash",
}
MAX_NGRAM = 4  # tokens that prompt lookup compares
FILE = "trtllm.yaml"


def script(deployment: Deployment) -> Script:
    notes = of_original(deployment)
    deployment, lost = with_lookup_if_unknown(deployment, TYPES)
    notes += lost
    if deployment.drafts and deployment.drafter != LOOKUP:
        notes.append(ALONE)
    if deployment.drafts and TYPES[deployment.drafter] == "MTP":
        notes.append("perhaps the drafter: MTP is documented for DeepSeek only; else --depth 0")
    content = "\n".join(yaml_lines(deployment))
    command = ["trtllm-serve", original(deployment)]
    if content:
        command += ["--config", FILE]
    return Script([command], notes_on(deployment, *notes), FILE, content)


def yaml_lines(deployment: Deployment) -> Iterator[str]:
    """Write the settings as YAML."""
    if deployment.settings.context:
        yield f"max_seq_len: {deployment.settings.context}"
    if deployment.settings.slots:
        yield f"max_batch_size: {deployment.settings.slots}"
    if quantised(deployment):
        yield "kv_cache_config:"
        yield "  dtype: fp8"
    if deployment.drafts:
        yield "speculative_config:"
        yield f"  decoding_type: {TYPES[deployment.drafter]}"
        yield f"  max_draft_len: {deployment.depth}"
        if deployment.drafter == LOOKUP:
            yield f"  max_matching_ngram_size: {MAX_NGRAM}"
        if model := draft_original(deployment):
            yield f"  speculative_model: {json.dumps(model)}"
