"""`localspec prove`: a verdict in plain words, and exit codes that say it."""

from __future__ import annotations

import json
import math
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from localspec import load
from localspec.apps.command_line import run
from localspec.apps.prove import prompts, proof
from localspec.apps.prove.chi_square import Fit
from localspec.apps.prove.effort import PROBE, Effort, TextSpeed, within
from localspec.apps.prove.greedy import Comparison, Difference
from localspec.apps.prove.proof import (
    CONTEXT,
    SLOTS,
    ProofPlan,
    ProofProgress,
    attempt,
    greedy,
    open_with_spare_slots,
    sampled,
    slot_counts,
)
from localspec.apps.prove.sampled import FitTest, SampleCounts
from localspec.apps.prove.verdict import LEVEL, judge
from localspec.apps.prove.verdict_lines import verdict_lines
from localspec.base.errors import PromptTooLong, UnknownModel, UsageError
from localspec.base.tokens import tokens_of
from localspec.core.pairing.pair import Pair
from localspec.interfaces.backend import Options
from localspec.interfaces.testing import Alphabet, ScriptedModel, hashed_logits
from localspec.running.runtime.loading import Loading
from localspec.running.runtime.pair_files import PairFiles
from tests import engines

QUICK = ["--threads", "1", "--context", "512", "--max-tokens", "16", "--samples", "120"]
TIE = Difference(7, " the", " a", 0.031, True, "both tokens come again")
DEFECT = Difference(9, " cat", " dog", 0.5, False, "the model says ' cow'")
EQUAL = Comparison("ngram", 1, 1, 4, 20, 10, None)
SAID = {"plain": SampleCounts(500), "ngram": SampleCounts(500, 800, 300)}
FITS = [FitTest("plain", 1, 500, Fit(9.1, 10, 0.5)), FitTest("ngram", 1, 500, Fit(9.9, 10, 0.4))]


@pytest.fixture(scope="module")
def model():
    return str(engines.tiny("llama"))


@pytest.fixture
def few(tmp_path):
    path = tmp_path / "prompts.jsonl"
    messages = [{"role": "user", "content": "if it is not on"}]
    rows = [{"prompt": "the code is the code", "id": 3}, {"messages": messages}]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    return str(path)


class Silence:
    """A watch that shows nothing, and may stop after some items."""

    def __init__(self, patience=10**9):
        self.patience, self.labels = patience, []

    @property
    def stopped(self):
        return self.patience <= 0

    def __call__(self, items, length, label, seconds=None, least=0):
        if self.stopped:
            return
        for seen, item in enumerate(items, 1):
            self.labels.append(label)
            assert seen <= length
            self.patience -= 1
            yield item
            if self.stopped:
                return

    def listening(self):
        return nullcontext()


def verdict(compared=(EQUAL,), tallies=SAID, tests=FITS):
    return judge(compared, tallies, tests, 1.0)


def said(found):
    return "\n".join(verdict_lines(found, details=True))


def test_a_pair_is_proven_in_words(model, few, capsys):
    draft = str(engines.tiny("llama", seed=3))
    assert run(["prove", model, "--draft", draft, "--prompts", few, *QUICK]) == 0
    out, err = capsys.readouterr()
    first, second, third, last = out.strip().splitlines()
    assert first == "Proven: speculation changed nothing in 20 texts and 720 samples."
    assert second == "greedy: 20 of 20 texts equal"  # 2 prompts, 5 proposers, alone and not
    assert "smallest p" in third
    assert last.startswith("--details shows each proposer")
    assert err.startswith(f"loading {model}; proving takes up to 4 min\nplain texts: 0 of 2\n")
    assert "speculative texts: 0, about" in err


def test_details_name_every_proposer(model, few, capsys):
    assert run(["prove", model, "--prompts", few, "--details", *QUICK]) == 0
    out = capsys.readouterr().out
    for name in ("ngram", "auto", "slips", "drawn", "plain"):
        assert f"  {name} " in out
    assert " accepted " in out


