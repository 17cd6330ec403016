"""The part of a model folder by which it takes pictures: its tower, and how pictures are scaled.

The tower's weights lie among the others. What is published for processors of pictures, sizes and
means, is in a file beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from localspec.base.errors import ModelFileError, UsageError
from localspec.interfaces.file_tools import Projector
from localspec_mlx.folder import config as configuration
from localspec_mlx.folder import shards
from localspec_mlx.folder.config import Config
from localspec_mlx.folder.files import Object, read, refuse

if TYPE_CHECKING:
    from localspec.base.model_files import RemoteModel
    from localspec_mlx.call import BothWays

# Of pictures and sounds; mlx-lm's definitions leave them out.
TOWERS = ("vision_tower.", "multi_modal_projector.", "embed_vision.")
SOUNDS = ("audio_tower.", "embed_audio.")
OTHER_TOWERS = ("vision", "visual", "image_newline")  # in names of models that are not read here
PROCESSORS = ("preprocessor_config.json", "processor_config.json")  # the later one counts
MOST = 1 << 16  # of any number of a tower
# The numbers of towers, where a configuration leaves them out.
SIGLIP: Mapping[str, int] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "image_size": 896,
    "patch_size": 14,
}
GEMMA4: Mapping[str, int] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 16,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "head_dim": 64,
    "patch_size": 16,
    "pooling_kernel_size": 3,
    "position_embedding_size": 10_240,
}

Scaling = Literal["square", "in proportion"]
Size = tuple[int, int]  # width and height


@dataclass(frozen=True, slots=True)
class PictureSettings:
    """How a model takes pictures.

    model_type: of the model, by which its tower is chosen
    width: numbers of an embedding
    tower: the settings of its tower
    patch, pooled: pixels of a side of a patch; patches of a side of a position
    most: positions of a picture, at most
    around: the tokens before and after it
    both_ways: the layers of the model in which its positions see each other
    mean, deviation: of each colour, from 0 to 1
    smooth: whether it is scaled by cubic curves rather than linearly
    """

    model_type: str
    width: int
    tower: Mapping[str, Any]
    patch: int
    pooled: int
    most: int
    scaling: Scaling
    around: tuple[int, int]
    both_ways: BothWays
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    smooth: bool

    @property
    def unit(self) -> int:
        """The pixels of a side of a position."""
        return self.patch * self.pooled

    @property
    def patches(self) -> int:
        return self.most * self.pooled**2

    def size(self, width: int, height: int) -> Size:
        """Choose the size to which a picture is scaled, in whole positions."""
        if self.scaling == "square":
            side = math.isqrt(self.most) * self.unit
            return side, side
        scale = math.sqrt(self.most * self.unit**2 / (width * height))
        across, down = (int(scale * side / self.unit) for side in (width, height))
        if not down:
            across, down = min(width // height, self.most), 1
        elif not across:
            across, down = 1, min(height // width, self.most)
        return across * self.unit, down * self.unit

    def positions(self, size: Size) -> int:
        return size[0] // self.unit * (size[1] // self.unit)


def tower_in(folder: Path) -> Projector | str:
    """Find whether a folder takes pictures; else return why not, "" where nothing is for them."""
    try:
        kind, names = configuration.read(folder).model_type, shards.read(folder).sizes
    except ModelFileError:  # which is told when it is loaded
        return ""
    try:
        if kind in FAMILIES and any(map(is_of_pictures, names)):
            return described_tower(folder)
    except ModelFileError as error:
        return str(error)
    if any(part in name for name in names for part in OTHER_TOWERS):
        return not_read(kind)
    return ""


def described_tower(folder: Path) -> Projector:
    """Describe the part of a folder that takes pictures; `UsageError` where there is none."""
    if not folder.is_dir():
        raise UsageError(f"{folder.name} is for GGUF models: an MLX folder has its own, omit it")
    picture_settings(folder)
    return Projector(folder, frozenset(("image",)))


def not_read(kind: str) -> str:
    return f"pictures of a {kind} are not read from an MLX folder: take its GGUF form for them"


def none_to_download(_: Sequence[RemoteModel]) -> None:
    """Choose none: it comes with the model."""


def nothing_missing() -> str:
    return ""


def is_of_pictures(name: str) -> bool:
    """Return whether a tensor belongs to a tower for pictures."""
    return name.removeprefix("model.").startswith(TOWERS)


def is_beside_text(name: str) -> bool:
    """Return whether a tensor belongs to a tower for pictures or sounds."""
    return is_of_pictures(name) or name.removeprefix("model.").startswith(SOUNDS)


def picture_settings(folder: Path) -> PictureSettings:
    """Read how the model in a folder takes pictures."""
    config = configuration.read(folder)
    if config.model_type not in FAMILIES:
        raise UsageError(not_read(config.model_type))
    tower = config.values.get("vision_config")
    if not isinstance(tower, dict):
        refuse(config.path, "has no vision_config: choose another conversion")
    processor: dict[str, object] = {}
    for name in PROCESSORS:
        values = read(folder / name)
        inner = values.get("image_processor")
        processor |= inner if isinstance(inner, dict) else values
    return FAMILIES[config.model_type](config, tower, processor)


def gemma3(config: Config, tower: Mapping[str, Any], processor: Object) -> PictureSettings:
    """A square of 896 pixels in patches of 14, of which 16 are averaged to a position."""
    positions = whole(config, config.values, "mm_tokens_per_image", 256)
    tower = {**tower, **{name: whole(config, tower, name, n) for name, n in SIGLIP.items()}}
    side, patch = tower["image_size"], tower["patch_size"]
    pooled = side // patch // math.isqrt(positions)
    if side != math.isqrt(positions) * pooled * patch or positions != math.isqrt(positions) ** 2:
        refuse(config.path, f"makes {positions} positions of {side} pixels in patches of {patch}")
    return PictureSettings(
        config.model_type,
        whole(config, {**config.values, **config.text}, "hidden_size", 0),
        tower,
        patch,
        pooled,
        positions,
        "square",
        around(config, ("boi_token_index", 255_999), ("eoi_token_index", 256_000)),
        "everywhere",
        *colours(config, processor, 0.5, 0.5),
        smooth=processor.get("resample") == 3,
    )


def gemma4(config: Config, tower: Mapping[str, Any], processor: Object) -> PictureSettings:
    """Up to 280 positions in the picture's own proportions, each of 3 x 3 patches of 16 pixels."""
    tower = {**tower, **{name: whole(config, tower, name, n) for name, n in GEMMA4.items()}}
    patch, pooled = tower["patch_size"], tower["pooling_kernel_size"]
    most = whole(config, processor, "max_soft_tokens", 280)
    if tower["position_embedding_size"] < most * pooled or tower["head_dim"] % 4:
        refuse(config.path, f"has too few places, or odd heads, for {most} positions in a row")
    own = config.text.get("use_bidirectional_attention")
    return PictureSettings(
        config.model_type,
        whole(config, {**config.values, **config.text}, "hidden_size", 0),
        tower,
        patch,
        pooled,
        most,
        "in proportion",
        around(config, ("boi_token_id", 255_999), ("eoi_token_id", 258_882)),
        "windows" if own == "vision" else "nowhere",
        *colours(config, processor, 0.0, 1.0),
        smooth=processor.get("resample", 3) == 3,
    )


