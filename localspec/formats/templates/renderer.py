"""A process that renders chat templates, seen from the program that asks it.

A template is code from a stranger. Steps could be counted in this process, but one step may be
`10 ** 10 ** 10`, `'a' * 10 ** 10` or one of thirty filters that make as much; a process ends them
all, on every system, for 0.5 ms a render.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localspec.base.confined.process import ConfinedProcess, Unanswered
from localspec.base.errors import UsageError

SCRIPT = Path(__file__).with_name("render_process.py")


@dataclass(slots=True)
class Meter:
    """Counts the work of renders, however busy the machine was meanwhile."""

    seconds: float = 0.0


class Renderer:
    """Any thread may ask it."""

    def __init__(self, seconds: float = 5.0, memory_bytes: int = 1 << 29) -> None:
        self.seconds = seconds
        self._process = ConfinedProcess(SCRIPT, seconds, memory_bytes)

    def ask(
        self, template: str, variables: Mapping[str, object] | None, meter: Meter | None = None
    ) -> dict[str, str]:
        """Return the "text", or why it is "broken", "refused" or "failed"; nothing if compiled."""
        try:
            reply, _, seconds = self._process.ask({"template": template, "variables": variables})
        except RecursionError:
            raise UsageError("the messages or tools are nested too deeply") from None
        except Unanswered as error:
            reply, seconds = {"failed": str(error)}, error.seconds
        if meter:
            meter.seconds += seconds
        return dict(reply)


SHARED = Renderer()
