"""The words around a state, and those of a question with its options."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.running.runtime.decisions.question import Question

BEFORE = "Read this text, then answer one question about it.\n\n<text>\n"
AFTER = "\n</text>\n\n"
ENDINGS = {
    "predicate": "Answer with {} or {} alone.",
    "choice": "Answer with the letter of the option that fits best, alone.",
    "score": "Answer with the number of the level that fits best, alone.",
}
BY_TEXT = "Answer with the option that fits best, word for word, alone."


def words_of(question: Question, order: Sequence[int], labels: Sequence[str]) -> str:
    """Write a question, its options in an order; without labels, they answer by their texts."""
    lines = [f"Question: {question.instructions}"] if question.instructions.strip() else []
    options = [question.options[at] for at in order]
    if question.kind == "predicate":
        lines += [option.text for option in options if option.description]
        ending = ENDINGS["predicate"].format(*(option.value for option in options))
    elif labels:
        lines += [f"{labels[at]}. {question.options[at].text}" for at in order]
        ending = ENDINGS[question.kind]
    else:
        lines += [f"- {option.text}" for option in options]
        ending = BY_TEXT
    return "\n".join([*lines, "", ending])
