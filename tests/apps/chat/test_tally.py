"""The stream of a server, honest or not, as pieces and figures."""

from __future__ import annotations

import itertools
import json

import pytest

from localspec.apps.chat.status import explain, sparkline, status
from localspec.base.errors import BackendError
from localspec.console.speakers.speaker import AnswerFigures, AnswerRound, Piece
from localspec.console.speakers.stream import StreamTally, error_message, printable_name, spans
from localspec.core.requests.figures import PositionCounts


def chunk(delta, **more):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}], **more}


def heard(*chunks):
    """Each a second after the one before."""
    tally = StreamTally(100.0)
    pieces = [piece for now, each in enumerate(chunks, 101) for piece in tally.take(each, now)]
    return pieces, tally.end()


def test_a_trace_becomes_rounds_and_who_said_what():
    trace = {"drafted": 4, "accepted": 2, "by": "ngram", "said": [[3, "ngram"], [1, "target"]]}
    pieces, ended = heard(
        chunk({"content": "abcd"}, localspec=trace),
        chunk({}, localspec={"drafted": 0, "accepted": 0, "by": ""}),
        chunk({"reasoning_content": "hm"}, localspec={"said": [[2, "target"]]}),
    )
    assert pieces == [
        Piece(round=AnswerRound(4, 2, "ngram")),
        Piece("abcd", "answer", [(3, "ngram"), (1, "target")]),
        Piece(round=AnswerRound(0, 0, "")),
        Piece("hm", "thought", [(2, "target")]),
    ]
    # By what was heard alone, where the end did not come: an answer that was stopped.
    figures = ended.figures
    assert (figures.tokens, figures.rounds, figures.drafted, figures.accepted) == (4, 2, 4, 2)
    assert figures.by_source == {"target": 2, "ngram": 2}
    assert figures.first_seconds == 1.0
    assert figures.per_second == 3 / 2


def test_a_server_knows_its_figures_better_than_we_do():
    timings = {
        "predicted_per_second": 50.0,
        "speedup": 2.0,
        "rounds": 7,
        "draft_n": 12,
        "draft_n_accepted": 9,
        "tokens_by_source": {"target": 7, "suffix": 9},
        "guesses": {"suffix": [[6, 5], [6, 4]]},
    }
    usage = {
        "prompt_tokens": 30,
        "completion_tokens": 16,
        "prompt_tokens_details": {"cached_tokens": 20},
    }
    last = {"index": 0, "delta": {}, "finish_reason": "length"}
    _, ended = heard(
        chunk({"content": "a"}),
        {"choices": [last], "timings": timings, "localspec": {"notices": ["no draft model", 5]}},
        {"choices": [], "usage": usage},
    )
    assert ended.finish == "length"
    assert ended.notices == ["no draft model"]
    assert ended.figures == AnswerFigures(
        tokens=16,
        prompt=30,
        cached=20,
        first_seconds=1.0,
        per_second=50.0,
        speedup=2.0,
        rounds=7,
        drafted=12,
        accepted=9,
        by_source={"target": 7, "suffix": 9},
        guesses={"suffix": (PositionCounts(6, 5), PositionCounts(6, 4))},
    )


def test_rounds_that_are_not_told_follow_from_what_was_right():
    """llama.cpp's server tells of drafted tokens, and of no rounds."""
    timings = {"draft_n": 12, "draft_n_accepted": 9, "predicted_per_second": 5.0}
    used = {"completion_tokens": 16}
    _, ended = heard(chunk({"content": "a"}, timings=timings, usage=used))
    assert ended.figures.rounds == 7


def test_a_thought_that_is_told_under_two_names_is_heard_once():
    pieces, _ = heard(chunk({"reasoning": "hm", "reasoning_content": "hm", "content": "ah"}))
    assert [(each.text, each.kind) for each in pieces] == [("hm", "thought"), ("ah", "answer")]


def test_how_far_a_prompt_is_read_is_never_more_than_all_of_it():
    tally = StreamTally(0.0)
    for told, read in (({"total": 0}, None), ({"total": 8, "processed": 2}, 0.25)):
        assert not list(tally.take({"prompt_progress": told}, 1.0))
        assert tally.read == read
    list(tally.take({"prompt_progress": {"total": 8, "processed": 20}}, 1.0))
    assert tally.read == 1.0
    stopped = tally.end("cancelled").figures  # no usage is told of it
    assert stopped.prompt == 8


