"""The verdict on a drafter that was trained: `bench`, on texts that it was not trained on."""

from __future__ import annotations

import time
from pathlib import Path

from localspec.apps.bench import modes, prompts
from localspec.apps.bench.measure import Question, questions
from localspec.apps.bench.prompts import Prompt
from localspec.apps.bench.report import Report, report
from localspec.apps.bench.setup import setup_of
from localspec.apps.bench.timed_run import run
from localspec.apps.bench.verdict import AUTO, LOOKUP, Drafter
from localspec.apps.training.record import Text
from localspec.apps.training.texts import FILED, KEPT, WRITTEN, TextStore
from localspec.core.requests.settings import Settings
from localspec.running.models.locate import ModelFiles
from localspec.running.runtime.loading import Loading
from localspec.running.runtime.pair_files import PairFiles

# A head takes memory, and each longer training is judged anew: chance alone would keep one at last.
LEAST_GAIN = 1.02
TRAINED = Drafter("the trained head", "So it is not kept.", LEAST_GAIN)
OWN = 4  # texts of each source that are held out
PROMPT = 128  # tokens of a file that are continued


def judge(files: ModelFiles, drafter: Path, store: TextStore, seconds: float) -> Report:
    """Measure a model with its drafter and without, by look-up in both, on prompts of each kind."""
    deadline, settings = time.monotonic() + seconds, Settings()
    pair = PairFiles.locate(files.path, drafter, files.engine.name)
    with modes.load(pair, Loading(backend=files.engine.name), [LOOKUP, AUTO]) as (lineup, resolved):
        usual = prompts.choose(prompts.built_in(), (), 1)
        all_questions = [*held_out(store), *questions(lineup.target, usual, settings)]
        all_questions.sort(key=lambda question: question.prompt.number)
        setup = setup_of(lineup, resolved, settings, TRAINED)
        return report(setup, run(lineup, all_questions, 1, deadline))


def held_out(store: TextStore) -> list[Question]:
    """Ask what is held out of the training; of the user's files the beginnings of pieces."""
    chosen = []
    for source in (KEPT, FILED, WRITTEN):
        texts = [text for text in store.from_source(source) if text.held_out]
        chosen += [question(source, number, text) for number, text in enumerate(texts[:OWN], 1)]
    return chosen


def question(source: str, number: int, text: Text) -> Question:
    prompt = Prompt(source, (), number=number)
    return Question(prompt, text.tokens[: text.begin or PROMPT], Settings())