FAMILIES: Mapping[str, Callable[[Config, Mapping[str, Any], Object], PictureSettings]] = {
    "gemma3": gemma3,
    "gemma4": gemma4,
}


def whole(config: Config, values: Object, name: str, default: int) -> int:
    """Read a whole number of a tower."""
    value = values.get(name, default)
    if type(value) is not int or not 1 <= value <= MOST:
        refuse(config.path, f"has {name} {value!r} for pictures; it must be 1 to {MOST:,}")
    return value


def around(config: Config, *names: tuple[str, int]) -> tuple[int, int]:
    """Read the tokens that stand before and after a picture."""
    begin, end = (config.number((name,)) or default for name, default in names)
    vocabulary = config.number(configuration.TOKENS)
    if vocabulary and max(begin, end) >= vocabulary:
        refuse(config.path, f"has no tokens {begin:,} and {end:,}, to stand around pictures")
    return begin, end


def colours(
    config: Config, processor: Object, mean: float, deviation: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Read the mean and the deviation of each colour."""
    if processor.get("do_normalize") is False:
        return (0.0,) * 3, (1.0,) * 3
    both = []
    for name, default in (("image_mean", mean), ("image_std", deviation)):
        value = processor.get(name, default)
        numbers = value if isinstance(value, list) else [value] * 3
        usable = tuple(float(number) for number in numbers if is_usable(number))
        if not len(numbers) == len(usable) == 3:
            refuse(config.path, f"belongs to {name} {value!r}, which is no number for each colour")
        both.append(usable)
    if not all(both[1]):
        refuse(config.path, "belongs to an image_std of 0, by which nothing can be divided")
    return both[0], both[1]


def is_usable(number: object) -> TypeGuard[int | float]:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return math.isfinite(number) and abs(number) < MOST
