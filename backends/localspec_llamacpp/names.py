"""Recognise models and their parts by the names of GGUF files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from localspec.interfaces.backend_spec import RemoteModel, files_of

SUFFIX = ".gguf"
PART = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf", re.I)
DRAFTERS = ("mtp", "eagle3", "dflash")  # as llama.cpp names them, with a dash after
MMPROJ = "mmproj"  # in the name of a projector, at either end
OTHERS = ("imatrix",)  # GGUFs beside a model that are none
# Of one projector in several types: the first runs fast on every device and loses next to nothing.
PREFERRED = ("F16", "BF16", "Q8_0", "F32")
TYPE = re.compile(r"(i?q\d\w*|b?f16|f32|mxfp4\w*)$")  # of weights, the last word of a name
NO_NAME = (MMPROJ, "model", "ud")  # words of files' names that name no model


def parts(path: Path) -> Sequence[Path]:
    """Find the parts of a model that lie beside the given one."""
    part = PART.fullmatch(path.name)
    if part is None:
        return files_of(path)
    total = int(part["parts"])
    names = (f"{part['stem']}-{at:05}-of-{total:05}{path.suffix}" for at in range(1, total + 1))
    return [sibling for name in names if (sibling := path.with_name(name)).exists()]


def remote_models(names: Sequence[str]) -> list[RemoteModel]:
    """List the models of a repository, parts of one together."""
    groups: dict[str, list[str]] = {}
    for name in names:
        if name.lower().endswith(SUFFIX):
            part = PART.fullmatch(name)
            groups.setdefault(part["stem"] if part else name[: -len(SUFFIX)], []).append(name)
    return [model(stem, group) for stem, group in groups.items()]


def model(stem: str, group: Sequence[str]) -> RemoteModel:
    """A model's files in their order, and the first that is not there."""
    parts = {int(part["part"]): part for name in group if (part := PART.fullmatch(name))}
    if not parts:
        return RemoteModel(stem, tuple(group), role(stem))
    total = int(next(iter(parts.values()))["parts"])
    missing = next((at for at in range(1, total + 1) if at not in parts), 0)
    files = tuple(parts[at][0] for at in sorted(parts))
    lacks = f"part {missing} of {total} of {files[0]}" if missing else ""
    return RemoteModel(stem, files, role(stem), lacks)


def choose_projector(projectors: Sequence[RemoteModel]) -> RemoteModel | None:
    """Choose the preferred type of a projector; None where there are several, by their names."""
    if len({bare_name(PurePosixPath(model.files[0]).name) for model in projectors}) != 1:
        return None
    return min(projectors, key=lambda model: type_rank(model.name))


def type_rank(name: str) -> int:
    """Order files of one projector by the type that ends their names."""
    word = re.split(r"[-.]", name)[-1].upper()
    return PREFERRED.index(word) if word in PREFERRED else len(PREFERRED)


def bare_name(file: str) -> str:
    """Return the name of a model in that of its file, or of its projector: without type or part."""
    part = PART.fullmatch(file)
    stem = (part["stem"] if part else file[: -len(SUFFIX)]).lower()
    words = [word for word in re.split(r"[-.]", stem) if word not in NO_NAME]
    return "-".join(words[:-1] if words and TYPE.fullmatch(words[-1]) else words)


def role(stem: str) -> str:
    name = PurePosixPath(stem).name.lower()
    if MMPROJ in name:
        return "projector"
    kinds = (*(f"{kind}-" for kind in DRAFTERS), *OTHERS)
    return next((kind.rstrip("-") for kind in kinds if name.startswith(kind)), "model")
