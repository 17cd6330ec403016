"""Real engines over tiny random models, each written and loaded once."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from localspec.core.pairing.translated import Translated
from localspec.core.pairing.vocabulary import match
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.first_of import FirstOf
from localspec.core.proposers.head import HeadProposer
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.interfaces.backend import Model, Options
from localspec.running.models.engines import engine
from localspec_llamacpp import backend as llamacpp
from tests import tiny_gemma4, tiny_vision
from tests.arrangements import Running
from tests.tiny import ARCHITECTURES, WITH_HEADS, Head, write, write_head

if sys.platform == "win32":  # there is no MLX for it
    MLX: tuple[str, ...] = ()
    MLX_HEADS: tuple[str, ...] = ()
    MLX_SIGHTED: tuple[str, ...] = ()
else:
    from localspec_mlx import backend as mlx
    from tests import tiny_mlx, tiny_mlx_vision

    MLX = tuple(f"mlx {name}" for name in tiny_mlx.ARCHITECTURES)
    MLX_HEADS = tuple(f"mlx {name}" for name in tiny_mlx.WITH_HEADS)
    MLX_SIGHTED = tuple(f"mlx {name}" for name in tiny_mlx_vision.SIGHTED)

__all__ = [
    *("ARCHITECTURES", "HEADS", "MLX", "MLX_HEADS", "MLX_SIGHTED", "SOME_HEADS", "WITH_HEADS")
]

GGUF_ENGINE, MLX_ENGINE = engine("llamacpp"), engine("mlx")


def there(*names: str) -> list[str]:
    """Choose those models that can run on this system."""
    return [name for name in names if name in (*ARCHITECTURES, *MLX)]


# Models with a drafting head, inside their file or in one beside it.
BESIDE = {
    "llama-eagle3": ("llama-soft", "eagle3"),
    "qwen35-eagle3": ("qwen35", "eagle3"),
    "gemma3-eagle3": ("gemma3", "eagle3"),  # whose layers are watched
    "llama-dflash": ("llama", "dflash"),
    "llama-dspark": ("llama", "dflash-spark"),
    "llama-dflash2": ("llama", "dflash-two"),
    "qwen35-dflash": ("qwen35", "dflash-hybrid"),
}
COMPANION = "gemma4-mtp"  # whose head looks into its memory
HEADS = dict.fromkeys((*WITH_HEADS, COMPANION), "mtp")  # the proposers, by model
HEADS |= {name: name.rpartition("-")[2] for name in MLX_HEADS}
HEADS |= {name: kind.partition("-")[0] for name, (_, kind) in BESIDE.items()}

# Slow ones, of whose kind others are tried first.
LATER = {f"mlx {name}" for name in ("qwen3", "qwen3_moe", "qwen3_next", "mamba2", "falcon_h1")}
LATER |= {"mlx nemotron_h", "mlx granitemoehybrid"}

# Where a head changes little, some of MLX stand for all, as it is slow on a processor: one that
# keeps keys, and both kinds that keep nothing.
ALIKE = ("gemma4_text-mtp", "llama-eagle", "llama-eagle3", "qwen3_5-dflash")
SOME_HEADS = [name for name in HEADS if name.removeprefix("mlx ") not in ALIKE]

HEAD = Head()
OPTIONS = Options(slots=4, context=512, batch=64, threads=1, tentative=8)


@cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="localspec-tiny-"))


@cache
def tiny(architecture: str, *, seed: int = 0, layout: str = "plain", head: Head = HEAD) -> Path:
    path = folder() / f"{architecture}-{seed}-{layout}-{hash(head)}.gguf"
    return write(path, architecture, seed=seed, layout=layout, head=head)


@cache
def tiny_folder(architecture: str, *, drift: float = 0.0, layout: str = "plain") -> Path:
    path = folder() / f"mlx-{architecture}-{drift}-{layout}"
    if architecture in tiny_mlx.WITH_HEADS:
        kind = architecture.rpartition("-")[2]
        tiny_mlx.write_with_head(path, tiny_mlx.WITH_HEADS[architecture], kind)
        return path
    return tiny_mlx.write(path, architecture, drift=drift, layout=layout)


def target(name: str, **options) -> Model:
    """A model by its architecture, in GGUF unless it begins with `mlx`."""
    wishes = replace(OPTIONS, **options)
    path, head = with_head(name)
    wishes = replace(wishes, head=options.get("head", head))
    if path.is_dir():
        return mlx.load(path, replace(wishes, threads=None, flash_attention=None))
    return llamacpp.load(path, roomy(wishes))


def with_head(name: str) -> tuple[Path, Path | None]:
    """A model by its architecture, and the file of its head if it has one."""
    if name == COMPANION:
        return companion()
    if name in BESIDE:
        target, kind = BESIDE[name]
        return tiny(target), beside(target, kind)
    path = tiny_folder(name[4:]) if name.startswith("mlx ") else tiny(name)
    head = path / "head"
    return path, (head if head.exists() else path) if name in HEADS else None


def apart(name: str) -> Path:
    """Make a folder for a projector, which could be for any model beside it."""
    path = folder() / name
    path.mkdir()
    return path


@cache
def sighted_files(name: str) -> tuple[Path, Path]:
    """A model that sees, and its projector."""
    return tiny_vision.write_sighted(apart(f"{name}-sees"), name)


@cache
def projector_beside(name: str) -> Path:
    """A projector for a model whose head lies in a file of its own."""
    target = name.partition("-")[0]
    kind = "gemma3" if target == "gemma4" else target
    return tiny_vision.write_projector(apart(f"{name}-projector") / "mmproj.gguf", kind)


@cache
def sighted_folder(name: str) -> Path:
    """An MLX folder of a model that sees."""
    return tiny_mlx_vision.write(apart(f"{name}-sees"), name.removeprefix("mlx "))


def sighted(name: str, **options) -> Model:
    if name in MLX_SIGHTED:
        path = sighted_folder(name)
        wishes = {"slots": 8, "batch": 256, "projector": path} | options
        wishes |= {"threads": None, "flash_attention": None}
        return mlx.load(path, replace(OPTIONS, **wishes))
    if name in tiny_vision.SIGHTED:
        path, projector = sighted_files(name)
        head = path if name in HEADS else None
    else:
        (path, head), projector = with_head(name), projector_beside(name)
    wishes = {"slots": 8, "batch": 256, "head": head, "projector": projector} | options
    return llamacpp.load(path, roomy(replace(OPTIONS, **wishes)))


@cache
def companion() -> tuple[Path, Path]:
    target = tiny_gemma4.write_target(folder() / "gemma4.gguf")
    return target, tiny_gemma4.write_assistant(folder() / "mtp-gemma4.gguf", target)


@cache
def beside(target: str, kind: str) -> Path:
    return write_head(folder() / f"{kind}-of-{target}.gguf", kind, tiny(target))


def roomy(options: Options) -> Options:
    """Give each slot as much room, also where slots share a pool."""
    each = options.context or 0
    options = Running.now.arranged(options)
    return options if options.bit_exact else replace(options, context=each * options.slots)


def draft(name: str = "llama", **options) -> Model:
    """A model that says much the same as the target of its architecture."""
    wishes = replace(OPTIONS, drafting=True, **options)
    if name in MLX:
        path = tiny_folder(name[4:], drift=0.2)
        return mlx.load(path, replace(wishes, threads=None))
    return llamacpp.load(tiny(name, head=Head(drift=0.2)), roomy(wishes))


def strange_draft(target: Model) -> Translated:
    """A draft with another vocabulary."""
    path = tiny("llama", layout="shuffled", head=Head(drift=0.2))
    model = llamacpp.load(path, roomy(replace(OPTIONS, drafting=True)))
    return Translated(
        model, target.tokenizer, match(target.tokenizer, model.tokenizer), target.vocabulary
    )


def proposer(name: str, target: Model):
    """A proposer and the models that must be closed with it."""
    if name == "silent":
        return Silent(), []
    if name == "ngram":
        return NgramProposer(3, 1), []
    if name in HEADS.values():
        return HeadProposer(target.head, floor=0.0), []
    architecture = name.removesuffix(" first-of")
    model = strange_draft(target) if name == "translated" else draft(architecture)
    made = DraftModelProposer(model, floor=0.2)
    return (
        FirstOf({"ngram": NgramProposer(3, 2), "draft-model": made})
        if name.endswith("first-of")
        else made
    ), [model]
