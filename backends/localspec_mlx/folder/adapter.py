"""What the folder of a LoRA adapter says of it."""

from __future__ import annotations

import json
from pathlib import Path

CONFIG, WEIGHTS = "adapter_config.json", "adapters.safetensors"


def describe(path: Path) -> dict[str, str]:
    """Describe an adapter that mlx-lm trained, a fact a line; nothing where a folder is none."""
    if not (path / CONFIG).is_file() or not (path / WEIGHTS).is_file():
        return {}
    try:
        config = json.loads((path / CONFIG).read_text(encoding="utf-8"))
        parameters = dict(config.get("lora_parameters") or {})
    except (ValueError, TypeError, AttributeError):
        return {}
    facts = {
        "path": str(path),
        "kind": f"{config.get('fine_tune_type', 'lora')} adapter: give it with --adapter",
        "base model": config.get("model") or "",
        "rank": parameters.get("rank", ""),
        "scale": parameters.get("scale", ""),
        "changes": f"the last {config.get('num_layers')} layers",
        "size": f"{(path / WEIGHTS).stat().st_size:,} bytes",
    }
    return {name: str(value) for name, value in facts.items() if value}
