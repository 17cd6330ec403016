"""A thought ends where its budget is spent, whatever is drafted: the text is that of no drafts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from localspec.base.errors import UsageError
from localspec.base.tokens import NONE, tokens_of
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.forced import ForcedProposer
from localspec.core.proposers.silent import Silent
from localspec.core.proposers.suffix import SuffixProposer
from localspec.core.requests.settings import Settings
from localspec.core.sampling.filters import distribution
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.formats.dialects.thought import FirstThought
from localspec.formats.thought.budget import ThoughtBudget
from localspec.formats.thought.form import Place, Thoughts
from localspec.interfaces.costs import Costs
from localspec.interfaces.distribution import Distribution
from localspec.interfaces.testing import Alphabet, ScriptedModel, hashed_logits
from tests.chi_square import chi_square, limit
from tests.core.requests.test_plain_rounds import Running, chunks
from tests.runs import LETTERS, PROPOSERS, Want, replies, said, scripted

OPENED = FirstThought(b"ab", (b"ae",), (), Place(thinks=True, begins=True))
LATER = replace(OPENED, open=b"d", start=Place(begins=True))
CLOSING = tuple(LETTERS.encode("fdaeb").tolist())  # a sentence, the mark, and what follows it
OURS = {
    **PROPOSERS,
    "closing": ForcedProposer,
    "all": lambda: Best(
        {
            "forced": ForcedProposer(),
            "suffix": SuffixProposer(floor=0.1),
            "draft-model": DraftModelProposer(scripted(9), floor=0),
        },
        Depth(Costs({1: 0.01, 9: 0.011}, {"draft-model": {1: 0.001, 4: 0.004}})),
    ),
}
SEEDED = Sampling(1.3, top_p=0.95, presence=0.4, repetition=1.2, bias={2: 1.0})
OWN_DICE = ("twin", "stranger", "recurrent", "translated", "masked", "first-of")


def wants(budget, sampling=GREEDY, count=6, form=OPENED, **settings):
    thoughts = Thoughts(form, CLOSING)
    prompts = [[(at * at + slot) % 6 for at in range(2 + 5 * slot)] for slot in range(count)]
    chosen = Settings(40, sampling, ignore_end=True, thoughts=thoughts, **settings)
    return [
        Want(prompt, replace(chosen, seed=slot, reasoning_budget=budget))
        for slot, prompt in enumerate(prompts)
    ]


def closing_starts(reply, budget):
    """Find where a reply is cut; None where the thought ended by itself, with `ae`."""
    at = budget + (text(reply[:budget])[-1:] == "a")  # which may begin the end of the thought
    return None if "ae" in text(reply[:at]) else at


def must_follow(reply, budget):
    at = closing_starts(reply, budget)
    inside = at is not None and 0 <= len(reply) - at < len(CLOSING)
    return CLOSING[len(reply) - at] if inside else None


def expected(prompt, budget):
    """Go on greedily, and cut the text by hand."""
    logits, reply = hashed_logits(1), []
    while len(reply) < 40:
        token = must_follow(reply, budget)
        likeliest = int(logits([*prompt, *reply]).argmax())
        reply.append(likeliest if token is None else token)
    return tuple(reply), closing_starts(reply, budget) is not None


def text(tokens):
    return "".join("abcdefg"[token] for token in tokens)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("budget", [0, 1, 7, 20])
def test_a_thought_is_cut_at_its_budget_and_no_other_token_changes(name, budget):
    requests = wants(budget)
    cut = [expected(want.prompt, budget) for want in requests]
    results = replies(scripted(), OURS[name](), requests)
    assert [result.tokens for result in results] == [tokens for tokens, _ in cut]
    assert [result.usage.thoughts_cut for result in results] == [was for _, was in cut]


def test_thoughts_end_by_themselves_and_by_their_budget_in_these_texts():
    cut = Counter(expected(want.prompt, 20)[1] for want in wants(20))
    assert min(cut[True], cut[False]) > 0


@pytest.mark.parametrize("name", [name for name in OURS if name not in OWN_DICE])
@pytest.mark.parametrize("budget", [0, 3, 20])
def test_a_seeded_text_with_a_budget_is_the_plain_one(name, budget):
    for form in (OPENED, LATER):
        answers = replies(scripted(), OURS[name](), wants(budget, SEEDED, form=form))
        assert said(answers) == plain_texts(budget, form)


@cache
def plain_texts(budget, form):
    return said(replies(scripted(), Silent(), wants(budget, SEEDED, form=form), depth=0))


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("recurrent", [False, True], ids=["attention", "recurrent"])
@pytest.mark.parametrize("depth", [1, 4, 16])
def test_the_text_does_not_depend_on_depth_batch_or_neighbours(name, recurrent, depth):
    model = scripted(recurrent=recurrent, batch=23)
    model.slots = 3
    assert said(replies(model, OURS[name](), wants(7), depth)) == each_alone(7)


@cache
def each_alone(budget):
    return said([replies(scripted(), Silent(), [want], 0)[0] for want in wants(budget)])


@pytest.mark.parametrize("name", ["twin", "stranger", "closing", "silent"])
def test_sampled_replies_with_a_budget_follow_the_law_of_the_target(name):
    prompt, budget, counts, total = (1, 2, 3), 2, Counter(), 1500
    settings = wants(budget, Sampling(1.0), count=1)[0].settings
    requests = [
        Want(prompt, replace(settings, seed=seed, max_tokens=8, reasoning_budget=budget))
        for seed in range(total)
    ]
    for at in range(0, total, 50):
        for result in replies(scripted(), OURS[name](), requests[at : at + 50]):
            counts[result.tokens] += 1
    statistic, freedom = chi_square(counts, law(prompt, budget, 8), total)
    assert statistic < limit(freedom)
    assert freedom > 5


@cache
def law(prompt, budget, length):
    """Enumerate the replies of the target, cut by hand, with their probabilities."""
    logits, law = hashed_logits(1), {(): 1.0}
    for _ in range(length):
        longer = {}
        for reply, chance in law.items():
            token = must_follow(reply, budget)
            following = distribution(Sampling(1.0), logits([*prompt, *reply]))
            if token is not None:
                following = Distribution.certain(token)
            for token, p in zip(following.ids.tolist(), following.probs.tolist(), strict=True):
                longer[*reply, token] = chance * p
        law = longer
    return law


def test_closing_a_thought_takes_one_round():
    [want] = wants(7, count=1)
    [plain] = replies(scripted(), Silent(), [want])
    [drafted] = replies(scripted(), ForcedProposer(), [want], depth=16)
    assert drafted.tokens == plain.tokens
    assert drafted.speculation.tokens_by_source["forced"] == len(CLOSING)
    assert drafted.speculation.acceptance_rate == 1
    assert drafted.speculation.rounds == plain.speculation.rounds - len(CLOSING)


def test_far_from_its_budget_a_reply_is_decoded_as_without_one():
    [want] = wants(20, count=1)
    runs = {"prompts": [want.prompt], "settings": want.settings}
    [single] = Running(scripted(), **runs).run(hurried=lambda: True)
    [several] = Running(scripted(), **runs).run()
    assert single[-1].tokens == several[-1].tokens
    assert single[-1].usage.thoughts_cut == 1
    lengths = [len(each.tokens) for each in chunks(several)]
    # The prompt is read, how long rounds take is found out, and then there are several at once.
    assert lengths == [1, 1, 5, 5, 5, 3, *[1] * len(CLOSING), 5, 4, 4, 2]


@pytest.mark.parametrize("budget", [None, -1, 41])
def test_without_a_budget_and_within_it_a_text_is_as_ever(budget):
    free = [Want(want.prompt, replace(want.settings, thoughts=None)) for want in wants(None)]
    results = replies(scripted(), ForcedProposer(), wants(budget))
    assert said(results) == said(replies(scripted(), Silent(), free))
    assert not any(result.usage.thoughts_cut for result in results)


def test_a_reply_that_does_not_begin_to_think_is_left_alone():
    free = replies(scripted(), Silent(), wants(-1, count=20))
    budgeted = replies(scripted(), OURS["all"](), wants(0, count=20, form=LATER))
    thinking = [result.text.startswith("d") for result in free]
    assert any(thinking)
    assert not all(thinking)
    for before, after, thinks in zip(free, budgeted, thinking, strict=True):
        assert thinks or before.tokens == after.tokens
        assert not thinks or after.text.startswith("d" + text(CLOSING))


WORDS = Alphabet(
    [b"a", b"\xf0", b"\x9f", b"\x98", b"\x80", b"\xc3", b"\xa9", b"</", b"think", b">", b" "],
    ends=[],
)
SPEECH = "😀é" * 40


@pytest.mark.parametrize("budget", range(10))
def test_no_character_is_cut_in_the_middle(budget):
    tokens = WORDS.encode(SPEECH).tolist()

    def logits(context):
        copied = hashed_logits(1, 0.1, WORDS.size)(context).copy()
        copied[tokens[len(context) - 1]] = 9.0
        return copied

    form = FirstThought(b"<think>", (b"</think>",), (), Place(thinks=True, begins=True))
    thoughts = Thoughts(form, tuple(WORDS.encode(" </think>").tolist()))
    settings = Settings(20, thoughts=thoughts, reasoning_budget=budget)
    [copied] = replies(ScriptedModel(logits, WORDS), ForcedProposer(), [Want([0], settings)])
    thought, mark, _ = copied.text.partition(" </think>")
    assert mark
    assert SPEECH.startswith(thought)
    written = len(WORDS.encode(thought))
    assert budget <= written < budget + 4
    assert copied.usage.reasoning_tokens == written + 1  # and the blank before the mark


def test_a_mark_that_comes_in_pieces_is_no_part_of_the_thought():
    tokens = WORDS.encode("a a</a</think>a").tolist()

    def logits(context):
        copied = hashed_logits(1, 0.1, WORDS.size)(context).copy()
        copied[tokens[min(len(context) - 1, len(tokens) - 1)]] = 9.0
        return copied

    form = FirstThought(b"<think>", (b"</think>",), (), Place(thinks=True, begins=True))
    for budget, reads in ((6, "a a</a</think>a"), (4, "a a</a </think>"), (3, "a a </think>")):
        thoughts = Thoughts(form, tuple(WORDS.encode(" </think>").tolist()))
        settings = Settings(11, thoughts=thoughts, reasoning_budget=budget)
        [copied] = replies(ScriptedModel(logits, WORDS), ForcedProposer(), [Want([0], settings)])
        assert copied.text.startswith(reads)
        assert copied.usage.thoughts_cut == (budget < 6)
        assert copied.usage.reasoning_tokens == len(WORDS.encode(reads.partition("</th")[0]))


def test_what_must_follow_depends_on_the_reply_and_a_draft_alone():
    budget = ThoughtBudget(Thoughts(OPENED, CLOSING), 2, LETTERS.token_bytes)
    b, d = LETTERS.encode("bd").tolist()
    assert budget.forced(NONE).tolist() == []
    assert budget.certain([b]) is None
    assert budget.certain([b, d]) == CLOSING[0]
    assert budget.certain([d, d, CLOSING[0]]) == CLOSING[1]
    assert budget.certain([d]) is None
    budget.emit([b])
    assert budget.certain([b, *CLOSING[:2]]) == CLOSING[2]
    assert budget.certain([b, *CLOSING]) is None
    budget.emit([d, CLOSING[0]])
    assert budget.forced(tokens_of([b, d, CLOSING[0]])).tolist() == list(CLOSING[1:])
    assert budget.forced(tokens_of([b])).tolist() == []
    assert (budget.cuts, budget.over) == (1, False)
    budget.emit(CLOSING[1:])
    assert (budget.cuts, budget.over) == (1, True)


@pytest.mark.parametrize("name", ["closing", "all", "twin"])
def test_the_end_of_a_thought_is_written_though_its_text_is_banned(name):
    requests = wants(3, banned_strings=("fda", "bc"))
    plain = replies(scripted(), Silent(), requests)
    assert said(replies(scripted(), OURS[name](), requests)) == said(plain)
    texts = [text(result.tokens) for result in plain]
    assert sum("fdaeb" in written for written in texts) > 1
    assert not any("bc" in written.replace("fdaeb", "-") for written in texts)


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"reasoning_budget": -2}, "-2; it must be at least -1"),
        ({"reasoning_budget": True}, "a whole number, or None"),
        ({"reasoning_budget": 1.5}, "a whole number, or None"),
        ({"reasoning_budget_message": 3}, "a text, or None"),
        ({"reasoning_budget_message": "x" * 1025}, "1,025 characters; it may have 1,024"),
        (
            {"reasoning_budget_message": "So: Done.", "banned_strings": ("no", "done")},
            "reasoning_budget_message has 'done', one of banned_strings: leave it out of one",
        ),
    ],
)
def test_a_wrong_budget_is_refused_with_its_name(wish, why):
    with pytest.raises(UsageError, match=why):
        Settings(**wish)
