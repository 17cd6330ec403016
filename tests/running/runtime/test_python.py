"""Chats, streams and batches from Python, and what is said of wrong shapes."""

from __future__ import annotations

import dataclasses
import json
import threading

import numpy as np
import pydantic
import pytest

import localspec
from localspec import Grammar, Limits, Options, Sampling, Settings, ToolCall
from localspec.base.errors import LocalSpecError, UsageError
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.sampling.default_sampling import UsualSampling
from localspec.interfaces.testing import ScriptedModel
from localspec.running.runtime.loaded_facts import LoadedFacts
from localspec.running.runtime.loading import load
from localspec.running.runtime.runtime import Runtime
from tests import engines
from tests.apps.server.scripted import TEMPLATE, Bytes, script

HI = [{"role": "user", "content": "hi"}]
WEATHER = {
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
REPLIES = {
    "hi": "ho",
    "oslo": CALL,
    "think": "<think>\nhm\n</think>\n\nyes",
    "number": "seven",
    "long": "x" * 3000,
}


FIRST_FORWARDS = 20  # in which the beginning of a reply comes


def target(template=TEMPLATE, slots=2, kind=ScriptedModel):
    tokenizer = Bytes(template)
    model = kind(script(tokenizer, REPLIES), tokenizer)
    model.context, model.slots = 4096, slots
    return model


def scripted(template=TEMPLATE, slots=2):
    return Runtime(Engine(target(template, slots), Silent()))


@pytest.fixture
def model():
    with scripted() as model:
        yield model


# Chats


def test_a_text_is_one_message_of_the_user(model):
    assert model.chat("hi").text == model.chat(HI).text == model.chat(HI[0]).text == "ho"
    assert model.stream("hi").result.text == model.stream(HI).result.text == "ho"
    assert "".join(chunk.text for chunk in model.stream(HI)) == "ho"


def test_a_text_is_continued_as_it_is_where_that_is_said_or_there_is_no_template(model):
    asked = model.tokenizer.encode("hi")
    assert model.generate("hi").usage.prompt_tokens == len(asked)
    assert model.stream("hi", raw=True).result.usage.prompt_tokens == len(asked)
    assert model.stream(asked).result.usage.prompt_tokens == len(asked)
    assert model.stream(asked.tolist()).result.usage.prompt_tokens == len(asked)
    with scripted(template=None) as plain:
        assert plain.stream("hi").result.usage.prompt_tokens == len(asked)
        with pytest.raises(UsageError, match="no chat template"):
            plain.chat("hi")
    with pytest.raises(UsageError, match="raw is for a text"):
        model.stream(HI, raw=True)


def test_options_go_before_settings(model):
    settings = Settings(max_tokens=1, sampling=Sampling(top_k=3))
    assert model.chat("hi", settings).usage.completion_tokens == 1
    assert model.chat("hi", settings, max_tokens=2).usage.completion_tokens == 2
    result = model.chat("hi", temperature=0.5, seed=7, logprobs=2)
    assert result.seed == 7
    assert len(result.logprobs[0].top) == 2
    assert model.chat("hi", stop="o").stopped_by == "o"
    assert model.chat("hi", stop=["x", "o"]).text == "h"


def test_who_chooses_no_sampling_gets_the_models_own():
    usual = UsualSampling(Sampling(temperature=0.7, top_k=20, repetition=1.05), "by its makers")
    with Runtime(Engine(target(), Silent()), facts=LoadedFacts(usual=usual)) as model:

        def sampling_of(*settings, **options):
            return model.stream("hi", *settings, **options)._job.settings.sampling

        assert sampling_of() == sampling_of(max_tokens=3) == usual.sampling
        assert sampling_of(temperature=0.2) == dataclasses.replace(usual.sampling, temperature=0.2)
        assert sampling_of(temperature=0) == Sampling()
        assert sampling_of(temperature=0, repetition_penalty=1.1) == Sampling(repetition=1.1)
        assert sampling_of(Settings()) == Sampling()
        assert sampling_of(Settings(), top_k=3) == Sampling(top_k=3)


def test_a_json_schema_is_followed(model):
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    schema["additionalProperties"] = False
    for form in (schema, json.dumps(schema)):
        assert json.loads(model.chat("number", json_schema=form).text) == {"a": 1}
    assert model.generate("x", grammar=Grammar("regex", "[0-9]{3}")).text.isdecimal()


class City(pydantic.BaseModel):
    name: str
    rivers: int


def saying(reply):
    """Make a model with room for long replies that says one thing."""
    one = ScriptedModel(script(tokenizer := Bytes(TEMPLATE), {"hi": reply}), tokenizer)
    one.context, one.slots = 16_384, 2
    return Runtime(Engine(one, Silent()))


def test_a_class_of_pydantic_is_a_schema_and_reads_the_reply():
    with saying('{"name": "Oslo", "rivers": 10}') as model:
        result = model.chat("hi", json_schema=City)
        assert result.parsed(City) == City(name="Oslo", rivers=10)
        assert result.parsed() == {"name": "Oslo", "rivers": 10}
        cut = model.chat("hi", json_schema=City, max_tokens=5)
        with pytest.raises(LocalSpecError, match="no whole JSON: it ended after 5 tokens"):
            cut.parsed(City)


def test_a_reply_whose_length_nobody_chose_ends_at_a_limit_and_says_so():
    with saying("x" * 5000) as model:
        cut = model.chat("hi")
        assert (len(cut.tokens), cut.finish_reason) == (4096, "length")
        assert cut.notices == (
            "the reply was cut at 4,096 tokens, the limit where max_tokens is not given: give "
            "more, or None for no limit but the context",
        )
        for whole in (model.chat("hi", max_tokens=None), model.chat("hi", Settings())):
            assert (len(whole.text), whole.notices) == (5000, ())
        assert model.chat("hi", max_tokens=4096).notices == ()


def test_calls_are_read_and_are_no_text(model):
    result = model.chat("oslo", tools=[WEATHER])
    assert result.tool_calls == (ToolCall("weather", '{"city": "Oslo"}'),)
    assert result.text == ""
    envelope = {"type": "function", "function": WEATHER}
    assert model.chat("hi", tools=[envelope]).text == "ho"
    assert model.chat("hi", tools=[envelope], tool_choice="weather").tool_calls
    assert not model.chat("oslo", tools=[envelope], tool_choice="none").tool_calls


def test_reasoning_is_apart_from_the_answer():
    with scripted(TEMPLATE + "{# <think> </think> #}") as model:
        stream = model.stream("think")
        chunks = list(stream)
        assert "".join(chunk.reasoning for chunk in chunks) == stream.result.reasoning == "hm"
        assert "".join(chunk.text for chunk in chunks) == stream.result.text == "yes"


def test_a_batch_answers_in_order_and_with_one_slot_too():
    for slots in (1, 3):
        with scripted(slots=slots) as model:
            prompts = ["hi", [{"role": "user", "content": "number"}], "other"]
            texts = [result.text for result in model.batch(prompts)]
            assert texts == ["ho", "seven", "You said: other"]
            assert model.batch([]) == []


def test_where_one_of_a_batch_is_refused_none_goes_on():
    with Runtime(Engine(one := target(slots=1), Silent())) as model:
        with pytest.raises(UsageError, match="message 1 has no content"):
            model.batch(["long", [{"role": "user"}]])
        assert model.chat("hi").text == "ho"  # in the slot that the first has left
    assert one.forwards < len(REPLIES["long"])


def test_a_cancelled_stream_ends_with_what_there_was():
    cancelled = threading.Event()

    class Waiting(ScriptedModel):
        def forward(self, rows):
            if self.forwards > FIRST_FORWARDS:
                cancelled.wait()
            return super().forward(rows)

    with Runtime(Engine(target(kind=Waiting), Silent())) as model:
        stream = model.stream("long")
        for _ in stream:
            stream.cancel()
            cancelled.set()
    assert stream.result.finish_reason == "cancelled"
    assert 0 < len(stream.result.text) < len(REPLIES["long"])


# What is wrong


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ([], "a conversation is \\[\\]; it must be a text, or messages like"),
        (5, "a conversation is 5; it must be a text"),
        (["hi"], "message 1 is 'hi'; it must be like"),
        ([*HI, {"content": "x"}], "message 2 has no role: {'content': 'x'}"),
        ([{"role": "user"}], "message 1 has no content: {'role': 'user'}"),
        (
            [*HI, {"role": "boss", "content": "x"}],
            "message 2 has the role 'boss'",
        ),
        ([{"role": "user", "content": 7}], "the content of message 1 is 7; it must be a text"),
    ],
)
def test_a_wrong_conversation_is_told_with_what_it_should_be(model, prompt, words):
    for ask in (model.chat, model.conversation):
        with pytest.raises(UsageError, match=words):
            ask(prompt)


