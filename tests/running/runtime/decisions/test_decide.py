"""Questions about a state are decided by what the model itself says of each option."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from localspec import AsyncModel, Question
from localspec.base.errors import LocalSpecError, PromptTooLong, UsageError
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.interfaces.testing import ScriptedModel
from localspec.running.runtime.decisions.deciding import Decider
from localspec.running.runtime.decisions.prompts import frame
from localspec.running.runtime.runtime import Runtime
from tests.apps.server.scripted import TEMPLATE, Bytes

THINKING = "{# <think> </think> #}" + TEMPLATE.replace(
    "assistant\n{% endif", "assistant\n<think>\n{% endif"
)
URGENT = Question.predicate("Is this urgent?", yes="today")
TEAM = Question.choice("Who?", {"billing": "money", "shipping": "parcels", "other": ""})
TONE = Question.score("How upset?", ["calm", "annoyed", "furious"])
MANY = Question.choice("Which?", [f"number {at}" for at in range(40)])
ALL = {"urgent": URGENT, "team": TEAM, "tone": TONE, "many": MANY}


def drawn(context):
    """Draw logits that depend on the whole text, so that nothing missing goes unnoticed."""
    rng = np.random.default_rng(np.asarray(context, np.uint32))
    return rng.normal(0, 3, size=256 + 5).astype(np.float32)


def loaded(template=TEMPLATE, slots=4, script=drawn):
    model = ScriptedModel(script, Bytes(template))
    model.context, model.slots = 4096, slots
    return Runtime(Engine(model, Silent()))


@pytest.fixture
def model():
    with loaded() as model:
        yield model


def shares(context, choices):
    """Compute the probabilities of some texts after a prompt, and their sum, directly."""
    masses = []
    for text in choices:
        mass = 1.0
        for at, byte in enumerate(text.encode()):
            logits = drawn([*context, *text.encode()[:at]]).astype(np.float64)
            mass *= np.exp(logits[byte]) / np.exp(logits).sum()
        masses.append(mass)
    return [mass / sum(masses) for mass in masses], sum(masses)


def prompt(model, state, question):
    prepared = frame(model.text, [state])
    return [*prepared.state, *question.encode(), *prepared.ending]


WORDS = {
    "tone": "Question: How upset?\n0. calm\n1. annoyed\n2. furious\n\n"
    "Answer with the number of the level that fits best, alone.",
    "team": "Question: Who?\nA. billing: money\nB. shipping: parcels\nC. other\n\n"
    "Answer with the letter of the option that fits best, alone.",
    "urgent": "Question: Is this urgent?\nyes: today\n\nAnswer with yes or no alone.",
}
LABELS = {"tone": ["0", "1", "2"], "team": ["A", "B", "C"], "urgent": ["yes", "no"]}


@pytest.mark.parametrize("name", ["tone", "team", "urgent"])
def test_an_answer_is_the_softmax_over_the_labels_behind_the_question(model, name):
    answer = model.decide("pay me", ALL)[name]
    expected, mass = shares(prompt(model, "pay me", WORDS[name]), LABELS[name])
    assert answer.probabilities == pytest.approx(expected)
    assert answer.label_mass == pytest.approx(mass)
    assert answer.best == answer.options[int(np.argmax(expected))]
    assert answer.score == pytest.approx(sum(at * share for at, share in enumerate(expected)))


def test_options_without_labels_of_one_token_answer_by_their_texts(model):
    texts = [f"number {at}" for at in range(40)]
    lines = [f"- {text}" for text in texts]
    ending = ["", "Answer with the option that fits best, word for word, alone."]
    context = prompt(model, "pay me", "\n".join(["Question: Which?", *lines, *ending]))
    # What begins another option counts where the reply ends after it.
    begun = [f"number {at}" for at in range(1, 4)]
    expected = []
    for text in texts:
        _, whole = shares(context, [text])
        if text in begun:
            logits = drawn([*context, *text.encode()]).astype(np.float64)
            whole *= np.exp(logits[257]) / np.exp(logits).sum()
        expected.append(whole)
    answer = model.decide("pay me", ALL)["many"]
    assert answer.label_mass == pytest.approx(sum(expected))
    assert answer.probabilities == pytest.approx(np.array(expected) / sum(expected))


def test_a_question_has_the_same_answer_alone_and_among_others_in_any_order(model):
    alone = {name: loaded(slots=1).decide("pay me", {name: ALL[name]})[name] for name in ALL}
    for names in itertools.islice(itertools.permutations(ALL), 0, None, 5):
        assert model.decide("pay me", {name: ALL[name] for name in names}) == alone


def test_the_state_is_read_once(model):
    decision = model.begin_deciding("pay me " * 100, {"a": TEAM, "b": TONE, "c": TEAM}).result()
    assert decision.prompt_tokens > 3 * 700
    assert decision.cached_tokens >= 2 * len(frame(model.text, ["pay me " * 100]).state)


def test_control_tokens_in_a_state_or_a_question_are_text(model):
    prepared = frame(model.text, ["<|im_end|>"])
    assert prepared.state.count(256) == 1
    assert 257 not in prepared.state
    question = Question.predicate("<|im_end|>")
    assert 257 not in prepared.after(model.text, question.instructions)[:10]
    model.decide("<|im_start|>", {"it": question})


def test_a_thought_that_the_template_begins_is_ended():
    with loaded(THINKING) as model:
        assert bytes(token for token in frame(model.text, ["?"]).ending if token < 256).endswith(
            b"assistant\n<think>\n\n</think>\n\n"
        )


def test_what_a_template_writes_before_an_answer_is_part_of_the_prompt():
    channel = TEMPLATE.replace(
        "{{ message.role }}\n",
        "{{ message.role }}{% if message.role == 'assistant' %}[final]{% endif %}\n",
    ).replace("<|im_start|>assistant\n{% endif", "<|im_start|>assistant{% endif")
    with loaded(channel) as model:
        assert bytes(frame(model.text, ["?"]).ending[-16:]) == b"assistant[final]"


def test_orders_of_the_options_are_averaged(model):
    answer = model.decide("pay me", {"tone": TONE}, permutations=2)["tone"]
    words = "Question: How upset?\n2. furious\n1. annoyed\n0. calm\n\n"
    backwards = words + WORDS["tone"].rpartition("\n\n")[2]
    contexts = [prompt(model, "pay me", text) for text in (WORDS["tone"], backwards)]
    means = np.mean([shares(context, LABELS["tone"])[0] for context in contexts], axis=0)
    assert answer.probabilities == pytest.approx(means)


def test_in_another_order_an_option_has_another_letter(model):
    answer = model.decide("pay me", {"team": TEAM}, permutations=2)["team"]
    words = "Question: Who?\nA. shipping: parcels\nB. other\nC. billing: money\n\n"
    other = prompt(model, "pay me", words + WORDS["team"].rpartition("\n\n")[2])
    first, _ = shares(prompt(model, "pay me", WORDS["team"]), "ABC")
    second, _ = shares(other, "CAB")
    assert answer.probabilities == pytest.approx(np.mean([first, second], axis=0))


def test_an_option_is_certain_where_the_model_is(model):
    def sure(context):
        return np.where(np.arange(261) == ord("B"), 50, 0).astype(np.float32)

    with loaded(script=sure) as model:
        answer = model.decide({"a": 1}, {"team": TEAM})["team"]
    assert (answer.best, answer.confidence) == ("shipping", pytest.approx(1))
    assert answer.label_mass == pytest.approx(1)


def test_answers_can_be_awaited(model):
    awaited = asyncio.run(AsyncModel(model).decide([1], {"team": TEAM}))
    assert awaited == model.decide([1], {"team": TEAM})


def test_what_does_not_fit_is_refused_with_its_number(model):
    with pytest.raises(PromptTooLong, match="question 2 and its state are 9,"):
        model.decide("x", {"a": TEAM, "b": Question.predicate("y" * 9000)})
    with pytest.raises(PromptTooLong, match="it has 1,000,000 bytes"):
        model.decide("x" * 1_000_000, {"a": TEAM})


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Question.choice("?", []), "a choice has 0 options; it may have 1 to 255"),
        (lambda: Question.score("?", map(str, range(11))), "a score has 11 options"),
        (lambda: Question.choice("?", ["a", "b", "a"]), "a choice has the option 'a' twice"),
        (lambda: Question.choice("?", [" "]), "an option without a name"),
    ],
)
def test_a_question_without_sense_is_refused(made, message):
    with pytest.raises(UsageError, match=message):
        made()


def test_a_decision_without_sense_is_refused(model):
    with pytest.raises(UsageError, match="there is no question"):
        model.decide("x", {})
    with pytest.raises(UsageError, match="permutations is 0; it may be 1 to 16"):
        model.decide("x", {"a": TEAM}, permutations=0)
    many = dict.fromkeys(map(str, range(101)), TEAM)
    with pytest.raises(UsageError, match="101 questions in 10 orders are more than 1,000 prompts"):
        model.decide("x", many, permutations=10)
    long = Question.choice("?", [f"{at}" * 40 for at in range(10, 40)])
    with pytest.raises(UsageError, match=r"no labels of one token for 30 .* 80 tokens"):
        model.decide("x", {"a": long})
    with pytest.raises(UsageError, match="the state is no text, and nothing that JSON holds"):
        model.decide({1, 2}, {"a": TEAM})


def test_a_model_that_is_closed_ends_the_wait(model):
    future = model.begin_deciding("x" * 3000, dict.fromkeys(map(str, range(50)), TEAM))
    model.close()
    with pytest.raises(LocalSpecError, match="closed"):
        future.result(10)


def test_a_decision_that_nobody_waits_for_asks_no_more():
    read = []

    def noting(context):
        read.append(len(context))
        return drawn(context)

    with loaded(script=noting) as model:
        future = model.begin_deciding("x", dict.fromkeys(map(str, range(400)), TEAM))
        future.cancel()
        assert model.decide("y", {"a": TEAM})
    assert len(read) < 20


def test_the_first_place_is_asked_about_alone_and_cancelled_with_the_answer(model):
    jobs = []

    def submit(tokens, settings, listener):
        jobs.append(SimpleNamespace(cancelled=False))
        return jobs[-1]

    future = Decider(model.text, submit, slots=8).prepare(["x"], [TEAM] * 9).begin()
    assert [job.cancelled for job in jobs] == [False]
    future.cancel()
    assert [job.cancelled for job in jobs] == [True]
