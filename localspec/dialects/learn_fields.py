"""Find out how arguments are written one by one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from localspec.dialects.layout import KEY, Fields, Layout, Middle
from localspec.dialects.probe import GIVEN, KEYS, KINDS, NAMES, Probe, calls, of_all_kinds
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
    rest: str

    def described(self, layout: Layout, probe: Probe) -> Layout:
        """The layout with all that other kinds of values tell of it."""
        turned = probe.reply(calls(dict(reversed(GIVEN[0].items())))).partition(NAMES[0])[2]
        in_order = -1 < turned.find(KEYS[0]) < turned.find(KEYS[1])
        middles = (Middle(self.middle),)
        found = Fields(self.key, middles, self.end, self.between, in_order=in_order)
        text = probe.reply(of_all_kinds())
        regions = _regions(text.partition(NAMES[0])[2], found)
        return _parted(replace(layout, fields=_typed(found, regions) if regions else found))


def _parted(layout: Layout) -> Layout:
    """The same layout, in which a key and the end of all arguments begin differently."""
    found = layout.fields
    assert found is not None
    shared = "" if found.between else common_start(found.key, layout.end)
    return replace(
        layout,
        name_end=layout.name_end + shared,
        end=layout.end[len(shared) :],
        fields=replace(found, key=found.key[len(shared) :], end=found.end + shared, shared=shared),
    )


def fields(text: str) -> TwoArguments | None:
    """Arguments after a name, as they are written with a first and a second value."""
    given = next((each for each in GIVEN if all(value in text for value in each.values())), None)
    if given is None:
        return None
    parts, rest, word = [], text, ""
    for word in (each for pair in zip(KEYS, given.values(), strict=True) for each in pair):
        part, found, rest = rest.partition(word)
        if not found:
            return None
        parts.append(part)
    before, middle, joint, again = parts
    joint, rest = joint.replace(KEYS[0], KEY), rest.replace(KEYS[1], KEY, 1)
    if middle != again or not middle or not rest.strip():
        return None
    key = common_end(before, joint)
    gap = joint[: len(joint) - len(key)]
    end = common_start(gap, rest)
    return TwoArguments(
        before[: len(before) - len(key)], key, middle, end, gap[len(end) :], rest[len(end) :]
    )


def _regions(text: str, fields: Fields) -> dict[str, str]:
    """Find the text from each key to the next one, by the kind of its value."""
    places = {key: text.find(f"{key}{fields.middles[0].text[:1]}") for key in KINDS}
    found = {key: at for key, at in places.items() if at >= 0 or KINDS[key][1] is not None}
    if -1 in found.values() or list(found.values()) != sorted(found.values()):
        return {}  # a null may be left out
    return {
        KINDS[key][0]: text[at + len(key) : found[after]]
        for (key, at), after in zip(found.items(), list(found)[1:], strict=False)
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
    found = re.search(rf"(\w+)\W*{re.escape(fields.middles[0].text)}zqvl", regions["array"])
    return found[1] if found and written(found[1], "zqvl") in regions["array"] else ""


def _middles(regions: dict[str, str]) -> tuple[Middle, ...]:
    """One middle for each text that stands before values, with the kinds it is for."""
    kinds: dict[str, set[str]] = {regions["string"].partition("zqva")[0]: {"string"}}
    for kind, pattern in VALUES.items():
        region = regions.get(kind, "")
        if found := [each.start() for each in re.finditer(pattern, region)]:
            at = found[0] if kind in ("object", "array") else found[-1]
            kinds.setdefault(region[:at], set()).add(kind)
    return tuple(Middle(text, frozenset(each)) for text, each in kinds.items())


def _wrapping(fields: Fields, region: str) -> tuple[str, str] | None:
    """Find the text around a string that has signs of markup."""
    _, value = KINDS["zqkg"]
    before, shown, after = region.partition(str(value))
    opening = before.removeprefix(fields.middles[0].text)
    closing = after.partition(fields.end.strip())[0] if fields.end.strip() else ""
    return (opening, closing) if shown and opening and closing else None