def test_a_role_that_the_chat_template_names_is_taken():
    template = TEMPLATE + "{% if messages[0].role == 'boss' %}{% endif %}"
    with scripted(template) as model:
        assert model.chat([{"role": "boss", "content": "hi"}]).tokens


def test_a_call_of_tools_needs_no_content(model):
    calls = [{"type": "function", "function": {"name": "weather", "arguments": {}}}]
    asked = [*HI, {"role": "assistant", "tool_calls": calls}, {"role": "tool", "content": "hi"}]
    assert model.chat(asked).text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temprature": 1}, "there is no option 'temprature'; did you mean temperature"),
        ({"x": 1}, "there is no option 'x'; there are: temperature, top_k"),
        ({"temperature": "hot"}, "temperature is 'hot'; it must be a number from 0"),
        ({"temperature": 2.1}, "temperature is 2.1; it must be at least 0 and at most 2"),
        ({"top_k": 1.5}, "top_k is 1.5; it must be a whole number"),
        ({"max_tokens": "9"}, "max_tokens is '9'; it must be a whole number"),
        ({"seed": 1.5}, "seed is 1.5; it must be a whole number"),
        ({"stop": 5}, "stop is 5; it must be a tuple of texts"),
        ({"stop": [5]}, "one of stop is 5; it must be a text"),
        ({"banned_strings": [5]}, "one of banned_strings is 5; it must be a text"),
        ({"banned_strings": ""}, "a banned string is empty"),
        ({"json_schema": 5}, "json_schema is 5; it must be a JSON schema"),
        ({"grammar": "x"}, "grammar is 'x'; it must be a Grammar"),
        ({"tools": [{"a": 1}]}, "a tool is {'a': 1}; it must be"),
        ({"tool_choice": "f"}, "tool_choice is 'f'; it must be auto, none, required or a tool"),
        ({"settings": Sampling()}, "settings are Sampling.*; they must be Settings"),
    ],
)
def test_a_wrong_option_is_told_by_name_with_what_was_given(model, options, words):
    with pytest.raises(UsageError, match=words):
        model.chat("hi", **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Sampling(temperature="hot"), "temperature is 'hot'; it must be a number"),
        (lambda: Sampling(temperature=True), "temperature is True; it must be a number"),
        (lambda: Sampling(bias=[1]), "bias is .*; it must map tokens to numbers"),
        (lambda: Settings(stop="x"), "stop is 'x'; it must be a tuple of texts"),
        (lambda: Settings(max_tokens="5"), "max_tokens is '5'"),
        (lambda: Settings(sampling=0.7), "sampling is 0.7; it must be a Sampling"),
        (lambda: Options(slots="4"), "slots is '4'; it must be a whole number from 1 to 128"),
        (lambda: Limits(budget="6GB"), "budget is '6GB'; it must be a whole number"),
        (lambda: Limits(device=1.5), "device is 1.5"),
    ],
)
def test_a_value_of_another_kind_is_told_by_name(make, words):
    with pytest.raises(UsageError, match=words):
        make()


