"""The options of commands that have llama.cpp's converter write a new file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localspec.commands.options.declare import TEXT, WRITABLE, option
from localspec.errors import UsageError

CONFIG = "config.json"


@dataclass(frozen=True, slots=True)
class NewFileOptions:
    out: Path | None = option(
        WRITABLE, "File to write.", otherwise="FOLDER.gguf in the current folder"
    )
    type: str = option(
        TEXT, "Type of the weights: f32, f16, bf16, q8_0; auto: as they are.", default="auto"
    )
    python: str = option(
        TEXT,
        "Python that has torch and transformers.",
        default="",
        otherwise="one is set up",
    )

    def new_file(self, folder: Path) -> Path:
        """Choose the file to write; refuse one that exists."""
        out = self.out or Path(f"{folder.resolve().name}.gguf")
        if out.exists():
            raise UsageError(f"{out} is there already: name another with --out")
        return out


def require_published(*folders: Path | None) -> None:
    """Refuse folders that a model was not published as."""
    for folder in filter(None, folders):
        if not (folder / CONFIG).is_file():
            raise UsageError(f"{folder} has no {CONFIG}: give the folder as it was published")
