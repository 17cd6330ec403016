"""Log-probabilities of the tokens of a prompt: exact, each once, whatever runs beside them."""

from __future__ import annotations

import numpy as np
import pytest

from localspec.base.errors import OutOfMemory, UsageError
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.requests.settings import Settings
from localspec.interfaces.testing import ScriptedModel, hashed_logits
from tests.runs import LETTERS, PROPOSERS, Want, converse, replies, scripted

SCRIPT = hashed_logits(1)
PROMPTS = [[int(letter) % 6 for letter in text] for text in ("31415926535897932384", "27", "1")]
SCORED = Settings(max_tokens=30, logprobs=2, prompt_logprobs=True)


def logprob(context, token):
    logits = SCRIPT(context).astype(np.float64)
    return float(logits[token] - np.log(np.exp(logits).sum()))


def expected(prompt, tokens):
    text = [*prompt, *tokens]
    return [(text[at], pytest.approx(logprob(text[:at], text[at]))) for at in range(1, len(text))]


def scores(result):
    return [(each.token, each.logprob) for each in result.logprobs]


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("proposer", ["silent", "suffix", "stranger", "best"])
def test_each_token_of_a_prompt_but_the_first_is_scored_beside_others(proposer, recurrent):
    wants = [Want(prompt, SCORED) for prompt in PROMPTS * 2]
    plain = [Want(prompt, Settings(max_tokens=30)) for prompt in PROMPTS]
    answers = replies(scripted(recurrent=recurrent), PROPOSERS[proposer](), [*wants, *plain])
    for want, result in zip(wants, answers, strict=False):
        assert scores(result) == expected(want.prompt, result.tokens)
        assert all(len(each.top) == 2 for each in result.logprobs)
    assert [each.tokens for each in answers[:3]] == [each.tokens for each in answers[6:]]


def test_a_text_that_a_slot_holds_is_read_again_and_then_shared():
    engine = Engine(scripted(), Silent())
    for settings, cached in ((SCORED, 0), (SCORED, 0), (Settings(max_tokens=1), 19)):
        [result] = converse(engine, [Want(PROMPTS[0], settings)])
        assert result.usage.cached_tokens == cached
    assert result.logprobs is None


class Short(ScriptedModel):
    """A model that lacks memory in its fifth forward, and forgets seven tokens by that."""

    def forward(self, rows):
        self.lacks = self.forwards == 4
        if self.lacks:
            self.forwards += 1
            raise OutOfMemory("no memory is left")
        return super().forward(rows)

    def truncate(self, slot, length):
        return super().truncate(slot, max(length - 7 * self.lacks, 0))


def test_what_is_read_again_after_an_error_is_scored_once():
    model = Short(SCRIPT, LETTERS)
    model.tentative, model.lacks = 4, False
    engine = Engine(model, Silent())
    converse(engine, [Want([4, 4], Settings(max_tokens=1))])  # what it makes room of
    prompt = PROMPTS[0] * 2
    [result] = converse(engine, [Want(prompt, SCORED)])
    assert model.forwards > 4
    assert scores(result) == expected(prompt, result.tokens)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(logprobs=100, prompt_logprobs=True), "ask for 51 alternatives, or fewer"),
        (Settings(logprobs=52, prompt_logprobs=True), "5,000 tokens with 52 alternatives"),
    ],
)
def test_more_scores_than_there_is_memory_for_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        Engine(scripted(), Silent()).prepare(np.ones(5000, np.int32), settings, print)
