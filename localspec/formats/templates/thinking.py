"""Switches for thinking, under each name that chat templates have for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from localspec.formats.templates.message import Json

SWITCH, EFFORT, BUDGET = "enable_thinking", "reasoning_effort", "thinking_budget"
EFFORTS = ("reasoning_effort", "thinking_effort", "reasoning_strength")
LEVELS = ("none", "no_think", "minimal", "low", "medium", "high", "xhigh", "max")


def variables(extra: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """Yield the variables for a template; with an effort, then the nearest ones instead.

    Some templates refuse an effort that they do not know.
    """
    switch, effort = extra.get(SWITCH), extra.get(EFFORT)
    known_variables = {**_switches(switch), **extra} if isinstance(switch, bool) else extra
    if not isinstance(effort, str):
        yield known_variables
        return
    for level in _nearest(effort):
        yield {**dict.fromkeys(EFFORTS, level), **known_variables, EFFORT: level}
    yield {name: value for name, value in known_variables.items() if name != EFFORT}


def _switches(on: bool) -> dict[str, Json]:
    switches: dict[str, Json] = {"thinking": on, "skip_thinking": not on}
    switches |= {"thinking_mode": "enabled" if on else "disabled"}
    switches |= {"thinking_option": "on" if on else "off"}
    return switches if on else {**switches, BUDGET: 0}


def _nearest(effort: str) -> list[str]:
    """List all efforts, the nearest to this one first and the higher of two before the lower."""
    if effort not in LEVELS:
        return [effort]
    place = LEVELS.index(effort)
    return sorted(LEVELS, key=lambda level: abs(LEVELS.index(level) - place - 0.1))
