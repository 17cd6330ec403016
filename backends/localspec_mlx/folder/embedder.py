"""Folders of sentence-transformers: how a text becomes a vector."""

from __future__ import annotations

from pathlib import Path

from localspec_mlx.folder.config import Config
from localspec_mlx.folder.files import AGAIN, as_object, kind_of, parse, read, read_text, refuse
from localspec_mlx.spec import POOLING

MODULES = "modules.json"
COMPUTED = ("Transformer", "Pooling", "Normalize")  # the last one above the engine
MODE = "pooling_mode"
POOLINGS = {
    "cls": "cls",
    "cls_token": "cls",
    "mean": "mean",
    "mean_tokens": "mean",
    "lasttoken": "last",
}
GGUF = "give the GGUF of this model"


def pooling(config: Config) -> str:
    """Read how a text becomes a vector; empty where the folder is of a model of another kind."""
    folder = config.path.parent
    modules = read_text(folder / MODULES)
    if modules is None and not (folder / POOLING).is_file():
        return ""
    if modules is not None:
        check_modules(folder / MODULES, modules)
    for values in (config.values, config.text):
        if values.get("use_bidirectional_attention") or values.get("is_causal") is False:
            refuse(config.path, f"is of a model that reads both ways; MLX reads forward: {GGUF}")
    return mode(folder / POOLING)


def check_modules(path: Path, text: str) -> None:
    """Refuse what would change a vector after the layers, and is not computed here."""
    listed = parse(path, f'{{"modules": {text}}}').get("modules")
    if not isinstance(listed, list):
        refuse(path, f"has {kind_of(listed)} as its content, not a list: {AGAIN}")
    for module in listed:
        kind = str(as_object(path, "a module", module).get("type")).rpartition(".")[2]
        if kind not in COMPUTED:
            refuse(path, f"lists a {kind}, which MLX does not compute here: {GGUF}")


def mode(path: Path) -> str:
    values = read(path)
    if not values:
        refuse(path, f"is missing, and says how a text becomes a vector: {AGAIN}")
    switched_on = [name for name, value in values.items() if value is True]
    names = [name.removeprefix(f"{MODE}_") for name in switched_on if name.startswith(f"{MODE}_")]
    if MODE in values:  # as later versions write it
        names = [str(values[MODE])]
    if len(names) != 1 or names[0] not in POOLINGS:
        of_file = " and ".join(names) or "nothing"
        refuse(path, f"pools by {of_file}; here it is one of cls, mean and lasttoken: {GGUF}")
    return POOLINGS[names[0]]
