"""LocalSpec's own additions to a stream: sources of texts, prompt progress, plain decoding."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pytest

from localspec.apps.server.faults import Fault, Refused
from localspec.apps.server.replies.bell import FRAME, Bell
from localspec.apps.server.replies.exchange import Exchange, Inbox, Limit, Watch
from localspec.apps.server.replies.reply import Choices
from localspec.base.errors import LocalSpecError
from localspec.core.requests.job import Chunk, Event
from localspec.core.requests.speedup import MIN_PLAIN
from localspec.interfaces.costs import Costs
from tests.apps.server import leaping
from tests.apps.server.scripted import TEMPLATE, Server
from tests.apps.server.test_chat import CALL, WEATHER

TRACE = {"trace": True}
CHUNK = Chunk("a", (1,), 0, "")
PLAIN = '{"name": "weather", "arguments": {"city": "Oslo"}}'
LONG = "Größe 😀 of the line of the line of the line of the line"
REPLIES = {
    "long": LONG,
    "why?": f"<think>\nLet me see: 😀.\n</think>\n\nBecause. {LONG}",
    "weather?": f"I look at the city of Oslo.\n{CALL}",
    "both?": f"The city, the city: {CALL}\n{CALL}",
    "plain?": f"I look. {LONG}\n```json\n{PLAIN}\n```\nThat is {LONG}.",
    "after?": f"{CALL}\n, arguments of weather",
    "held": "of the line of the line ST",
    "cut": "of the line of the line STOP and of the line",
}


@pytest.fixture(scope="module")
def server():
    made = Server(dict(REPLIES), template="{# <think> </think> #}" + TEMPLATE)
    yield made
    made.close()


def body(text, **wishes):
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, **wishes}


def streamed(server, text, **wishes):
    wished = {"stream": True, "localspec": TRACE, **wishes}
    answer = server.client.post("/v1/chat/completions", json=body(text, **wished))
    assert answer.status_code == 200, answer.text
    *told, done = [each[len("data: ") :] for each in answer.text.split("\n\n") if each]
    assert done == "[DONE]"
    return [json.loads(each) for each in told]


def of(chunks, number=0):
    """The deltas of a reply, each with its trace but for the time that its round took."""
    return [
        (
            each["choices"][0]["delta"],
            {name: told for name, told in each.get("localspec", {}).items() if name != "ms"},
        )
        for each in chunks
        if each["choices"] and each["choices"][0]["index"] == number
    ]


def test_a_trace_tells_how_long_its_round_took(server):
    chunks = streamed(server, "long")
    times = [each["localspec"]["ms"] for each in chunks if "ms" in each.get("localspec", {})]
    [timings] = [each["timings"] for each in chunks if "timings" in each]
    assert len(times) > 5
    assert min(times) >= 0
    spent = timings["prompt_ms"] + timings["predicted_ms"]
    assert 0 < sum(times) <= spent + 1


def test_a_trace_tells_what_the_target_rejected(server):
    traces = [trace for _, trace in of(streamed(server, "long")) if "by" in trace]
    assert any(trace["drafted"] > trace["accepted"] for trace in traces)
    for trace in traces:  # each byte is a token
        rejected = trace["drafted"] - trace["accepted"]
        assert len(trace.get("rejected", "")) <= rejected
        assert bool(trace.get("rejected")) == bool(rejected)


def whole(server, text, **wishes):
    answer = server.client.post("/v1/chat/completions", json=body(text, **wishes)).json()
    return answer["choices"][0]["message"]


def spoken(deltas, kind="content"):
    return "".join(delta.get(kind) or "" for delta, _ in deltas)


def assert_complete(deltas, timings):
    """Every character has somebody who said it, and every round is told once."""
    for delta, told in deltas:
        text = delta.get("content") or delta.get("reasoning_content") or ""
        assert sum(count for count, _ in told.get("said", ())) == len(text)
    rounds = [told for _, told in deltas if "by" in told]
    assert sum(each["rounds"] for each in rounds) == timings["rounds"]
    assert sum(each["drafted"] for each in rounds) == timings["draft_n"]
    assert sum(each["accepted"] for each in rounds) == timings["draft_n_accepted"]


@pytest.mark.parametrize(
    ("text", "wishes"),
    [
        ("long", {}),
        ("long", {"max_tokens": 3}),  # within a letter
        ("long", {"localspec": {"trace": True, "plain": True}}),
        ("long", {"logprobs": True, "top_logprobs": 2}),
        ("why?", {"stream_options": {"include_usage": True}}),
        ("cut", {"stop": ["STOP", "line of the lime"]}),
        ("held", {"stop": "STOP"}),
        ("why?", {"logprobs": True}),
        ("weather?", {"tools": [WEATHER]}),
        ("both?", {"tools": [WEATHER], "logprobs": True}),
        ("plain?", {"tools": [WEATHER], "logprobs": True}),
    ],
)
def test_a_trace_tells_of_every_character_and_round_and_changes_nothing(server, text, wishes):
    chunks = streamed(server, text, **wishes)
    ends = [each for each in chunks if "timings" in each]
    assert_complete(of(chunks), ends[0]["timings"])
    assert ends[0]["localspec"] == {"notices": []}
    message = whole(server, text, **{**wishes, "localspec": {}, "stream_options": None})
    assert spoken(of(chunks)) == (message["content"] or "")
    assert spoken(of(chunks), "reasoning_content") == message.get("reasoning_content", "")
    untraced = streamed(server, text, **{**wishes, "localspec": {}})
    assert not any("localspec" in each for each in untraced)
    logprobs = [each["choices"][0]["logprobs"] for each in chunks if each["choices"]]
    total = sum(len(each["content"]) for each in logprobs if each)
    assert total == (ends[0]["timings"]["predicted_n"] if "logprobs" in wishes else 0)


def test_guesses_are_told_of_by_whoever_made_them(server):
    deltas = of(streamed(server, "long"))
    proposers = {by for _, trace in deltas for _, by in trace.get("said", ())}
    assert proposers == {"target", "suffix"}
    plain = of(streamed(server, "long", localspec={"trace": True, "plain": True}))
    assert {by for _, trace in plain for _, by in trace.get("said", ())} == {"target"}


def test_calls_come_as_without_a_trace_and_what_follows_them_is_not_taken_for_theirs(server):
    def calls(wishes):
        deltas = of(streamed(server, "both?", tools=[WEATHER], **wishes))
        found = [call for delta, _ in deltas for call in delta.get("tool_calls", ())]
        assert not any("said" in told for delta, told in deltas if "tool_calls" in delta)
        return [{**call, "id": None} for call in found]

    assert calls({}) == calls({"localspec": {}})
    assert len({call["index"] for call in calls({})}) == 2


def test_what_follows_a_call_is_not_looked_for_within_it(server):
    deltas = of(streamed(server, "after?", tools=[WEATHER]))
    sources = [each["said"] for delta, each in deltas if delta.get("content")]
    assert spoken(deltas) == ", arguments of weather"
    assert any(each.get("by") == "forced" for _, each in deltas)  # by the grammar of calls
    assert "forced" not in {by for said in sources for _, by in said}


def test_several_replies_have_the_traces_that_each_has_alone(server):
    wild = {"temperature": 2, "max_tokens": 40}
    chunks = streamed(server, "long", n=3, seed=5, **wild)
    for number in range(3):
        [timings] = [
            each["timings"]
            for each in chunks
            if "timings" in each and each["choices"][0]["index"] == number
        ]
        assert_complete(of(chunks, number), timings)
        assert of(chunks, number) == of(streamed(server, "long", seed=5 + number, **wild))


@pytest.mark.parametrize(
    ("path", "field", "asked"),
    [
        ("/v1/chat/completions", "localspec.trace", body("x", localspec=TRACE)),
        ("/v1/chat/completions", "return_progress", body("x", return_progress=True)),
        ("/v1/completions", "localspec.trace", {"prompt": "x", "localspec": TRACE}),
        (
            "/v1/completions",
            "localspec.trace",
            {"prompt": "x", "stream": True, "localspec": TRACE},
        ),
        ("/v1/responses", "localspec.trace", {"input": "x", "stream": True, "localspec": TRACE}),
        ("/v1/messages", "localspec", body("x", max_tokens=9, stream=True, localspec=TRACE)),
        ("/api/chat", "localspec", {"model": "scripted", "messages": [], "localspec": TRACE}),
        ("/completion", "localspec", {"prompt": "x", "stream": True, "localspec": TRACE}),
        ("/v1/chat/completions", "localspec.trace", body("x", stream=True, localspec={"trace": 5})),
    ],
)
def test_what_would_not_be_told_is_refused_by_name(strict, path, field, asked):
    answer = strict.client.post(path, json=asked)
    assert answer.status_code == 400
    assert field.rpartition(".")[2] in answer.text


def test_every_api_with_timings_tells_of_guesses_and_what_they_gained():
    costs = Costs({1: 0.25, 2: 0.5})  # no guess can gain anything
    costs.plain_rounds = MIN_PLAIN
    server = Server(costs=costs)
    text = "of the line " * 5
    asked = {
        "/v1/chat/completions": body(text),
        "/v1/completions": {"prompt": text, "temperature": 0, "max_tokens": 30},
        "/completion": {"prompt": text, "temperature": 0, "n_predict": 30},
    }
    for path, wish in asked.items():
        timings = server.client.post(path, json=wish).json()["timings"]
        assert 0 < timings["speedup"] <= 1
        by = {name: sum(right for _, right in each) for name, each in timings["guesses"].items()}
        assert sum(by.values()) == timings["draft_n_accepted"]
    server.close()


def test_what_was_gained_is_not_told_where_costs_are_not_known(server):
    fields = {"prompt": "of the line " * 5, "temperature": 0, "n_predict": 30}
    assert server.client.post("/completion", json=fields).json()["timings"]["speedup"] is None


@pytest.fixture(scope="module")
def slow():
    made = Server(pause=0.02)
    yield made
    made.close()


def progress(slow, text, **wishes):
    chunks = streamed(slow, text, max_tokens=3, localspec={}, return_progress=True, **wishes)
    at = [number for number, each in enumerate(chunks) if "prompt_progress" in each]
    has_text = (bool(each["choices"][0]["delta"].get("content")) for each in chunks)
    first = [*has_text].index(True)
    assert all(number < first for number in at), "told of reading after it had begun to answer"
    return [chunks[number]["prompt_progress"] for number in at]


def test_how_far_a_prompt_is_read_is_told_while_it_is_read(slow):
    shares = progress(slow, "y" * 2400)
    assert len(shares) > 1
    for before, after in pairwise(shares):
        assert before["processed"] < after["processed"]
        assert before["time_ms"] < after["time_ms"] < 10_000
    assert all(each["cache"] <= each["processed"] < each["total"] for each in shares)
    assert shares[0]["total"] > 2400
    assert progress(slow, "y" * 2400) == []  # it is known already
    again = progress(slow, "y" * 1600 + "z" * 1000)
    assert again[0]["cache"] > 1600


def test_it_is_quiet_again_once_a_prompt_is_read():
    async def waits() -> Counter[bool]:
        """Count the signs of life before the reply begins (False), and after."""
        inbox = Inbox(Bell())
        exchange = Exchange(Limit(0.2, reading_seconds=0.01), inbox)
        watch = Watch([exchange])
        watch.start(exchange)
        asyncio.get_running_loop().call_later(0.1, inbox.put, 0, CHUNK)
        counts, begun = Counter[bool](), False
        while True:
            for _, event in await inbox.arrivals():
                if isinstance(event, Refused):
                    return counts
                if event is CHUNK:
                    begun = True
                    exchange.hear(asyncio.get_running_loop().time())
                counts[begun] += event is None

    counts = leaping.run(waits())
    assert counts[False] > 2
    assert counts[True] <= 1  # which may have been on its way


class Held:
    """A reader that shows nothing."""

    def read(self, text):
        return []

    close = partial(list)


def test_a_client_hears_that_the_server_lives_while_a_reply_shows_nothing():
    async def is_heard() -> bool:
        served, request = SimpleNamespace(bell=Bell()), SimpleNamespace(seed=None)
        prepared = SimpleNamespace(served=served, settings=request, reader=Held)
        choices = Choices([prepared], Limit(3, reading_seconds=0.2), 1)
        exchange = choices.replies[0].exchange

        async def speak() -> None:
            while True:
                exchange.note(CHUNK)
                await asyncio.sleep(0.02)

        speaking = asyncio.create_task(speak())
        try:
            async for steps in choices.steps():
                if any(step is None for _, step in steps):
                    return True
        except Refused:
            return False
        finally:
            speaking.cancel()
        return False

    assert leaping.run(is_heard())


def test_a_reply_is_not_too_late_whose_client_is_slow_to_read_it():
    async def arrived() -> list[Event | None]:
        inbox = Inbox(Bell())
        exchange = Exchange(Limit(0.05, reading_seconds=0.01), inbox)
        watch = Watch([exchange])
        watch.start(exchange)
        exchange.note(CHUNK)
        exchange.note(LocalSpecError("the last event"))
        await asyncio.sleep(0.1)
        return [event for _, event in await inbox.arrivals()]

    first, last = leaping.run(arrived())
    assert first is CHUNK
    assert str(last) == "the last event"


def test_who_goes_away_in_any_moment_frees_the_slot():
    """A cancellation that met a token on its way was lost, and the reply went on to its end."""

    async def met() -> bool:
        inbox = Inbox(Bell())

        async def listen() -> None:
            while True:
                await inbox.arrivals()

        task = asyncio.create_task(listen())
        await asyncio.sleep(0)
        inbox.put(0, CHUNK)
        await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=1)
        task.cancel()
        return bool(done) and task.cancelled()

    assert asyncio.run(met())


def test_what_came_from_many_threads_is_taken_whole_and_in_order():
    async def arrived() -> list[tuple[int, Event | None]]:
        inbox, received = Inbox(Bell()), []

        def tell(number: int) -> None:
            for at in range(2000):
                inbox.put(number, CHUNK._replace(tokens=(at,)))

        tasks = [asyncio.create_task(asyncio.to_thread(tell, number)) for number in range(4)]
        while len(received) < 8000:
            received += await inbox.arrivals()
        await asyncio.gather(*tasks)
        return received

    received = leaping.run(arrived())
    for number in range(4):
        assert [event.tokens[0] for of, event in received if of == number] == [*range(2000)]


@pytest.mark.parametrize("early", [False, True])
def test_a_fast_stream_is_taken_once_a_frame_and_its_end_at_once(early):
    end = Refused(Fault(500, "over"))

    async def takings() -> tuple[int, float, list[Event | None], float]:
        inbox = Inbox(Bell())
        clock = asyncio.get_running_loop().time
        for _ in range(3):  # close together: the second makes it fast, the third begins a frame
            inbox.put(0, CHUNK)
            await inbox.arrivals()
        begun = clock()
        taking = asyncio.create_task(inbox.arrivals())
        for _ in range(3):
            await asyncio.sleep(FRAME / 5)
            inbox.put(0, CHUNK)
        together, waited = len(await taking), clock() - begun
        begun = clock()
        if early:  # before anybody waits for it
            inbox.put(0, CHUNK)
            inbox.put(0, end)
        taking = asyncio.create_task(inbox.arrivals())
        await asyncio.sleep(FRAME / 5)
        if not early:
            inbox.put(0, CHUNK)
            inbox.put(0, end)
        last = [event for _, event in await taking]
        return together, waited, last, clock() - begun

    together, waited, last, ended = leaping.run(takings())
    assert together == 3
    assert waited > FRAME / 2
    assert last == [CHUNK, end]
    assert ended < FRAME / 2


def test_frames_are_longer_beside_other_replies_and_begin_at_once_for_all():
    async def frames() -> list[float]:
        bell, rung = Bell(), []
        for bell.replies in (0, 1, 2, 3, 20):
            now = asyncio.get_running_loop().time()
            assert 0 < bell.next_frame() - now <= bell.frame * 1.001
            assert (
                bell.next_frame() % bell.frame < 1e-6
                or bell.frame - bell.next_frame() % bell.frame < 1e-6
            )
            rung.append(bell.frame / FRAME)
        return rung

    assert leaping.run(frames()) == pytest.approx([1, 1, 2, 2, 2])
