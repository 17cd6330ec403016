"""Projectors: described by their headers, and found beside a model where no other can be meant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from localspec.base.errors import ModelFileError, UsageError
from localspec.interfaces.file_tools import Projector
from localspec_llamacpp.headers.projector import describe, find_projector
from tests.backends.gguf_files import Plain, gguf, model

WIDTH = 64  # of the models here
F16, BF16, F32 = 1, 32, 0
CLIP: dict[str, Plain] = {
    "general.architecture": "clip",
    "general.type": "mmproj",
    "clip.has_vision_encoder": True,
    "clip.vision.projection_dim": WIDTH,
}


def projector(name: str = "", kind: int = F16, width: int = WIDTH, **more: Plain) -> bytes:
    pairs = {**CLIP, "general.file_type": kind, "clip.vision.projection_dim": width, **more}
    pairs |= {"general.basename": name} if name else {}
    return gguf(pairs, [("v.patch_embd.weight", (4, 4), 0, 64), ("mm.0.weight", (4, 8), 1, 64)])


def laid_out(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files by their names; return the path of the first."""
    paths = [folder / f"{name}.gguf" for name in files]
    for path, content in zip(paths, files.values(), strict=True):
        path.write_bytes(content)
    return paths[0]


def named(name: str) -> bytes:
    return model({"/general.basename": name})


def taken(path: Path) -> str:
    """The name of the projector that is found, or why none is."""
    match find_projector(path):
        case Projector(path=found):
            return found.name
        case why:
            return str(why)


def test_an_only_projector_beside_an_only_model_is_its_own(tmp_path):
    path = laid_out(tmp_path, {"one-Q8_0": model(), "mmproj-F16": projector(width=7)})
    assert taken(path) == "mmproj-F16.gguf"


def test_what_is_broken_or_only_called_so_is_no_projector(tmp_path):
    files = {"one": model(), "imatrix-one": model(), "mmproj-one": b"GGUF", "mmproj-two": model()}
    assert taken(laid_out(tmp_path, files)) == ""


def test_of_one_projector_in_several_types_the_preferred_is_taken(tmp_path):
    kinds = {"mmproj-F32": F32, "mmproj-BF16": BF16, "mmproj-F16": F16}
    files = {name: projector("x", kind) for name, kind in kinds.items()}
    path = laid_out(tmp_path, {"one": model(), **files})
    assert taken(path) == "mmproj-F16.gguf"
    (tmp_path / "mmproj-F16.gguf").unlink()
    assert taken(path) == "mmproj-BF16.gguf"


def test_one_model_in_several_types_is_an_only_one(tmp_path):
    names = "one-Q4_K_M", "one-UD-Q8_0", "one-BF16-00001-of-00002", "one-BF16-00002-of-00002"
    files = {**dict.fromkeys(names, model()), "mtp-one": model(), "mmproj-F16": projector()}
    assert taken(laid_out(tmp_path, files)) == "mmproj-F16.gguf"


def test_among_several_models_the_name_in_a_header_decides(tmp_path):
    models = {"first": named("one"), "second": named("two"), "third": named("x")}
    files = {**models, "mmproj-a": projector("One"), "mmproj-b": projector("Two")}
    path = laid_out(tmp_path, files)
    assert taken(path) == "mmproj-a.gguf"
    assert taken(tmp_path / "second.gguf") == "mmproj-b.gguf"
    assert taken(tmp_path / "third.gguf") == ""


def test_among_several_models_the_name_of_a_file_decides_too(tmp_path):
    models = dict.fromkeys(("one-4b-it-Q8_0", "two-4b", "two-4b2"), model())
    files = dict.fromkeys(("mmproj-one-4b-f16", "two-4b.mmproj-f16"), projector())
    path = laid_out(tmp_path, {**models, **files})
    assert taken(path) == "mmproj-one-4b-f16.gguf"
    assert taken(tmp_path / "two-4b.gguf") == "two-4b.mmproj-f16.gguf"


def test_a_projector_of_another_width_is_for_another_model(tmp_path):
    files = {"one": named("x"), "two": named("x"), "mmproj-x": projector("x", width=128)}
    assert taken(laid_out(tmp_path, files)) == ""


def test_beside_an_only_model_a_projector_of_its_width_needs_no_name(tmp_path):
    path = laid_out(
        tmp_path, {"one": model(), "mmproj-a": projector(), "mmproj-b": projector(width=128)}
    )
    assert taken(path) == "mmproj-a.gguf"


@pytest.mark.parametrize("name", ["", "x"])
def test_what_names_no_model_is_taken_for_none_of_several_and_not_mentioned(tmp_path, name):
    path = laid_out(tmp_path, {"one": model(), "two": model(), "mmproj-F16": projector(name)})
    assert taken(path) == ""


def test_of_two_that_suit_a_model_neither_is_taken(tmp_path):
    one, other = projector("x", **{"general.name": "A"}), projector("x", **{"general.name": "B"})
    path = laid_out(tmp_path, {"one": named("x"), "mmproj-a": one, "mmproj-b": other})
    assert taken(path) == "mmproj-a.gguf and mmproj-b.gguf suit it: give one with --mmproj"


@pytest.mark.parametrize(
    ("more", "kinds"),
    [
        ({}, {"image"}),
        ({"clip.has_audio_encoder": True}, {"image", "audio"}),
        ({"clip.has_audio_encoder": True, "clip.has_vision_encoder": False}, {"audio"}),
    ],
)
def test_a_header_tells_what_a_projector_takes(tmp_path, more, kinds):
    path = laid_out(tmp_path, {"mmproj": projector(**more)})
    assert describe(path) == Projector(path, frozenset(kinds))


def test_a_model_is_no_projector(tmp_path):
    with pytest.raises(UsageError, match=r"^one\.gguf is no projector: its architecture is llama;"):
        describe(laid_out(tmp_path, {"one": model()}))
    with pytest.raises(ModelFileError, match="is empty"):
        describe(laid_out(tmp_path, {"mmproj": b""}))
