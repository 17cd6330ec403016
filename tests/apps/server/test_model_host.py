"""Several models in one server: who is loaded, who waits, who leaves."""

from __future__ import annotations

import asyncio
import contextlib
import math
from dataclasses import replace

import pytest

from localspec.apps.server.command import named_models
from localspec.apps.server.faults import Refused
from localspec.apps.server.model_host import OF_BATCH, ModelHost
from localspec.apps.server.offer_options import with_aliases, with_stays
from localspec.apps.server.offers import Offers, ServedOffer, broken_offer
from localspec.base.errors import DoesNotFit, ModelFileError, UnknownModel, UsageError
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.sampling.parameters import GREEDY
from localspec.interfaces.testing import LETTERS, ScriptedModel, hashed_logits
from localspec.running.models.recommended import ThoughtDefaults
from localspec.running.runtime.loading import Loading
from localspec.running.runtime.phases import Phase
from localspec.running.runtime.runtime import Runtime
from tests import engines
from tests.apps.server.scripted import Server


class Memory:
    """Room for so many models."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.loads: list[str] = []
        self.models: dict[str, ScriptedModel] = {}

    def offer(self, name: str) -> ServedOffer:
        def load(tell) -> Runtime:
            if len(self.there) >= self.room:
                raise DoesNotFit(f"{name} does not fit")
            self.loads.append(name)
            model = self.models[name] = ScriptedModel(hashed_logits(1))
            return Runtime(Engine(model, Silent()), contextlib.ExitStack())

        return ServedOffer(name, load, lambda: contextlib.nullcontext(LETTERS), GREEDY, "any", "")

    @property
    def there(self) -> list[str]:
        return [name for name in self.models if name in self.host.loaded]

    def opened(self, *names: str, strict=False, **terms) -> ModelHost:
        offers = Offers({name: self.offer(name) for name in names}, strict=strict)
        self.host = ModelHost(offers, lambda model, result: None, **terms)
        return self.host


def test_a_model_is_loaded_once_when_somebody_asks():
    memory = Memory(2)

    async def story():
        host = memory.opened("a", "b")

        async def use(name):
            async with host.lease(name) as served:
                await asyncio.sleep(0.01)
                return served.name

        assert await asyncio.gather(*map(use, ["a", "a", "", "b", "b:latest"])) == list("aaabb")
        assert memory.loads == ["a", "b"]
        assert await use("c") == "a"
        with pytest.raises(UnknownModel, match="there is no model 'c' here; served: a, b"):
            host.offers.named("c")
        await host.close()
        assert not host.loaded
        with pytest.raises(UnknownModel, match="there is no model 'c' here; served: a, b"):
            memory.opened("a", "b", strict=True).offers.answering("c")

    asyncio.run(story())


def test_batches_give_their_memory_to_others():
    memory = Memory(1)

    async def story():
        host = memory.opened("a", "b")

        async def work():
            OF_BATCH.set(True)
            async with host.lease("a"):
                while not host.lacks_memory:
                    await asyncio.sleep(0.001)

        working = asyncio.create_task(work())
        while not host.loaded:
            await asyncio.sleep(0.001)
        async with host.lease("b"):
            assert memory.there == ["b"]
            with pytest.raises(DoesNotFit):
                await host.preload("a")
        assert working.done()
        assert not host.lacks_memory
        await host.close()

    asyncio.run(story())


def test_who_was_longest_not_asked_leaves_for_another():
    memory = Memory(2)

    async def story():
        host = memory.opened("a", "b", "c")
        for name in "abac":
            async with host.lease(name):
                pass
        assert sorted(host.loaded) == ["a", "c"]
        assert memory.loads == ["a", "b", "c"]
        await host.close()

    asyncio.run(story())


def test_who_is_in_use_does_not_leave():
    memory = Memory(1)

    async def story():
        host = memory.opened("a", "b")
        async with host.lease("a"):
            with pytest.raises(DoesNotFit):
                async with host.lease("b"):
                    pass
            assert list(host.loaded) == ["a"]
        async with host.lease("b") as served:
            assert served.name == "b"
        await host.close()

    asyncio.run(story())


async def until_left(host, name):
    async with asyncio.timeout(60):
        while name in host.loaded:
            await asyncio.sleep(0.01)


def test_who_is_idle_for_long_leaves():
    memory = Memory(2)

    async def story():
        host = memory.opened("a", "b", idle_seconds=0.1)
        tidying = asyncio.create_task(host.tidy())
        async with host.lease("a"):
            async with host.lease("b"):
                pass
            await until_left(host, "b")
            assert list(host.loaded) == ["a"]
        await until_left(host, "a")
        tidying.cancel()

    asyncio.run(story())


def test_a_model_has_an_idle_time_of_its_own_and_clients_choose_another():
    memory = Memory(4)

    async def story():
        host = memory.opened("a", "b", "c", "d", idle_seconds=30)
        for offer in with_stays(list(host.offers.values()), ["30", "b=0.1", "d=0.1"], ["d"]):
            host.add(offer)
        tidying = asyncio.create_task(host.tidy())
        for name in "abcd":
            await host.preload(name)
        host.keep("c", 0.1)
        host.keep("d", 0.1)
        await until_left(host, "b")
        await until_left(host, "c")
        assert list(host.loaded) == ["a", "d"]
        assert [host.idle_seconds(served) for served in host.loaded.values()] == [30, math.inf]
        tidying.cancel()
        await host.close()

    asyncio.run(story())


def test_a_pinned_model_makes_no_room_for_others_but_leaves_when_asked_to():
    memory = Memory(2)

    async def story():
        host = memory.opened("a", "b", "c")
        for offer in with_stays(list(host.offers.values()), [], ["a"]):
            host.add(offer)
        for name in "abc":
            await host.preload(name)
        assert list(host.loaded) == ["a", "c"]
        await host.unload("a")
        assert list(host.loaded) == ["c"]
        await host.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("idle", "pinned", "why"),
    [
        (["x=5"], [], "--idle is for 'x'; served: a"),
        ([], ["x"], "--pin is for 'x'; served: a"),
        (["a="], [], "--idle a= is no time"),
        (["0"], [], "--idle 0 is no time"),
        (["nan"], [], "--idle nan is no time"),
    ],
)
def test_an_idle_time_or_a_pin_that_fits_no_model_is_refused(idle, pinned, why):
    with pytest.raises(UsageError, match=why):
        with_stays([Memory(1).offer("a")], idle, pinned)


def test_more_requests_than_places_are_refused():
    memory = Memory(1)

    async def story():
        host = memory.opened("a", waiting=2)
        async with host.lease("a", 9):
            with pytest.raises(Refused, match="9 requests are under way or wait; 10 may"):
                async with host.lease("a", 2):
                    pass
            async with host.lease("a"):
                pass
        async with host.lease("a", 10):
            pass
        await host.close()

    asyncio.run(story())


def test_a_model_that_cannot_be_loaded_can_be_asked_for_again():
    memory = Memory(0)

    async def story():
        host = memory.opened("a")
        with pytest.raises(DoesNotFit):
            await host.preload("a")
        memory.room = 1
        await host.preload("a")
        assert list(host.loaded) == ["a"]
        await host.close()

    asyncio.run(story())


def test_a_model_is_known_by_its_other_names():
    memory = Memory(2)

    async def story():
        host = memory.opened("a", "b")
        host.add(replace(memory.offer("b"), aliases=("gpt-4o", "a")))
        assert (
            host.offers.named("gpt-4o").name == host.offers.answering("gpt-4o:latest").name == "b"
        )
        assert host.offers.named("a").name == "a"  # a name comes before what others are called too
        assert host.offers.knows("gpt-4o")
        assert not host.offers.knows("gpt-5")
        assert host.offers.answering("gpt-5").name == host.offers.answering("").name == "a"
        await host.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("aliases", "found"),
    [
        (["x", "y=b", "z=a"], [("x", "z"), ("y",)]),
        ([], [(), ()]),
    ],
)
def test_aliases_are_for_the_first_model_or_the_one_they_name(aliases, found):
    offers = [Memory(1).offer(name) for name in "ab"]
    assert [offer.aliases for offer in with_aliases(offers, aliases)] == found


@pytest.mark.parametrize("alias", ["x=c", "=a", ""])
def test_an_alias_of_a_model_that_is_not_served_is_refused(alias):
    with pytest.raises(UsageError, match="served: a"):
        with_aliases([Memory(1).offer("a")], [alias])


def test_listeners_hear_how_far_a_model_and_its_drafter_are_loaded():
    memory = Memory(1)
    offer = memory.offer("a")
    phases = [
        Phase("trying", "a.gguf"),
        Phase("reading", "a.gguf", 0.25),
        Phase("reading", "a.gguf", 0.251),  # less than a hundredth more
        Phase("reading", "small.gguf", 0.5),
    ]

    def load(tell) -> Runtime:
        for phase in phases:
            tell(phase)
        return offer.load(tell)

    async def story():
        loud = replace(offer, load=load, drafter="small.gguf")
        host = memory.host = ModelHost(Offers({"a": loud}), lambda name, result: None)
        heard = host.events.listen()
        await host.preload("a")
        states = [(await anext(heard))["data"] for _ in range(4)]
        assert states[0] == {"status": "loading"}
        steps = [(data["progress"]["current"], data["progress"]["value"]) for data in states[1:3]]
        assert steps == [("text_model", 0.25), ("spec_model", 0.5)]
        assert states[1]["progress"]["stages"] == ["text_model", "spec_model"]
        assert states[3] == {"status": "loaded"}
        await heard.aclose()
        await host.close()

    asyncio.run(story())


def test_a_model_whose_file_broke_tells_so_and_others_answer():
    server = Server(beside=[broken_offer("cut", "any", "cut.gguf is cut short: download it again")])
    try:
        answer = server.client.post("/v1/completions", json={"model": "cut", "prompt": "x"})
        assert (answer.status_code, "cut.gguf is cut short" in answer.text) == (503, True)
        assert server.client.get("/props", params={"model": "cut"}).status_code == 200
        assert server.ask("hello") == "You said: hello"
    finally:
        server.close()


def test_a_file_that_is_cut_ends_the_first_start_of_a_server_and_no_later_one(tmp_path):
    path = tmp_path / "cut.gguf"
    path.write_bytes(engines.tiny("llama").read_bytes()[:-100])
    names, loading = [str(path), str(engines.tiny("llama"))], Loading()
    with pytest.raises(ModelFileError, match="cut short"):
        named_models(names, None, loading, ThoughtDefaults())
    broken, whole = named_models(names, None, loading, ThoughtDefaults(), restarted=True)
    assert (broken.name, whole.name) == ("cut", engines.tiny("llama").stem)
    with pytest.raises(ModelFileError, match="cut short"):
        broken.load(print)
