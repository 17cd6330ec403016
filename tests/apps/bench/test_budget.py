"""How long replies are in the time there is."""

from __future__ import annotations

from localspec.apps.bench.budget import LONGEST, SHORTEST, Pace, Work, reply_tokens

SLOW = Work(Pace(reading=0.03, decoding=0.09), readings=1, replies=3)  # 1.5B on two slow cores
FAST = Work(Pace(reading=0.0001, decoding=0.005), readings=1, replies=3)
FIRSTS = [70, 60, 250, 480, 80, 70, 70]  # tokens of the first prompt of each category


def test_a_slow_model_answers_one_prompt_of_each_category_in_time():
    tokens = reply_tokens(SLOW, FIRSTS, 140)
    assert SHORTEST < tokens < LONGEST
    assert sum(SLOW.seconds(prompt, tokens) for prompt in FIRSTS) <= 140


def test_a_fast_model_gives_long_replies():
    assert reply_tokens(FAST, FIRSTS, 140) == LONGEST


def test_too_slow_a_model_answers_shortly():
    slower = Work(Pace(reading=1.0, decoding=2.0), readings=2, replies=4)
    assert reply_tokens(slower, FIRSTS, 140) == SHORTEST


def test_a_prompt_that_several_read_takes_longer():
    twice = Work(SLOW.pace, readings=2, replies=3)
    assert twice.seconds(100, 10) == SLOW.seconds(100, 10) + 3