def test_who_said_what_is_told_of_all_characters_or_of_none():
    assert spans([[2, "ngram"], [1, "target"]], 3) == [(2, "ngram"), (1, "target")]
    for told in ([[2, "ngram"]], [[4, "ngram"]], [[-1, "a"], [4, "b"]], [["3", "a"]], "abc", None):
        assert spans(told, 3) == []
    assert printable_name("\x1b[31m" + "x" * 1000) == "[31m" + "x" * 35


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"error": {"message": "out of\n  memory"}}, "out of memory"),
        ({"error": "oh no"}, "oh no"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"message": "bad"}, "bad"),
        ({"error": {"message": 5}, "detail": [1]}, ""),
        ({"error": "x" * 9000}, "x" * 500),
    ],
)
def test_what_is_wrong_is_found_in_every_form_and_is_one_line(told, message):
    assert error_message(told) == message


ODD = (
    *(None, True, -1, 0, 1, 5.5, 10**400, -(10**400), 1e308, "12", "", "\x1b[2J", [], {}, [[]]),
    *([[1, 2]], [[1, "x"]], [["x", 1]], {"a": 1}, {"a": [[3, 2], [2, 9], [-1, -5]]}),
    *(float("nan"), float("inf"), [{"delta": {"content": 5}}], [None], {"total": 1e-300}),
)
PLACES = (
    *(("choices",), ("usage",), ("timings",), ("prompt_progress",), ("localspec",)),
    *(("choices", 0), ("choices", 0, "delta"), ("choices", 0, "finish_reason")),
    *(("choices", 0, "delta", name) for name in ("content", "reasoning", "reasoning_content")),
    *(("localspec", name) for name in ("said", "drafted", "accepted", "by", "notices")),
    *(("prompt_progress", name) for name in ("total", "processed")),
    *(("usage", name) for name in ("prompt_tokens", "completion_tokens", "prompt_tokens_details")),
    *(("timings", name) for name in ("rounds", "draft_n", "draft_n_accepted", "guesses")),
    *(("timings", name) for name in ("predicted_per_second", "speedup")),
    ("timings", "tokens_by_source"),
)
WHOLE = {
    **chunk({"content": "abc"}),
    "usage": {"prompt_tokens": 3, "completion_tokens": 3},
    "timings": {"draft_n": 3, "draft_n_accepted": 2, "rounds": 1, "predicted_per_second": 9.0},
    "prompt_progress": {"total": 3, "processed": 1},
    "localspec": {"drafted": 3, "accepted": 2, "by": "ngram", "said": [[3, "ngram"]]},
}


@pytest.mark.parametrize("place", PLACES)
def test_whatever_stands_in_a_place_an_answer_can_be_told_of(place):
    for odd, again in itertools.product(ODD, (False, True)):
        record = json.loads(json.dumps(WHOLE))
        at = record
        for name in place[:-1]:
            at = at[name]
        at[place[-1]] = odd
        pieces, ended = heard(*([WHOLE] * again), record, record)
        assert all(type(each.text) is str for each in pieces)
        figures = ended.figures
        assert 0 <= figures.accepted <= figures.drafted
        told_of = [*rounds_of(pieces), *itertools.chain(*figures.guesses.values())]
        assert all(0 <= each.accepted <= each.drafted for each in told_of)
        assert status(ended)
        assert dict(explain(figures, 100))
        assert sparkline(rounds_of(pieces)) is not None


def rounds_of(pieces):
    return [piece.round for piece in pieces if piece.round]


def test_what_is_no_object_is_nothing():
    for odd in ODD:
        assert heard(odd)[0] == []


def test_an_error_ends_it():
    for told, message in (({"error": "oh no"}, "oh no"), ({"error": 5}, "failed in mid-answer")):
        with pytest.raises(BackendError, match=message):
            heard(chunk({"content": "a"}), told)
    assert heard(chunk({"content": "a"}, error=None))[0] == [Piece("a", spans=[])]
