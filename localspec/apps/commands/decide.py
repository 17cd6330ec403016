"""The command `localspec decide`: questions about each line of a file, and their answers."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from localspec.apps.commands.right_answers import (
    all_of,
    calibration_lines,
    quality_table,
    require_labels,
    right_answers,
    without_answers,
)
from localspec.base.errors import UsageError
from localspec.console.notices import tell
from localspec.console.options.declare import (
    READABLE,
    TEXT,
    WRITABLE,
    flag,
    option,
    options,
    read,
)
from localspec.console.options.loading import LoadingOptions, make_loading
from localspec.console.options.model_names import MODEL, name_or_path
from localspec.console.options.sections import SectionedCommand
from localspec.console.progress.progress_bar import Progress, Unit

if TYPE_CHECKING:
    from localspec.running.runtime.decisions.answer import Answer
    from localspec.running.runtime.decisions.question import Question
    from localspec.running.runtime.decisions.temperature import Labelled
    from localspec.running.runtime.runtime import Runtime

TABLE, LINES = ".csv", ".jsonl"
STATES = Unit("states", 1, 0, "states/s", 1)
DIGITS = 6  # after the point

Write = Callable[[Any, Mapping[str, object]], object]


@dataclass(frozen=True, slots=True)
class DecideOptions:
    out: Path | None = option(
        WRITABLE, "File for the answers.", "FILE", otherwise="standard output"
    )
    column: str | None = option(
        TEXT, "Column or field that is the state.", "NAME", otherwise="all of them, as JSON"
    )
    permutations: int = option(
        click.IntRange(1, 16),
        "Number of orders in which options are shown; the answers are averaged.",
        default=1,
    )
    evaluate: bool = flag("Write how good the answers are, beside the right ones.")
    calibrate: bool = flag("Fit temperatures to the right answers, and keep them for the model.")


@click.command("decide", cls=SectionedCommand, params=options(DecideOptions, LoadingOptions))
@click.argument("model", metavar="NAME_OR_PATH", type=MODEL, shell_complete=name_or_path)
@click.argument("questions", metavar="QUESTIONS", type=READABLE)
@click.argument("file", metavar="FILE", type=READABLE)
@click.pass_context
def decide(context: click.Context, model: str, questions: Path, file: Path) -> None:
    """Answer questions about each line of a file by probabilities.

    QUESTIONS is JSON as /v1/systemone has it: names, each with a type (noul, choice or score),
    instructions and criteria. FILE is a table (.csv), which gets columns, or JSON lines (.jsonl).
    With --evaluate and --calibrate it has the right answers in columns of the questions' names.
    """
    from localspec.console.questions.interactive_load import locate_and_load

    chosen, loaded = read(context, DecideOptions), read(context, LoadingOptions)
    if chosen.out and chosen.out.exists() and chosen.out.samefile(file):
        raise UsageError(f"--out {chosen.out} is the file that is read: give another")
    asked = questions_in(questions)
    rows = rows_in(file)
    is_labelled = chosen.evaluate or chosen.calibrate
    rights = right_answers(asked, rows) if is_labelled else []
    if chosen.calibrate:
        require_labels(asked, rights)
    shown = [without_answers(asked, row) for row in rows] if is_labelled else rows
    states = [state_of(number, row, chosen.column) for number, row in enumerate(shown, 1)]
    with ExitStack() as closing:
        runtime = closing.enter_context(locate_and_load(model, loaded.draft, make_loading(loaded)))
        out = closing.enter_context(opened(chosen.out))
        if (kinds := ", ".join(runtime.decider.temperatures)) and not chosen.calibrate:
            tell(f"answers are calibrated: {kinds}")
        count = closing.enter_context(Progress(len(rows), unit=STATES))
        if is_labelled:
            labelled = ask_labelled(runtime, asked, zip(states, rights, strict=True), chosen, count)
            out.write(quality_table(labelled) + "\n")
            if chosen.calibrate:
                out.write(calibration_lines(runtime.calibrate(all_of(labelled))))
            return
        write: Write | None = None
        for row, state in zip(rows, states, strict=True):
            decided = runtime.decide(state, asked, permutations=chosen.permutations)
            answers = dict(columns(asked, decided))
            if write is None:  # the columns are known by the first answers
                write = table(out, [*row, *answers]) if file.suffix == TABLE else json_lines(out)
            write(row, answers)
            out.flush()
            count(1)


def ask_labelled(
    runtime: Runtime,
    asked: Mapping[str, Question],
    states: Iterable[tuple[object, Mapping[str, str]]],
    chosen: DecideOptions,
    count: Callable[[int], object],
) -> dict[str, list[Labelled]]:
    """Ask what has a right answer; return the answers to each question with these."""
    labelled: dict[str, list[Labelled]] = {}
    for state, rights in states:
        questions = {name: asked[name] for name in rights}
        if questions:
            answers = runtime.decide(
                state,
                questions,
                permutations=chosen.permutations,
                calibrated=not chosen.calibrate,
            )
            for name, answer in answers.items():
                labelled.setdefault(name, []).append((answer, rights[name]))
        count(1)
    return labelled


def questions_in(file: Path) -> dict[str, Question]:
    from localspec.running.runtime.decisions.question import FIELDS, question_of

    value = parsed(text_in(file), str(file))
    if not isinstance(value, dict) or not value:
        raise UsageError(f"{file} has no questions: it must be an object with one at least")
    questions = {name: question_of(name, asked) for name, asked in value.items()}
    for name, asked in value.items():
        for field in asked.keys() - set(FIELDS):
            tell(
                f"question {name!r} has {field!r}, which changes nothing: it may have "
                f"{', '.join(FIELDS)}"
            )
        if not questions[name].instructions and not asked.get("criteria"):
            raise UsageError(f"question {name!r} asks nothing: it needs instructions")
    return questions


def rows_in(file: Path) -> Sequence[Any]:
    """Read the lines of a file: objects of a table's columns, or whatever JSON has."""
    text = text_in(file)
    if file.suffix == TABLE:
        rows = list(table_rows(file, text))
    elif file.suffix == LINES:
        lines = enumerate(text.split("\n"), 1)
        rows = [parsed(line, f"{file}, line {at}") for at, line in lines if line.strip()]
    else:
        raise UsageError(f"{file} must end in {TABLE} or {LINES}")
    if not rows:
        raise UsageError(f"there is no state in {file}")
    return rows


