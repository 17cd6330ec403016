"""Calls by the SDKs of LM Studio that have one result, and channels that load a model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial

from pydantic import Field, JsonValue

from localspec.server.faults import Fault, Refused
from localspec.server.handler import RequestHandler
from localspec.server.lmstudio.asked import History, LmStudioChat, config
from localspec.server.lmstudio.listing import info, instance_info
from localspec.server.lmstudio.wire import ANY, Object, Specifier
from localspec.server.model_host import Served
from localspec.server.requests.leniency import RequestPart
from localspec.server.requests.reading import LARGE_BYTES

LONGEST = 1 << 20  # letters that are turned into tokens, as by the other APIs
VERSION = "0.3.30"  # of LM Studio, whose SDKs this speaks to


class OneModel(RequestPart):
    specifier: Specifier = ANY


class FindModel(OneModel):
    raises: bool = Field(False, alias="throwIfNotFound")


class ReadText(OneModel):
    text: str = Field("", alias="inputString", max_length=LONGEST)


class TemplateOptions(RequestPart):
    tools: list[JsonValue] = Field(default_factory=list, alias="toolDefinitions")


class Render(OneModel):
    history: History = History()
    opts: TemplateOptions = TemplateOptions()


def rendering(given: JsonValue) -> tuple[Render, LmStudioChat]:
    wish = Render.model_validate(given)
    body = {"messages": wish.history.told(), "tools": wish.opts.tools or None}
    return wish, LmStudioChat.model_validate(body)


class LoadModel(RequestPart):
    identifier: str = ""
    key: str = Field("", alias="modelKey")

    @property
    def name(self) -> str:
        return self.key or self.identifier


class UnloadModel(RequestPart):
    identifier: str


class Calls:
    """The answers, by namespace and name."""

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler
        self._host = handler.host

    @property
    def known(self) -> Mapping[str, Callable[[JsonValue], Awaitable[object]]]:
        return {
            "system/listDownloadedModels": self.downloaded,
            "system/version": self.version,
            "system/notify": self.nothing,
            "system/getExperimentFlags": self.none,
            "embedding/listLoaded": self.none,
            "llm/listLoaded": self.loaded,
            "llm/getModelInfo": self.found,
            "llm/getLoadConfig": self.load_config,
            "llm/getBasePredictionConfig": self.prediction_config,
            "llm/unloadModel": self.unload,
            "llm/tokenize": self.tokenize,
            "llm/countTokens": self.count,
            "llm/applyPromptTemplate": self.render,
            "llm/preloadDraftModel": self.nothing,
        }

    async def nothing(self, _: JsonValue) -> None:
        return None

    async def none(self, _: JsonValue) -> list[object]:
        return []

    async def version(self, _: JsonValue) -> Object:
        return {"version": VERSION, "build": 1}

    async def downloaded(self, _: JsonValue) -> list[Object]:
        offers = list(self._host.offers.values())
        return [info(each, await self._host.facts(each.name)) for each in offers]

    async def loaded(self, _: JsonValue) -> list[Object]:
        return [await self.told(each) for each in list(self._host.loaded.values())]

    async def told(self, served: Served) -> Object:
        return instance_info(served.offer, served, await self._host.facts(served.name))

    async def found(self, given: JsonValue) -> Object | None:
        """Describe a model, which is loaded where it has to be there."""
        wish = FindModel.model_validate(given)
        name = wish.specifier.name
        served = self._host.loaded.get(self._host.answering(name).name) if name else None
        served = served or next(iter(self._host.loaded.values() if not name else ()), None)
        if served or not wish.raises:
            return await self.told(served) if served else None
        async with self._host.lease(name) as served:
            return await self.told(served)

    async def load_config(self, given: JsonValue) -> Object:
        async with self._host.lease(OneModel.model_validate(given).specifier.name) as served:
            return config({"contextLength": served.runtime.context}, "llm.load.")

    async def prediction_config(self, _: JsonValue) -> Object:
        return config({})

    async def unload(self, given: JsonValue) -> None:
        if not self._handler.manager.allowed:
            raise Refused(Fault(403, "this server lets no client manage its models"))
        await self._host.unload(self._host.meant(UnloadModel.model_validate(given).identifier).name)

    async def tokenize(self, given: JsonValue) -> Object:
        wish = ReadText.model_validate(given)
        async with self._host.lease(wish.specifier.name) as served:
            work = partial(served.runtime.tokenizer.encode, wish.text)
            found = await self._handler.preparing.run(work, large=len(wish.text) > LARGE_BYTES)
            return {"tokens": found.tolist()}

    async def count(self, given: JsonValue) -> Object:
        tokens = (await self.tokenize(given))["tokens"]
        assert isinstance(tokens, list)
        return {"tokenCount": len(tokens)}

    async def render(self, given: JsonValue) -> Object:
        """Write a conversation as the model's template does."""
        run = partial(self._handler.preparing.run, large=True)
        wish, chat = await run(partial(rendering, given))
        async with self._host.lease(wish.specifier.name) as served:
            return {"formatted": await run(partial(chat.rendered, served))}

    async def loading(self, endpoint: str, given: JsonValue) -> AsyncIterator[Object]:
        """Load a model, or find it loaded, and tell how that goes."""
        wish = LoadModel.model_validate(given)
        offer = self._host.answering(wish.name)
        there, gets = offer.name in self._host.loaded, endpoint == "getOrLoad"
        described = info(offer, await self._host.facts(offer.name))
        if not there and gets:
            yield {"type": "startLoading", "identifier": offer.name, "info": described}
        if not gets:
            yield {"type": "resolved", "info": described}
        async with self._host.lease(offer.name) as served:
            kind = "success" if not gets else "alreadyLoaded" if there else "loadSuccess"
            yield {"type": kind, "info": await self.told(served)}