def test_json_holds_every_figure(model, few, capsys):
    assert run(["prove", model, "--prompts", few, "--json", "--temperature", "0.8", *QUICK]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["proven"]
    assert record["faults"] == []
    assert record["greedy"]["texts"] == 16
    assert record["greedy"]["drafts"]["slips"]["drafted"] > 0
    assert record["sampled"]["temperature"] == 0.8
    assert record["sampled"]["rounds"] == 5 * 120
    assert record["sampled"]["limit"] == LEVEL / len(record["sampled"]["tests"])
    assert {"proposer", "token", "samples", "fit"} == set(record["sampled"]["tests"][0])


def test_a_recurrent_model_is_tried_in_one_slot_and_in_several(few):
    loading = Loading(Options(threads=1, context=512))
    path = str(engines.tiny("qwen35"))
    assert slot_counts(PairFiles.locate(path, None, "auto")) == [1, SLOTS]
    assert slot_counts(PairFiles.locate(engines.tiny("llama"), None, "auto")) == [SLOTS]
    plan = ProofPlan(prompts.built_in()[:2], 10, 60)
    watch = Silence()
    attempted = attempt(path, None, loading, plan, watch)
    assert attempted.greedy.texts == 2 * 4 + 2 * 8
    assert not [each for each in attempted.greedy.differences if each.defective]
    assert attempted.sampled.rounds == watch.labels.count("samples") == 60 * 5
    with pytest.raises(UnknownModel):
        attempt(path, "no-such-model", loading, plan, watch)


@pytest.mark.parametrize(("products", "fault"), [("localspec", True), ("llama.cpp", False)])
def test_rounding_is_no_excuse_where_a_text_has_the_same_bits_in_any_company(
    monkeypatch, model, products, fault
):
    tie = replace(EQUAL, difference=TIE)
    monkeypatch.setattr(proof, "greedy", lambda *_: ([], [EQUAL, tie]))
    monkeypatch.setattr(proof, "sampled", lambda *_: (SAID, FITS))
    loading = Loading(Options(threads=1, gpu_layers=0, products=products))
    verdict = attempt(model, None, loading, ProofPlan(()), Silence())
    expected = ["1 of 2 greedy texts are not equal to the bit"] if fault else []
    assert verdict.faults == expected


def test_the_models_are_loaded_with_slots_to_spare_and_closed():
    draft = str(engines.tiny("llama", seed=3))
    with open_with_spare_slots(
        PairFiles.locate(engines.tiny("llama"), draft, "auto"), Loading(), 4
    ) as models:
        pair = models.pair
        assert (pair.target.slots, pair.draft.slots) == (4, 4)
        assert pair.target.pool >= 4 * CONTEXT
    for closed in (pair.target, pair.draft):
        with pytest.raises(Exception, match="closed"):
            closed.forward([])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-model"], "there is no model 'no-such-model'"),
        (["MODEL", "--draft", "no-such-model"], "there is no model 'no-such-model'"),
        (["MODEL", "--temperature", "0"], "temperature 0 is greedy"),
        (["MODEL", "--temperature", "-1"], "temperature is -1"),
        (["MODEL", "--samples", "0"], "samples"),
        (["MODEL", "--max-tokens", "0"], "max-tokens"),
        (["MODEL", "--prompts", "no-such-file"], "no-such-file"),
        (["MODEL", "--proposer", "none"], "--proposer"),
        (["MODEL", "--context", "24", "--threads", "1"], "tokens > 24;"),
    ],
)
def test_wrong_wishes_are_one_line_and_end_with_2(model, capsys, arguments, message):
    assert run(["prove", *(model if each == "MODEL" else each for each in arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_what_is_no_proof_ends_with_1_and_says_why(model, few, capsys):
    assert run(["prove", model, "--prompts", few, *QUICK[:-1], "2"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("Not proven: ngram was sampled too seldom")
    assert "localspec: this is no proof: ngram was sampled too seldom" in err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ("3", "line 1: not an object"),
        ('{"prompt": ""}', "line 1: prompt is not a text"),
        ('{"prompt": 3}', "line 1: prompt is not a text"),
        ('{"messages": []}', "line 1: messages are a list"),
        ('{"messages": [{"role": "user"}]}', "line 1: messages are a list"),
        ('{"messages": "x"}', "line 1: messages are a list"),
        ('{"prompt": "x", "messages": []}', "line 1: give either"),
        ("[" * 100_000, "line 1: not JSON"),
        ("\n", "has no prompts"),
    ],
)
def test_a_file_of_prompts_must_hold_prompts(tmp_path, line, message):
    path = tmp_path / "mine.jsonl"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        prompts.read(path)


def test_prompts_are_fed_as_generate_feeds_them(model, few):
    conversations = prompts.read(Path(few))
    options = Options(threads=1, context=512)
    with load(model, loading=Loading(options)) as runtime:
        texts = prompts.encode(runtime.tokenizer, conversations)
        assert [text.tolist() for text in texts] == [runtime.conversation(c) for c in conversations]
        runtime.tokenizer.chat_template = None
        [raw] = prompts.encode(runtime.tokenizer, conversations[:1])
        assert raw.tolist() == runtime.encode("the code is the code")
        with pytest.raises(UsageError, match='give a "prompt"'):
            prompts.encode(runtime.tokenizer, [[*conversations[0], *conversations[1]]])


def test_a_text_begins_with_one_start_token():
    tokenizer = Alphabet([b"a", b"b", b"<s>"])
    tokenizer.bos, tokenizer.starts = 2, True
    texts = [[{"role": "user", "content": each}] for each in ("ab", "<s>ab")]
    assert [each.tolist() for each in prompts.encode(tokenizer, texts)] == [[2, 0, 1]] * 2


def test_every_prompt_is_checked_before_the_first_is_answered():
    watch, model = Silence(), ScriptedModel(hashed_logits(1))
    model.context = 12
    texts = [[{"role": "user", "content": each}] for each in ("abc", "abc" * 9)]
    with pytest.raises(PromptTooLong):
        greedy(Pair(model), ProofPlan(texts), watch)
    assert not watch.labels


@pytest.mark.parametrize("patience", [1, 4, 9, 60])
def test_a_proof_that_is_stopped_tells_what_there_is(patience):
    watch, models = Silence(patience), Pair(ScriptedModel(hashed_logits(1)))
    plan = ProofPlan(prompts.built_in()[:4], 8, 50)
    replies, compared = greedy(models, plan, watch)
    tallies, tests = sampled(models, plan, replies, watch)
    judged = judge(compared, tallies, tests, 1.0)
    assert len(watch.labels) == patience
    assert judged.greedy.texts == min(max(patience - 4, 0), 32)
    assert judged.sampled.rounds == max(patience - 4 - 32, 0)
    assert not judged.proven
    assert said(judged)


def test_ctrl_c_lets_the_model_finish_and_a_second_one_does_not():
    progress, seen = ProofProgress(), []
    before = signal.getsignal(signal.SIGINT)
    with progress.listening():
        for each in progress(range(5), 5, "numbers"):
            seen.append(each)
            if each == 1:
                signal.raise_signal(signal.SIGINT)
        assert list(progress(range(5), 5, "more")) == []
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert seen == [0, 1]
    assert progress.stopped
    assert signal.getsignal(signal.SIGINT) is before


def test_a_slow_model_is_tried_with_fewer_and_shorter_texts():
    slow, fast = TextSpeed(reading=1.2, a_token=0.09), TextSpeed(reading=0.1, a_token=0.005)
    assert fast.effort(8, 4, 144) == Effort(8, 64)
    assert slow.effort(8, 4, 144) == Effort(3, 16)
    assert slow.effort(8, 4, 600) == Effort(5, 64)
    assert slow.effort(8, 4, 144, tokens=64) == Effort(3, 64)
    assert slow.effort(2, 4, 12) == Effort(2, 8)
    assert slow.effort(2, 4, 11) == Effort(1, 8)  # three texts would take half of it
    assert slow.effort(8, 4, math.inf) == Effort(8, 64)


def test_the_speed_is_measured_by_one_prompt_read_once():
    ticks, model = iter([0.0, 2.0, 2.0 + PROBE / 2]), ScriptedModel(hashed_logits(1))
    measured = TextSpeed.measure(model, tokens_of([1, 2, 3] * 30), lambda: next(ticks))
    assert measured == TextSpeed(reading=2.0, a_token=0.5)
    assert model.forwards == 2 + PROBE  # its batch is 64
    assert not any(model.held.values())


def test_items_come_until_the_time_is_over_and_some_however_long_that_takes():
    def passed(seconds, least):
        made = []
        items = (made.append(at) or at for at in range(20))  # one a second
        return len(list(within(items, seconds, least, lambda: len(made))))

    assert passed(5.5, 0) == 6
    assert passed(5.5, 8) == 8
    assert passed(50, 8) == 20


def test_equal_texts_and_fitting_samples_are_a_proof():
    judged = verdict()
    assert judged.proven
    assert judged.sampled.limit == LEVEL / 2
    text = said(judged)
    assert "greedy: 1 of 1 texts equal\n" in text
    assert "10 of 20 accepted" in text
    assert "sampled: 2 tests of 1,000 samples at temperature 1, smallest p 0.4" in text
    assert text.startswith("Proven: speculation changed nothing in 1 text and 1,000 samples.\n")


def test_near_ties_that_the_batch_explains_are_a_proof_and_are_told():
    judged = verdict([EQUAL, replace(EQUAL, together=3, difference=TIE)])
    assert judged.proven
    text = said(judged)
    assert "1 of 2 texts equal; 1 differs at a near-tie (margin 0.031); batch width alone" in text
    assert "prompt 1, token 7: ' the' became ' a', margin 0.031 (ngram, depth 4, 3 at once)" in text
    assert "by rounding" in text
    two = verdict([replace(EQUAL, difference=replace(TIE, margin=m)) for m in (0.2, 0.01)])
    assert "2 differ at a near-tie (margins 0.01 to 0.2)" in said(two)


def test_a_defect_is_no_proof_and_comes_first():
    ties = [replace(EQUAL, difference=TIE), replace(EQUAL, difference=DEFECT)]
    judged = verdict(ties)
    assert judged.faults == ["1 of 2 greedy texts differ, and rounding does not explain it"]
    text = said(judged)
    assert text.index("' cow'") < text.index("' a'")
    assert text.startswith("Not proven: 1 of 2")
    short = "\n".join(verdict_lines(judged))
    assert "' cow'" in short
    assert "' a'" not in short


def test_what_was_never_put_to_the_test_is_no_proof():
    cases = {
        "ngram drafted nothing in greedy text": verdict([replace(EQUAL, drafted=0, accepted=0)]),
        "no draft token was accepted in greedy text": verdict([replace(EQUAL, accepted=0)]),
        "no draft token was rejected in greedy text": verdict([replace(EQUAL, accepted=20)]),
        "no greedy text was compared": verdict([]),
        "nothing was sampled": verdict(tallies={}, tests=[]),
        "ngram was sampled too seldom": verdict(tests=FITS[:1]),
        "ngram drafted nothing in sampled": verdict(tallies={**SAID, "ngram": SampleCounts(500)}),
        "no draft token was accepted in sampled": verdict(
            tallies={**SAID, "ngram": SampleCounts(500, 9)}
        ),
        "no draft token was rejected in sampled": verdict(
            tallies={**SAID, "ngram": SampleCounts(500, 9, 9)}
        ),
    }
    for words, found in cases.items():
        assert not found.proven
        assert words in found.faults[0]
        assert len(found.faults) == 1
    other = replace(EQUAL, proposer="slips", accepted=0)
    assert verdict([EQUAL, other]).proven  # one that is always wrong is fine beside another


def test_a_misfit_is_no_proof_and_the_control_points_elsewhere():
    for name, blame in (("ngram", False), ("plain", True)):
        low = Fit(60.0, 10, 0.0004)
        tests = [replace(test, fit=low) if test.proposer == name else test for test in FITS]
        [fault] = verdict(tests=tests).faults
        assert f"samples of {name} do not follow the target's distribution" in fault
        assert ("no fault of speculation's" in fault) == blame
    near = [replace(test, fit=Fit(40.0, 10, 0.0006)) for test in FITS]
    assert verdict(tests=near).proven  # two tests: each may be as low as half the level