def table_rows(file: Path, text: str) -> Iterator[Any]:
    rows = csv.DictReader(io.StringIO(text, newline=""), restval="")
    try:
        for row in rows:
            if None in row:
                most = len(rows.fieldnames or ())
                raise UsageError(f"{file}, line {rows.line_num} has more than {most} cells")
            yield row
    except csv.Error as error:
        raise UsageError(f"{file}, line {rows.line_num} cannot be read: {error}") from error


def text_in(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read as text: {error}") from error


def parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place} is not JSON: {error}") from error


def state_of(number: int, row: Any, column: str | None) -> object:
    if column is None:
        return row
    if not isinstance(row, Mapping) or row.get(column) is None:
        raise UsageError(f"state {number} has no {column!r}, which --column names")
    return row[column]


@contextmanager
def opened(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}") from error


def table(out: TextIO, names: Sequence[str]) -> Write:
    """Return what writes the rows of a table; their columns are those that it had, and answers."""
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(names)
    return lambda row, answers: rows.writerow([*row.values(), *answers.values()])


def json_lines(out: TextIO) -> Write:
    """Return what writes states and answers as JSON."""

    def write(row: Any, answers: Mapping[str, object]) -> None:
        line = {"state": row, "answers": answers}
        out.write(json.dumps(line, ensure_ascii=False) + "\n")

    return write


def columns(
    asked: Mapping[str, Question], answers: Mapping[str, Answer]
) -> Iterator[tuple[str, object]]:
    """Yield an answer and how certain it is; of a predicate the probability alone."""
    for name, answer in answers.items():
        match asked[name].kind:
            case "predicate":
                yield name, round(answer.probability, DIGITS)
                continue
            case "choice":
                yield name, answer.best
            case "score":
                yield name, round(answer.score, DIGITS)
        yield f"{name}_confidence", round(answer.confidence, DIGITS)
