"""The functions of the seam, over a scripted model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from localspec.base.errors import ModelFileError, UsageError
from localspec.base.system import free_memory
from localspec.base.tokens import Logits
from localspec.interfaces.backend import Build, Device, Footprint, Needs, Options, Progress, silent
from localspec.interfaces.testing import Alphabet, ScriptedModel
from localspec_toy.calls import noted, stay

MAGIC, MOST_BYTES = "TOY", 1 << 20
BYTES, END = 256, 256  # tokens: one for each byte, and one that ends a text
ORDER = 4  # bytes by which the model knows where in its text it is
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"


def inspect(path: Path) -> Footprint:
    noted("inspect")
    name, context, text = parts(path)
    return Footprint(
        path=path,
        architecture="parrot",
        name=name,
        quantisation="text",
        file_bytes=path.stat().st_size,
        weight_bytes=len(text),
        layers=1,
        heads=0,
        kv_heads=0,
        embedding=0,
        vocabulary=BYTES + 1,
        context=context,
        tokenizer="bytes",
        chat_template=TEMPLATE,
    )


def parts(path: Path) -> tuple[str, int, bytes]:
    """The name, the context and the text of a model; no file is too hostile for this."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror}") from error
    head, _, text = data.partition(b"\n")
    words = head.decode(errors="replace").split()
    if len(words) != 3 or words[0] != MAGIC or not words[2].isdecimal() or len(words[2]) > 6:
        raise ModelFileError(f"{path.name} does not begin with `{MAGIC} name context`")
    return words[1], int(words[2]), text


@dataclass(frozen=True)
class ToyRehearsal:
    footprint: Footprint

    @property
    def tokenizer(self) -> Alphabet:
        return alphabet()

    def needs(self, options: Options) -> Needs:
        check(options)
        cells = (options.context or self.footprint.context) * options.slots
        return Needs(self.footprint.weight_bytes, 4 * cells, 4 * (BYTES + 1) * options.batch)


@contextmanager
def rehearse(path: Path) -> Iterator[ToyRehearsal]:
    yield ToyRehearsal(inspect(path))


def check(options: Options) -> None:
    if options.kv_type != "auto":
        raise UsageError(f"KV type {options.kv_type!r} is not for toys: omit --kv-type")


def alphabet() -> Alphabet:
    alphabet = Alphabet([bytes([byte]) for byte in range(BYTES)] + [b""], ends=(END,))
    alphabet.chat_template = TEMPLATE
    return alphabet


def load(path: Path, options: Options, tell: Progress = silent) -> ScriptedModel:
    noted("load")
    stay("load")
    check(options)
    _, context, text = parts(path)

    def logits(held: Sequence[int]) -> Logits:
        """The byte that comes next in the text, behind the last place that reads like this one."""
        stay("forward")
        array = np.zeros(BYTES + 1, np.float32)
        last = bytes(token for token in held[-ORDER:] if token < BYTES)
        at = text.rfind(last) + len(last) if last in text else 0
        array[text[at] if at < len(text) else END] = 20.0
        return array

    model = ScriptedModel(logits, alphabet())
    model.slots, model.batch, model.tentative = options.slots, options.batch, options.tentative
    model.context = options.context or context
    model.pool = model.context * options.slots
    return model


def probe() -> list[Device]:
    noted("probe")
    return [replace(free_memory.memory(), name="toy box")]


def build() -> Build:
    noted("build")
    return Build("1.0", ("CPU",))
