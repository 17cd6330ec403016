"""The tools that a reply may call, each with the schema of its arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from localspec.base.errors import UsageError
from localspec.formats.dialects.fitting import fits
from localspec.formats.dialects.patterns import without_unfollowable
from localspec.formats.dialects.schemas import followable
from localspec.formats.templates.message import Json, Tool

NO_PARAMETERS: Mapping[str, Json] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}


@dataclass(frozen=True)
class OfferedTool:
    name: str
    schema: Mapping[str, Json]  # of its arguments, an object
    strict: bool  # whether a schema that cannot be followed in full is an error

    @cached_property
    def properties(self) -> Mapping[str, Mapping[str, Json]]:
        """Map parameters to their schemas; an empty one allows anything."""
        properties = self.schema.get("properties")
        schemas = properties if isinstance(properties, Mapping) else {}
        names = dict.fromkeys((*schemas, *sorted(self.required)))
        by_name = {name: schemas.get(name) for name in names}
        return {
            name: schema if isinstance(schema, Mapping) else {} for name, schema in by_name.items()
        }

    @cached_property
    def required(self) -> frozenset[str]:
        required = self.schema.get("required")
        listed = required if isinstance(required, Sequence) else ()
        return frozenset(name for name in listed if isinstance(name, str))

    def parameter(self, name: str) -> Mapping[str, Json]:
        """Return a parameter's schema, with the definitions that it may refer to."""
        shared = {key: self.schema[key] for key in ("$defs", "definitions") if key in self.schema}
        return {**self.properties.get(name, {}), **shared}

    def takes(self, arguments: str) -> bool:
        """Return whether arguments follow the schema, rather than repeat it."""
        try:
            values = json.loads(arguments)
        except ValueError:  # a number with too many digits
            return False
        repeated = "properties" in values and "properties" not in self.properties
        return not repeated and fits(values, self.schema)


def offered_tools(tools: Sequence[Tool]) -> tuple[OfferedTool, ...]:
    """Read all tools, or say which one is wrong."""
    return tuple(_offered_tool(f"tools[{at}].function", tool) for at, tool in enumerate(tools))


def _offered_tool(place: str, tool: Tool) -> OfferedTool:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        raise UsageError(f"{place} is missing")
    name = function.get("name")
    if not isinstance(name, str) or not name or not name.isprintable():
        raise UsageError(f"{place}.name is {name!r}; it must be a name")
    schema = function.get("parameters")
    schema = NO_PARAMETERS if schema is None else schema
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise UsageError(f"{place}.parameters must be the schema of an object")
    strict = function.get("strict") is True
    try:
        json.dumps(schema)
        followed = schema if strict else _followed(dict(schema))
    except RecursionError as error:
        raise UsageError(f"{place}.parameters is nested too deeply") from error
    return OfferedTool(name, {"type": "object", **followed}, strict)


def _followed(schema: dict[str, Json]) -> Mapping[str, Json]:
    """Keep as much of a schema as a grammar can follow."""
    followed = without_unfollowable(schema)
    assert isinstance(followed, Mapping)
    return followed if followable(json.dumps(followed)) else {}
