"""The settings of answers by name: the names are those of the command line's options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from operator import attrgetter
from typing import Any

from localspec.base.errors import UsageError
from localspec.console.options.sections import SECTIONS
from localspec.core.proposers import registry
from localspec.core.requests.settings import Settings
from localspec.core.sampling.lists import LISTS, ListParameter
from localspec.core.sampling.parameter import Parameter
from localspec.core.sampling.parameters import GREEDY, PARAMETERS

AUTO, DEFAULT = "auto", "default"


@dataclass(frozen=True, slots=True)
class NamedSetting:
    """A setting as text."""

    name: str
    about: str
    put: Callable[[Settings, str], Settings]
    get: Callable[[Settings], object]  # None: automatic
    aliases: tuple[str, ...] = ()  # of APIs, and of conversations that were kept long ago
    has_auto: bool = True  # as a value of its own, beside the default
    is_rare: bool = False  # shown by its name alone while it is default

    def text(self, settings: Settings) -> str:
        value = self.get(settings)
        return AUTO if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def of_sampling(parameter: Parameter) -> NamedSetting:
    number = int if parameter.whole else float
    return NamedSetting(
        parameter.option,
        parameter.about,
        lambda settings, text: replace(
            settings, sampling=parameter.choose(settings.sampling, number(text))
        ),
        lambda settings: parameter.get(settings.sampling),
        (
            parameter.key,
            *(name.replace("_", "-") for name in (*parameter.names, *parameter.aliases)),
        ),
        has_auto=False,
        is_rare=parameter.names[0] in SECTIONS["Samplers"],
    )


def of_list(parameter: ListParameter) -> NamedSetting:
    usual = parameter.get(GREEDY)

    def put(settings: Settings, text: str) -> Settings:
        texts = usual if text == AUTO else parameter.read(text)
        return replace(settings, sampling=parameter.put(settings.sampling, texts))

    def get(settings: Settings) -> str | None:
        texts = parameter.get(settings.sampling)
        return None if texts == usual else parameter.write(texts)

    return NamedSetting(parameter.option, parameter.about, put, get, is_rare=True)


def of_number(name: str, field: str, about: str, aliases: tuple[str, ...] = ()) -> NamedSetting:
    def with_number(settings: Settings, text: str) -> Settings:
        change: dict[str, Any] = {field: None if text == AUTO else int(text)}
        return replace(settings, **change)

    return NamedSetting(name, about, with_number, attrgetter(field), aliases)


SETTINGS = (
    *map(of_sampling, PARAMETERS),
    *map(of_list, LISTS),
    of_number("seed", "seed", "Makes a sampled answer repeatable."),
    of_number("max-tokens", "max_tokens", "The longest answer; auto: as the context has room."),
    of_number(
        "reasoning-budget",
        "reasoning_budget",
        "Most tokens of thought; 0: none, -1: no limit.",
        ("reasoning-budget-tokens", "thinking-budget"),
    ),
    NamedSetting(
        "stop",
        "A text that ends the answer.",
        lambda settings, text: replace(settings, stop=() if text == AUTO else (text,)),
        lambda settings: settings.stop[0] if settings.stop else None,
    ),
    NamedSetting(
        "ban",
        "A text that the answer may not have.",
        lambda settings, text: replace(settings, banned_strings=() if text == AUTO else (text,)),
        lambda settings: settings.banned_strings[0] if settings.banned_strings else None,
    ),
    of_number("depth", "depth", "Tokens drafted ahead; auto: as many as pay."),
    NamedSetting(
        "proposer",
        "What drafts: names with commas, or none.",
        lambda settings, text: replace(
            settings, proposers=None if text == AUTO else registry.parse(text)
        ),
        lambda settings: (
            None if settings.proposers is None else ",".join(settings.proposers) or "none"
        ),
        ("proposers",),
    ),
)
NAMES = tuple(setting.name for setting in SETTINGS)
BY_NAME = {name: setting for setting in SETTINGS for name in (setting.name, *setting.aliases)}


def find(name: str) -> NamedSetting:
    """Find a setting by any of its names."""
    setting = BY_NAME.get(name.strip().lower().replace("_", "-"))
    if setting is None:
        near = get_close_matches(name, NAMES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no {name!r} to set; {hint}there are: {', '.join(NAMES)}")
    return setting


def with_change(changes: Mapping[str, str], name: str, value: str) -> dict[str, str]:
    """Add a change, or take one back where the value is the default."""
    setting = find(name)
    others = {other: text for other, text in changes.items() if find(other) is not setting}
    is_default = value == DEFAULT or (value == AUTO and not setting.has_auto)
    return others if is_default else {**others, setting.name: value}


def apply(usual: Settings, changes: Mapping[str, str]) -> Settings:
    """Apply changes by name to the usual settings."""
    settings = usual
    for name, text in changes.items():
        setting = find(name)
        if text == AUTO and not setting.has_auto:
            continue
        try:
            settings = setting.put(settings, text)
        except ValueError as error:
            other = AUTO if setting.has_auto else DEFAULT
            raise UsageError(f"{setting.name} takes a number, or {other}, not {text!r}") from error
    return settings


def differences(usual: Settings, settings: Settings) -> dict[str, str]:
    """Map the names of settings that are not as usual to their values."""
    texts = {setting.name: setting.text(settings) for setting in SETTINGS}
    return {
        setting.name: texts[setting.name]
        for setting in SETTINGS
        if setting.text(usual) != texts[setting.name]
    }
