"""Whether to think, and how much, by the names of all APIs, by efforts and by defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import BeforeValidator, Field, JsonValue

from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.served import Served
from localspec.core.requests.settings import Settings
from localspec.formats.templates.message import Json
from localspec.formats.templates.thinking import EFFORT, SWITCH

THINKS = {"enabled": True, "disabled": False}
MAX_BUDGET = 1 << 31
NO_LIMIT = -1
NUMBER = re.compile(r"-?\d{1,10}")
# Tokens of thought by effort, where the chat template knows no efforts: each four times the last.
EFFORT_BUDGETS = {"low": 1024, "medium": 4096, "high": 16_384}


def as_budget(value: object) -> object:
    """Read a number of tokens, also as a text; a negative one is no limit."""
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = int(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(max(min(value, MAX_BUDGET), NO_LIMIT))
    return None if value == "" else value


Budget = Annotated[
    Annotated[int, Field(ge=NO_LIMIT, le=MAX_BUDGET, strict=True)] | None,
    BeforeValidator(as_budget),
]


def as_effort(value: object) -> object:
    """Read an effort, or a switch, that is one word."""
    if isinstance(value, bool):
        return {"enabled": value}
    switches = {"on": {"enabled": True}, "off": {"enabled": False}}
    return switches.get(value, {"effort": value}) if isinstance(value, str) else value


def as_word(value: object) -> object:
    """Read an effort that is a switch, or stands in an object."""
    if isinstance(value, dict):
        value = value.get("effort")
    return (None if value else "none") if isinstance(value, bool) else value


class Reasoning(RequestPart):
    """The reasoning field of OpenRouter and /v1/responses."""

    effort: str | None = None
    enabled: bool | None = None
    max_tokens: Budget = None


class Thinking(RequestPart):
    """The thinking field of Anthropic, DeepSeek and GLM."""

    type: str = ""
    budget_tokens: Budget = None

    @property
    def budget(self) -> int | None:
        """Return the budget, where the model does not choose it itself."""
        return None if self.type == "adaptive" else self.budget_tokens

    @property
    def enabled(self) -> bool | None:
        """Return whether to think; None leaves it to the chat template."""
        return THINKS.get(self.type)


class ThoughtFields(RequestPart):
    """The fields of a request to a chat that bound its thoughts; the first that is given counts."""

    reasoning_budget: Budget = None
    reasoning_budget_tokens: Budget = None  # as llama.cpp calls it, and the next but one
    thinking_budget: Budget = None  # as Qwen's service calls it
    thinking_budget_tokens: Budget = None
    thinking_token_budget: Budget = None  # as vLLM calls it
    reasoning_budget_message: str | None = None

    @property
    def own_budget(self) -> int | None:
        """Return the budget by any of its names."""
        budgets = (
            self.reasoning_budget,
            self.reasoning_budget_tokens,
            self.thinking_budget,
            self.thinking_budget_tokens,
            self.thinking_token_budget,
        )
        return next((budget for budget in budgets if budget is not None), None)

    def with_own_budget(self, settings: Settings) -> Settings:
        return replace(
            settings,
            reasoning_budget=self.own_budget,
            reasoning_budget_message=self.reasoning_budget_message,
        )


def reasoning(effort: str | None) -> dict[str, JsonValue]:
    """Return variables for chat templates: gpt-oss reads the effort, others only a switch."""
    if effort is None:
        return {}
    return {"reasoning_effort": effort, "enable_thinking": effort not in ("none", "minimal")}


def with_budget(served: Served, extra: Mapping[str, Json], settings: Settings) -> Settings:
    """Fill in what a request leaves open: by its effort, or else by the defaults of its model."""
    budget, message = settings.reasoning_budget, settings.reasoning_budget_message
    if budget is None:
        budget = budget_by_effort(served, extra)
    if message is None:
        message = served.offer.reasoning_budget_message
    return replace(settings, reasoning_budget=budget, reasoning_budget_message=message)


def budget_by_effort(served: Served, extra: Mapping[str, Json]) -> int:
    """Return the budget of an effort where the chat template knows none, or else the default.

    A switch that is off is a budget of 0, and one that is on lifts a default of 0.
    """
    effort, switch, default = extra.get(EFFORT), extra.get(SWITCH), served.offer.reasoning_budget
    templates_own = isinstance(effort, str) and served.runtime.text.knows_efforts
    if switch is False and not (templates_own and effort == "minimal"):
        return 0
    if isinstance(effort, str) and effort in EFFORT_BUDGETS and not templates_own:
        return EFFORT_BUDGETS[effort]
    return NO_LIMIT if switch is True and default == 0 else default
