"""The files of a repository that make a model."""

from __future__ import annotations

import pytest

from localspec.base.errors import PullError
from localspec.interfaces.backend_spec import RemoteModel
from localspec.running.models.engines import engine
from localspec.running.pulling.listing import Listing, Remote

GGUF, MLX = engine("llamacpp"), engine("mlx")


def repository(*names: str) -> Listing:
    return Listing("people/one", "c0ffee", tuple(Remote(name, 1, "", True) for name in names))


def gguf(found: Listing, wanted: str, weights: str = "") -> list[str]:
    model = found.choose(GGUF, wanted, weights)
    return [file.name for file in found.remotes(model)]


MANY = repository(
    "README.md",
    "imatrix.gguf",
    "mmproj-one-f16.gguf",
    "mtp-one-Q8_0.gguf",
    "one-Q4_K_M.gguf",
    "one-Q4_K_S.gguf",
    "one-IQ4_K_M.gguf",
    "one-Q8_0-00001-of-00002.gguf",
    "one-Q8_0-00002-of-00002.gguf",
    "BF16/one.BF16-00002-of-00003.gguf",
    "BF16/one.BF16-00001-of-00003.gguf",
    "BF16/one.BF16-00003-of-00003.gguf",
)


@pytest.mark.parametrize(
    ("wanted", "quantisation", "found"),
    [
        ("", "q4_k_m", ["one-Q4_K_M.gguf"]),
        ("", "Q4_K_S", ["one-Q4_K_S.gguf"]),
        ("", "q8_0", ["one-Q8_0-00001-of-00002.gguf", "one-Q8_0-00002-of-00002.gguf"]),
        ("", "bf16", [f"BF16/one.BF16-0000{part}-of-00003.gguf" for part in (1, 2, 3)]),
        ("one-iq4_k_m.gguf", "", ["one-IQ4_K_M.gguf"]),
        ("*Q4_K_S*", "", ["one-Q4_K_S.gguf"]),
        ("mtp-*", "", ["mtp-one-Q8_0.gguf"]),
        (
            "one-Q8_0-00001-of-00002.gguf",
            "",
            ["one-Q8_0-00001-of-00002.gguf", "one-Q8_0-00002-of-00002.gguf"],
        ),
    ],
)
def test_a_model_is_found_by_name_pattern_or_quantisation(wanted, quantisation, found):
    assert gguf(MANY, wanted, quantisation) == found


def test_a_quantisation_is_a_whole_word():
    listing = repository("one-q8_0.gguf", "one-q8_01.gguf", "one-iq8_0.gguf")
    assert gguf(listing, "", "q8_0") == ["one-q8_0.gguf"]


def test_the_only_model_is_meant_whatever_it_is_called():
    only = repository("mmproj-x.gguf", "model.gguf")
    assert gguf(only, "", "q8_0") == gguf(only, "") == ["model.gguf"]


@pytest.mark.parametrize(
    ("wanted", "quantisation", "said"),
    [
        ("", "q3_k_m", "no model for q3_k_m: name one; there are: BF16/one.BF16, one-IQ4_K_M, "),
        ("*K_M*", "", r"several models for \*K_M\*: name one; there are: one-IQ4_K_M, one-Q4_K_M$"),
        ("", "", "several models: name one; there are: BF16/one.BF16, "),
    ],
)
def test_what_is_not_clear_is_told_with_what_there_is(wanted, quantisation, said):
    with pytest.raises(PullError, match=f"people/one has {said}"):
        gguf(MANY, wanted, quantisation)
    with pytest.raises(PullError, match="there are: nothing like a GGUF file"):
        gguf(repository("model.safetensors"), wanted, quantisation)


def test_a_part_that_is_missing_is_named():
    with pytest.raises(PullError, match="lacks part 2 of 3 of m-00001-of-00003"):
        gguf(repository("m-00001-of-00003.gguf", "m-00003-of-00003.gguf"), "")


def test_a_file_that_only_the_engine_knows_of_is_told():
    listing = repository("a.gguf")
    with pytest.raises(PullError, match=r"people/one has no b\.gguf, which its engine asks for"):
        listing.remotes(RemoteModel("a", ("a.gguf", "b.gguf")))


def test_a_folder_is_what_mlx_reads_and_nothing_else():
    listing = repository(
        "config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer.model",
        "chat_template.jinja",
        "modeling_one.py",
        "pytorch_model.bin",
        "onnx/model.json",
        "README.md",
    )
    assert listing.remotes(listing.choose(MLX, "")) == listing.files[:7]
    for lacking in (("config.json",), ("model.safetensors",)):
        with pytest.raises(PullError, match="there are: nothing like an MLX folder"):
            repository(*lacking).choose(MLX, "")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mtp-a.gguf", "mtp"),
        ("sub/eagle3-a.gguf", "eagle3"),
        ("DFlash-a.gguf", "dflash"),
        ("amtp-.gguf", ""),
        ("mmproj-a.gguf", ""),
        ("mtp-a-00001-of-00002.gguf", ""),
    ],
)
def test_a_drafter_beside_a_model_is_known_by_its_name(name, kind):
    drafter = repository("a.gguf", name).drafter(GGUF)
    assert (drafter.role if drafter else "") == kind
    assert repository("a.gguf", name).drafter(MLX) is None


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["mmproj-F32.gguf", "mmproj-BF16.gguf", "mmproj-F16.gguf"], "mmproj-F16"),
        (["mmproj-model-Q8_0.gguf", "sub/mmproj-BF16.gguf"], "sub/mmproj-BF16"),
        (["a.mmproj-f16.gguf"], "a.mmproj-f16"),
        (["a-mmproj-q4_0.gguf"], "a-mmproj-q4_0"),
        (["mmproj-a-f16.gguf", "mmproj-b-f16.gguf"], None),
        ([], None),
    ],
)
def test_a_projector_beside_a_model_is_known_by_its_name(names, chosen):
    projector = repository("a.gguf", *names).projector(GGUF)
    assert (projector.name if projector else None) == chosen
    assert gguf(repository("a.gguf", *names), "") == ["a.gguf"]
    assert repository("a.gguf", *names).projector(MLX) is None


def test_a_repository_is_for_the_engine_that_could_take_what_is_wanted():
    mixed = repository("config.json", "model.safetensors", "one-q4_0.gguf")
    assert mixed.taker([MLX, GGUF], "one-q4_0.gguf") == GGUF
    assert (mixed.taker([MLX, GGUF], ""), mixed.taker([GGUF, MLX], "")) == (MLX, GGUF)
    assert repository().taker([GGUF, MLX], "none") == GGUF
