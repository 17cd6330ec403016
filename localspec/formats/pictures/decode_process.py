"""Decodes pictures in a confined process, which loads this file by its path."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from io import BytesIO
from typing import Any

from PIL import Image, ImageOps, UnidentifiedImageError

MAX_ERROR_CHARACTERS = 200  # characters of what is wrong with a file


def coloured(image: Image.Image) -> Image.Image:
    """Convert a picture to red, green and blue; what is transparent lies on white."""
    if image.mode.startswith("I"):  # 16 bits of grey, of which a conversion would cut the upper
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L").convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    white = Image.new("RGB", layer.size, "white")
    white.paste(layer, mask=layer.getchannel("A"))
    return white


def confine(memory_bytes: int) -> None:
    """Limit the memory of this process, where the system can."""
    if sys.platform == "linux":  # elsewhere the program looks how much is taken
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def respond(request: dict[str, Any], data: bytes) -> tuple[dict[str, object], bytes]:
    confine(request["memory_bytes"])
    Image.MAX_IMAGE_PIXELS = request["max_pixels"]
    warnings.simplefilter("ignore")
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    return decoded(request["part"], request["kind"], data)


def decoded(part: str, kind: str, data: bytes) -> tuple[dict[str, object], bytes]:
    """Return the size, and for "rgb" the pixels of the first frame; or why it is "refused"."""
    try:
        # Reads the header, and refuses more pixels than `Image.MAX_IMAGE_PIXELS`.
        with Image.open(BytesIO(data), formats=(kind,)) as image:
            if part == "size":
                return {"width": image.width, "height": image.height}, b""
            image.load()
            with suppress(Exception):  # whatever a stranger's metadata bring about
                ImageOps.exif_transpose(image, in_place=True)
            plain = coloured(image)
        return {"width": plain.width, "height": plain.height}, plain.tobytes()
    except UnidentifiedImageError:
        return {"refused": "it is broken or cut off"}, b""
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        return {"refused": str(error).partition(", ")[0] + ": send it smaller"}, b""
    except MemoryError:
        return {"refused": "it needs more memory than a picture may have"}, b""
    except Exception as error:  # whatever a stranger's file brings about
        words = " ".join(str(error).split())[:MAX_ERROR_CHARACTERS]
        return {"refused": words or type(error).__name__}, b""