def test_numbers_of_numpy_are_numbers():
    assert Sampling(temperature=np.float32(0.5), top_k=np.int64(5)).top_k == 5


def test_tools_are_for_a_chat(model):
    with pytest.raises(UsageError, match="tools is for a chat"):
        model.generate("hi", tools=[WEATHER])
    with pytest.raises(UsageError, match="a batch is a list of prompts"):
        model.batch("hi")


# What it shows of itself


def test_a_runtime_says_what_it_is():
    assert repr(scripted()) == "<Runtime of a model: 4,096 tokens, 2 slots, no drafts>"
    with load(engines.tiny("llama"), loading=localspec.Loading(engines.OPTIONS)) as model:
        assert repr(model).startswith(f"<Runtime of {engines.tiny('llama').name} (llamacpp): ")
        assert "drafts by " in repr(model)
    model = scripted()
    model.facts = LoadedFacts(proposers=("suffix", "ngram"))
    assert "drafts by suffix, ngram>" in repr(model)


PUBLIC = [getattr(localspec, name) for name in localspec.__all__]


@pytest.mark.parametrize(
    "kind", [each for each in PUBLIC if isinstance(each, type)], ids=lambda each: each.__name__
)
def test_every_public_field_is_told_in_help(kind):
    names = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    names = [*(field.name for field in names), *getattr(kind, "_fields", ())]
    if kind is localspec.ReplyOptions:
        names += kind.__annotations__
    lines = [line.strip().partition(":")[0].split(", ") for line in kind.__doc__.splitlines()]
    assert {name for name in names if not any(name in line for line in lines)} == set()
    for name, member in vars(kind).items():
        if callable(member) and not name.startswith("_"):
            assert member.__doc__, name
