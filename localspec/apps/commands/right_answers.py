"""Right answers in a file of states: how good a model's answers are, and its temperature."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from localspec.base.errors import UsageError
from localspec.console.columns import columns

if TYPE_CHECKING:
    from localspec.running.runtime.decisions.question import Question
    from localspec.running.runtime.decisions.temperature import Calibration, Labelled, Quality

YES_NO = {"yes": "yes", "true": "yes", "1": "yes", "no": "no", "false": "no", "0": "no"}
HEADINGS = ("", "answers", "right", "Brier score", "log loss")


def right_answers(questions: Mapping[str, Question], rows: Sequence[Any]) -> list[dict[str, str]]:
    """Read the options that are right from the columns of the questions; empty ones are none."""
    rights = [
        dict(named_options(questions, row, f"state {number}")) for number, row in enumerate(rows, 1)
    ]
    if not any(rights):
        names = ", ".join(questions)
        raise UsageError(
            f"there is no right answer: columns of these names have them: {names:.200}"
        )
    return rights


def named_options(
    questions: Mapping[str, Question], row: Any, place: str
) -> Iterator[tuple[str, str]]:
    for name, question in questions.items():
        value = row.get(name) if isinstance(row, Mapping) else None
        if value is not None and value != "":
            yield name, option_of(question, value, f"{place}: {name}")


def option_of(question: Question, value: object, place: str) -> str:
    """Return the option that a cell names: by its text, a level also by its number from 0 on."""
    text = str(value).strip()
    options = [option.value for option in question.options]
    if question.kind == "predicate":
        text = YES_NO.get(text.lower(), text)
    if question.kind == "score" and text not in options and text.isdecimal():
        text = dict(enumerate(options)).get(int(text), text)
    if text not in options:
        raise UsageError(f"{place} is {text[:60]!r}; it must be one of {', '.join(options):.200}")
    return text


def without_answers(questions: Mapping[str, Question], row: Any) -> Any:
    """Return a state of which the model is not shown the right answers."""
    if not isinstance(row, Mapping):
        return row
    return {name: value for name, value in row.items() if name not in questions}


def require_labels(questions: Mapping[str, Question], rights: Sequence[Mapping[str, str]]) -> None:
    """Refuse too few right answers, and questions that have the same one each time."""
    from localspec.running.runtime.decisions.temperature import require_enough

    require_enough(Counter(questions[name].kind for row in rights for name in row))
    for name in questions:
        of_question = [row[name] for row in rights if name in row]
        if len(set(of_question)) == 1:
            raise UsageError(
                f"all {len(of_question)} right answers to {name!r} are {of_question[0][:60]!r}: a "
                "temperature needs others, too; add some, or leave the question out"
            )


def all_of(labelled: Mapping[str, Sequence[Labelled]]) -> list[Labelled]:
    return [pair for pairs in labelled.values() for pair in pairs]


def quality_table(labelled: Mapping[str, Sequence[Labelled]]) -> str:
    """Show how good the answers to each question are, and all of them."""
    from localspec.running.runtime.decisions.temperature import quality

    rows = [HEADINGS, *(figures(name, quality(pairs)) for name, pairs in labelled.items())]
    if len(labelled) > 1:
        rows.append(figures("all", quality(all_of(labelled))))
    return columns(rows, numbers=True)


def calibration_lines(calibrations: Iterable[Calibration]) -> str:
    """Say what temperatures do to answers that they were not fitted to."""
    lines = []
    for calibration in calibrations:
        plain, other = calibration.plain, calibration.held_out
        kept = f"{calibration.temperature:.3g}" if calibration.helps else "none"
        lines.append(
            f"{calibration.kind}: a temperature fitted to the other half of "
            f"{calibration.labels:,} answers makes the Brier score {other.brier:.3f} from "
            f"{plain.brier:.3f}, the log loss {other.log_loss:.3f} from {plain.log_loss:.3f}: "
            f"{kept} is kept\n"
        )
    return "".join(lines)


def figures(name: str, quality: Quality) -> Sequence[str]:
    counts = f"{quality.answers:,}", f"{quality.right:,}"
    return name, *counts, f"{quality.brier:.3f}", f"{quality.log_loss:.3f}"
