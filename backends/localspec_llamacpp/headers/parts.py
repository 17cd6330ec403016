"""A model that is cut into several files, of which the first is given."""

from __future__ import annotations

import re
from dataclasses import replace

from localspec_llamacpp.headers.header import AGAIN, read
from localspec_llamacpp.headers.metadata import Header

PART = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf")


def whole(first: Header) -> Header:
    """Join the headers of a model's parts: all tensors and bytes."""
    parts = first.number("split.count")
    if parts < 2:
        return first
    names = part_names(first, parts)
    headers = [first]
    for part, name in enumerate(names[1:], 2):
        path = first.path.with_name(name)
        if not path.exists():
            first.refuse(f"is part 1 of {parts}; part {part} is missing: {name}")
        header = read(path)
        number = header.number("split.no") + 1
        if number != part:
            header.refuse(f"says it is part {number}, but lies where part {part} should: {AGAIN}")
        headers.append(header)
    return joined(headers)


def part_names(first: Header, parts: int) -> list[str]:
    number = first.number("split.no") + 1
    match = PART.fullmatch(first.path.name)
    named = match and (int(match["part"]), int(match["parts"])) == (number, parts)
    if not match or not named:
        first.refuse(
            f"is part {number} of {parts}, but is not named so: "
            f"rename it to end in -{number:05}-of-{parts:05}.gguf"
        )
    names = [f"{match['stem']}-{part:05}-of-{parts:05}.gguf" for part in range(1, parts + 1)]
    if number != 1:
        first.refuse(f"is part {number} of {parts}: give part 1, {names[0]}")
    return names


def joined(headers: list[Header]) -> Header:
    tensors = tuple(tensor for header in headers for tensor in header.tensors)
    size = sum(header.file_bytes for header in headers)
    return replace(headers[0], tensors=tensors, file_bytes=size)
