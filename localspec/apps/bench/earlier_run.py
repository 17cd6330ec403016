"""A run to compare with: read from the file of an earlier `bench --json`, or of now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localspec.apps.bench.modes import PLAIN
from localspec.apps.bench.reply import MeasuredReply
from localspec.apps.bench.report import FORMAT, Report
from localspec.apps.bench.setup import Setup, Sums
from localspec.apps.bench.summary import Trial, trials
from localspec.base.errors import UsageError
from localspec.base.system import kept_json
from localspec.base.system.machine_load import MachineLoad

FACTS = ("machine", "model", "sampling", "versions")  # that a run cannot be compared without


@dataclass(frozen=True, slots=True)
class BenchRun:
    """A run as far as it is compared: replies by prompt, and where they were measured."""

    trials: Mapping[tuple[str, int, int], Trial]
    heading: Mapping[str, str]
    modes: Sequence[str]
    weights: Sums
    on_host: bool
    load: MachineLoad

    @classmethod
    def of(cls, report: Report) -> BenchRun:
        setup = report.setup
        facts = dict(setup.heading), setup.modes, setup.weights, setup.on_host
        return cls(_by_prompt(report.trials), *facts, report.outcome.load)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> BenchRun:
        """Read the JSON of a report; raise a KeyError, TypeError or ValueError if it is none."""
        if int(record["format"]) > FORMAT:
            raise ValueError(f"a newer LocalSpec wrote it (format {record['format']})")
        heading = {str(name): str(value) for name, value in record["heading"].items()}
        if missing := set(FACTS) - heading.keys():
            raise KeyError(min(missing))
        modes = tuple(map(str, record["modes"]))
        replies = [MeasuredReply.of_record(reply) for reply in record["replies"]]
        by_prompt = _by_prompt(trials(replies, modes))
        if not by_prompt:
            raise ValueError("no prompt was answered by all its modes")
        weights = tuple(tuple(map(str, files)) for files in record["weights"])
        load, on_host = MachineLoad.of_record(record["load"]), record["on_host"] is True
        return cls(by_prompt, heading, modes, weights, on_host, load)

    @property
    def longest(self) -> int:
        """Tokens of the longest reply."""
        return max(len(reply.tokens) for trial in self.trials.values() for reply in trial.values())


def read(path: Path) -> BenchRun:
    """Read the file of an earlier run; raise a UsageError if it is none."""
    try:
        return BenchRun.of_record(kept_json.read(path))
    except OSError as error:
        raise UsageError(f"--against cannot be read: {error}") from error
    except KeyError as error:
        fault = f"it has no {error}"
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        fault = str(error)
    raise UsageError(
        f"--against {path} cannot be compared: {fault}; "
        "write it again with `localspec bench --json` of this version"
    )


def require_comparable(earlier: BenchRun, setup: Setup) -> None:
    """Refuse other weights and another sampling, before minutes are spent."""
    heading = dict(setup.heading)
    for at, part in enumerate(("model", "draft")):
        before, now = earlier.weights[at : at + 1], setup.weights[at : at + 1]
        if before != now:
            names = (lines.get(part, "none") for lines in (earlier.heading, heading))
            shown = [f"{name}{_sum(sums)}" for name, sums in zip(names, (before, now), strict=True)]
            raise UsageError(
                f"--against was measured with another {part}: {shown[0]}; here it is {shown[1]}"
            )
    before_adapters, adapters = (h.get("adapters", "none") for h in (earlier.heading, heading))
    if before_adapters != adapters:
        raise UsageError(
            f"--against was measured with the adapters {before_adapters}; here they are {adapters}"
        )
    if earlier.heading["sampling"] != heading["sampling"]:
        raise UsageError(
            f"--against has replies that are {earlier.heading['sampling']}, and these are to be "
            f"{heading['sampling']}: give the same --temperature and --seed"
        )


def _sum(sums: Sums) -> str:
    return f" (sha256 {sums[0][0][:12]}...)" if sums and sums[0] else ""


def _by_prompt(trials: Sequence[Trial]) -> dict[tuple[str, int, int], Trial]:
    plain = [(trial[PLAIN], trial) for trial in trials]
    return {(own.prompt.name, own.prompt_tokens, own.repeat): trial for own, trial in plain}
