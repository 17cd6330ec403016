"""The form in which files hold a text.

After its tokens comes JSON: the scales of the adapters that it was computed with, and on a line of
its own the names of its pictures and sounds, whose numbers mean something in one process only. In
a file they are numbered as if no other text had any.
"""

from __future__ import annotations

import json

import numpy as np

from localspec.base.tokens import Tokens
from localspec.interfaces.adapter import Scales
from localspec.interfaces.media import RunName
from localspec.interfaces.media_positions import NUMBERS, Numbers, names_in

MAX_BYTES = 1 << 20  # of what comes after the tokens


def pack(tokens: Tokens, adapters: Scales, numbers: Numbers = NUMBERS) -> bytes:
    runs = list(names_in(tokens, numbers))
    lines = [json.dumps(adapters)] if adapters or runs else []
    if runs:
        own = Numbers()
        tokens = tokens.copy()
        for at, name in runs:
            tokens[at : at + name.length] += own.first(name) - numbers.first(name)
        lines.append(json.dumps([(n.digest.hex(), n.piece, n.length) for n in own.names]))
    return tokens.astype("<i4").tobytes() + "\n".join(lines).encode()


def unpack(data: bytes, count: int, numbers: Numbers = NUMBERS) -> tuple[Tokens, Scales]:
    """Read a text of so many tokens; its media get numbers of this process."""
    tokens = np.frombuffer(data, "<i4", count).astype(np.int32)
    scales, _, names = data[4 * count :].partition(b"\n")
    adapters = tuple((int(number), float(scale)) for number, scale in json.loads(scales or "[]"))
    own, stored = Numbers(), tokens.copy()
    for digest, piece, length in json.loads(names or "[]"):
        name = RunName(bytes.fromhex(digest), piece, length)
        first = own.first(name)
        tokens[(stored <= first) & (stored > first - length)] += numbers.first(name) - first
    return tokens, adapters
