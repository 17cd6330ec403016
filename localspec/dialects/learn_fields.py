"""Find out how arguments are written one by one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import chain

from localspec.dialects.layout import KEY, Fields, Layout, Middle
from localspec.dialects.probe import ARGUMENTS, KEYS, KINDS, NAMES, Probe, calls, of_all_kinds
from localspec.dialects.segments import MARK, common_end, common_start

VALUES = {
    "number": r"7419",
    "boolean": r"[Tt]rue",
    "null": r"null|None",
    "object": r"\{",
    "array": r"\[",
}


@dataclass(frozen=True, slots=True)
class TwoArguments:
    """Two arguments, each a key and a string, and the texts around them."""

    before: str
    key: str
    middle: str
    end: str
    between: str
    after: str

    def described(self, layout: Layout, probe: Probe) -> Layout:
        """The layout with all that other kinds of values tell of it."""
        turned = probe.reply(calls(dict(reversed(ARGUMENTS[0].items())))).partition(NAMES[0])[2]
        in_order = -1 < turned.find(KEYS[0]) < turned.find(KEYS[1])
        middles = (Middle(self.middle),)
        fields = Fields(self.key, middles, self.end, self.between, in_order=in_order)
        text = probe.reply(of_all_kinds())
        regions = _regions(text.partition(NAMES[0])[2], fields)
        return _parted(replace(layout, fields=_typed(fields, regions) if regions else fields))


def _parted(layout: Layout) -> Layout:
    """The same layout, in which a key and the end of all arguments begin differently."""
    fields = layout.fields
    assert fields is not None
    shared = "" if fields.between else common_start(fields.key, layout.end)
    return replace(
        layout,
        name_end=layout.name_end + shared,
        end=layout.end[len(shared) :],
        fields=replace(
            fields, key=fields.key[len(shared) :], end=fields.end + shared, shared=shared
        ),
    )


def fields(text: str) -> TwoArguments | None:
    """Arguments after a name, as they are written with a first and a second value."""
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
    fields = replace(
        fields, python="True" in regions["boolean"], nested=nested, inner_in_order=inner
    )
    if not number[1]:
        return fields
    middle, quote = number[0], string[0].removeprefix(number[0])
    if string[0] != number[0] and string[0].startswith(middle):
        closing = string[2].removesuffix(number[2])
        fields = replace(
            fields,
            middles=(Middle(middle),),
            end=fields.end.removeprefix(closing),
            between=fields.between.removeprefix(closing),
            quotes=(quote, closing),
        )
        if not fields.key + fields.end + fields.between:  # as loops have it that forget their count
            return replace(fields, between=", ", joined=True)
        raw = quote in ("'", '"') and str(KINDS["zqkg"][1]) in regions["text"]
        return replace(fields, raw=raw and not fields.end)
    if string[0] != number[0]:
        return replace(fields, middles=_middles(regions))
    if item := _item(fields, regions):
        return replace(fields, item=item)
    follows = fields.between.strip() or MARK.match(fields.key)
    if fields.end.strip() in ("", "'", '"') and follows:
        middle, quote = fields.middles[0].text.removesuffix(fields.end), fields.end.strip()
        quotes = (quote, quote) if quote else None
        return replace(fields, middles=(Middle(middle),), end="", quotes=quotes, raw=True)
    return replace(fields, wrapping=_wrapping(fields, regions["text"]))


_PLAIN = (("string", "zqva"), ("number", "7419"))


def _item(fields: Fields, regions: dict[str, str]) -> str:
    """Find the key of a list's items, where objects and lists are written as arguments are."""

    def written(key: str, value: str) -> str:
        return f"{fields.key}{key}{fields.middles[0].text}{value}{fields.of(key).end}"

    if written("zqin", "zqvi") not in regions["object"]:
        return ""
    item = re.search(rf"(\w+)\W*{re.escape(fields.middles[0].text)}zqvl", regions["array"])
    return item[1] if item and written(item[1], "zqvl") in regions["array"] else ""


def _middles(regions: dict[str, str]) -> tuple[Middle, ...]:
    """One middle for each text that stands before values, with the kinds it is for."""
    kinds: dict[str, set[str]] = {regions["string"].partition("zqva")[0]: {"string"}}
    for kind, pattern in VALUES.items():
        region = regions.get(kind, "")
        if starts := [match.start() for match in re.finditer(pattern, region)]:
            at = starts[0] if kind in ("object", "array") else starts[-1]
            kinds.setdefault(region[:at], set()).add(kind)
    return tuple(Middle(text, frozenset(names)) for text, names in kinds.items())


def _wrapping(fields: Fields, region: str) -> tuple[str, str] | None:
    """Find the text around a string that has signs of markup."""
    _, value = KINDS["zqkg"]
    before, shown, after = region.partition(str(value))
    opening = before.removeprefix(fields.middles[0].text)
    closing = after.partition(fields.end.strip())[0] if fields.end.strip() else ""
    return (opening, closing) if shown and opening and closing else None
