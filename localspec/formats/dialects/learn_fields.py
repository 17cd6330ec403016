"""Learn how arguments are written one by one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import chain

from localspec.formats.dialects.layout import KEY, Fields, Layout, Middle
from localspec.formats.dialects.probe import ALL_KINDS_CALL, ARGUMENTS, KEYS, KINDS, NAMES, Probe
from localspec.formats.dialects.segments import MARK, common_end, common_start

VALUES = {
    "number": r"7419",
    "boolean": r"[Tt]rue",
    "null": r"null|None",
    "object": r"\{",
    "array": r"\[",
}


@dataclass(frozen=True, slots=True)
class TwoArguments:
    """Two arguments, each a key and a string, and the texts around them.

    before key KEY middle VALUE end between key KEY middle VALUE end after
    """

    before: str
    key: str
    middle: str
    end: str
    between: str
    after: str


def with_fields(layout: Layout, arguments: TwoArguments, probe: Probe) -> Layout:
    """Return the layout with the fields of arguments, as values of all kinds show them."""
    middles = (Middle(arguments.middle),)
    fields = Fields(arguments.key, middles, arguments.end, arguments.between)
    fields = replace(fields, in_order=probe.sorts_keys)
    regions = _regions(probe.reply(ALL_KINDS_CALL).partition(NAMES[0])[2], fields)
    if regions:
        fields = _typed(fields, regions)
    # A key and the end of all arguments must not begin alike.
    shared = "" if fields.between else common_start(fields.key, layout.end)
    key, end = fields.key[len(shared) :], fields.end + shared
    return replace(
        layout,
        name_end=layout.name_end + shared,
        end=layout.end[len(shared) :],
        fields=replace(fields, key=key, end=end, shared=shared),
    )


def two_arguments(text: str) -> TwoArguments | None:
    """Take the text after a name apart, at the keys and values of two arguments."""
    written = [values for values in ARGUMENTS if all(v in text for v in values.values())]
    if not written:
        return None
    parts, left = list[str](), text
    for word in chain.from_iterable(written[0].items()):
        part, match, left = left.partition(word)
        if not match:
            return None
        parts.append(part)
    before, middle, joint, again = parts
    joint, left = joint.replace(KEYS[0], KEY), left.replace(KEYS[1], KEY, 1)
    if middle != again or not middle or not left.strip():
        return None
    key = common_end(before, joint)
    gap = joint[: len(joint) - len(key)]
    end = common_start(gap, left)
    return TwoArguments(
        before[: len(before) - len(key)], key, middle, end, gap[len(end) :], left[len(end) :]
    )


def _regions(text: str, fields: Fields) -> dict[str, str]:
    """Find the text from each key to the next one, by the kind of its value."""
    places = {key: text.find(f"{key}{fields.middles[0].text[:1]}") for key in KINDS}
    starts = {key: at for key, at in places.items() if at >= 0 or KINDS[key][1] is not None}
    if -1 in starts.values() or list(starts.values()) != sorted(starts.values()):
        return {}  # a null may be left out
    return {
        KINDS[key][0]: text[at + len(key) : starts[after]]
        for (key, at), after in zip(starts.items(), list(starts)[1:], strict=False)
    }


def _typed(fields: Fields, regions: dict[str, str]) -> Fields:
    """Find the text before a value of each kind, and around strings."""
    string, number = (regions[kind].partition(word) for kind, word in _PLAIN)
    nested = "'" in regions["object"] or "'" in regions["array"]
    inner = -1 < regions["object"].find("zqin") < regions["object"].find("zqio")
    python = "True" in regions["boolean"]
    fields = replace(fields, python=python, nested=nested, inner_in_order=inner)
    if not number[1]:
        return fields
    if string[0] == number[0]:
        return _untyped(fields, regions)
    if not string[0].startswith(number[0]):  # each kind is marked in a way of its own
        return replace(fields, middles=_middles(regions))
    quotes = string[0].removeprefix(number[0]), string[2].removesuffix(number[2])
    return _quoted(replace(fields, middles=(Middle(number[0]),), quotes=quotes), regions["text"])


def _quoted(fields: Fields, region: str) -> Fields:
    """Return the fields of values whose strings alone have quotes."""
    opening, closing = fields.quotes or ("", "")
    end, between = (text.removeprefix(closing) for text in (fields.end, fields.between))
    fields = replace(fields, end=end, between=between)
    if not fields.key + end + between:  # as loops have it that forget their count
        return replace(fields, between=", ", joined=True)
    raw = opening in ("'", '"') and str(KINDS["zqkg"][1]) in region
    return replace(fields, raw=raw and not end)


def _untyped(fields: Fields, regions: dict[str, str]) -> Fields:
    """Return the fields of values of which strings and numbers are written alike."""
    if item := _item(fields, regions):
        return replace(fields, item=item)
    follows = fields.between.strip() or MARK.match(fields.key)
    quote = fields.end.strip()
    if quote in ("", "'", '"') and follows:
        middle = Middle(fields.middles[0].text.removesuffix(fields.end))
        quotes = (quote, quote) if quote else None
        return replace(fields, middles=(middle,), end="", quotes=quotes, raw=True)
    return replace(fields, wrapping=_wrapping(fields, regions["text"]))


_PLAIN = (("string", "zqva"), ("number", "7419"))


def _item(fields: Fields, regions: dict[str, str]) -> str:
    """Find the key of a list's items, where objects and lists are written as arguments are."""

    def written(key: str, value: str) -> str:
        return f"{fields.key}{key}{fields.middles[0].text}{value}{fields.for_key(key).end}"

    if written("zqin", "zqvi") not in regions["object"]:
        return ""
    item = re.search(rf"(\w+)\W*{re.escape(fields.middles[0].text)}zqvl", regions["array"])
    return item[1] if item and written(item[1], "zqvl") in regions["array"] else ""


def _middles(regions: dict[str, str]) -> tuple[Middle, ...]:
    """List the texts between keys and values, each with the kinds of values it is for."""
    kinds: dict[str, set[str]] = {regions["string"].partition("zqva")[0]: {"string"}}
    for kind, pattern in VALUES.items():
        region = regions.get(kind, "")
        if starts := [match.start() for match in re.finditer(pattern, region)]:
            at = starts[0] if kind in ("object", "array") else starts[-1]
            kinds.setdefault(region[:at], set()).add(kind)
    return tuple(Middle(text, frozenset(names)) for text, names in kinds.items())


def _wrapping(fields: Fields, region: str) -> tuple[str, str] | None:
    """Find the texts around a string that has characters of markup, e.g. those of CDATA."""
    _, value = KINDS["zqkg"]
    before, shown, after = region.partition(str(value))
    opening = before.removeprefix(fields.middles[0].text)
    closing = after.partition(fields.end.strip())[0] if fields.end.strip() else ""
    return (opening, closing) if shown and opening and closing else None
