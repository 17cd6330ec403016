"""What the SDKs of LM Studio send over a WebSocket, and what they are answered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field, JsonValue

from localspec.server.faults import Fault
from localspec.server.requests.leniency import RequestPart

Object = Mapping[str, object]
KEYS = {"channel": "channelId", "rpc": "callId"}
Kind = Literal["channel", "rpc"]


class Greeting(RequestPart):
    """The first message of a client; any name and passkey will do, unless there are keys."""

    auth_version: int = Field(1, alias="authVersion")
    identifier: str = Field("", alias="clientIdentifier")
    passkey: str = Field("", alias="clientPasskey")

    @property
    def keys(self) -> tuple[str, str]:
        """List what may be an API key: the passkey, or a token that the SDK has split."""
        return self.passkey, f"sk-lm-{self.identifier}:{self.passkey}"


class Call(RequestPart):
    """The beginning of a channel, or a call that has one result."""

    endpoint: str
    id: int
    parameter: JsonValue = None
    large: bool = False  # whether it came in a large message


class Query(RequestPart):
    identifier: str = ""
    path: str = ""


class Specifier(RequestPart):
    """Names a model; one without a name is any that is loaded."""

    query: Query = Query()
    reference: str = Field("", alias="instanceReference")

    @property
    def name(self) -> str:
        return self.reference or self.query.identifier or self.query.path


ANY = Specifier(instanceReference="")


class ConfigField(RequestPart):
    key: str
    value: JsonValue = None


class Config(RequestPart):
    fields: list[ConfigField] = Field(default_factory=list)


class Layer(RequestPart):
    name: str = Field("", alias="layerName")
    config: Config = Config()


class ConfigStack(RequestPart):
    layers: list[Layer] = Field(default_factory=list)

    def settings(self, scope: str) -> dict[str, JsonValue]:
        """Join the layers, of which the later ones win; what is switched off is left out."""
        found = {each.key: each.value for layer in self.layers for each in layer.config.fields}
        return dict(_of(found, scope))


def _of(found: Mapping[str, JsonValue], scope: str) -> Iterator[tuple[str, JsonValue]]:
    for key, value in found.items():
        if isinstance(value, dict) and "checked" in value:
            value = value.get("value") if value["checked"] else None
        if key.startswith(scope) and value is not None:
            yield key.removeprefix(scope), value


def sent(channel: int, message: Object) -> str:
    return json.dumps({"type": "channelSend", "channelId": channel, "message": message})


def closed(channel: int) -> str:
    return json.dumps({"type": "channelClose", "channelId": channel})


def result(call: int, found: object) -> str:
    """Answer a call; nothing is not told as null."""
    told = {} if found is None else {"result": found}
    return json.dumps({"type": "rpcResult", "callId": call, **told})


def failed(kind: Kind, number: int, fault: Fault) -> str:
    error: dict[str, object] = {"title": fault.message, "rootTitle": fault.message}
    if fault.code == "model_not_found":
        none = {"query": {}, "loadedModelsSample": [], "totalLoadedModels": 0}
        error["displayData"] = {"code": "generic.noModelMatchingQuery", **none}
    return json.dumps({"type": f"{kind}Error", KEYS[kind]: number, "error": error})


def warning(text: str) -> str:
    return json.dumps({"type": "communicationWarning", "warning": text})
