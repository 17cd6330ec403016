"""Functions that the tools of a request offer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from localspec.dialects.fitting import fits
from localspec.dialects.patterns import without_others
from localspec.dialects.schemas import followable
from localspec.errors import UsageError
from localspec.templates.message import Json, Tool

NO_PARAMETERS: Mapping[str, Json] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Function:
    name: str
    schema: Mapping[str, Json]  # of its arguments, an object
    strict: bool  # whether a schema that cannot be followed in full is an error

    @cached_property
    def properties(self) -> Mapping[str, Mapping[str, Json]]:
        """Schemas by parameter; what is no schema allows anything."""
        found = self.schema.get("properties")
        said = found if isinstance(found, Mapping) else {}
        names = dict.fromkeys((*said, *sorted(self.required)))
        schemas = {name: said.get(name) for name in names}
        return {name: each if isinstance(each, Mapping) else {} for name, each in schemas.items()}

    @cached_property
    def required(self) -> frozenset[str]:
        found = self.schema.get("required")
        listed = found if isinstance(found, Sequence) else ()
        return frozenset(each for each in listed if isinstance(each, str))

    def parameter(self, name: str) -> Mapping[str, Json]:
        """A parameter's schema, which can stand alone."""
        shared = {key: self.schema[key] for key in ("$defs", "definitions") if key in self.schema}
        return {**self.properties.get(name, {}), **shared}

    def takes(self, arguments: str) -> bool:
        """Tell whether arguments follow the schema, rather than repeat it."""
        try:
            values = json.loads(arguments)
        except ValueError:  # a number with too many digits
            return False
        repeated = "properties" in values and "properties" not in self.properties
        return not repeated and fits(values, self.schema)


def functions(tools: Sequence[Tool]) -> tuple[Function, ...]:
    """Read all tools, or say which one is wrong."""
    return tuple(_function(f"tools[{at}].function", tool) for at, tool in enumerate(tools))


def _function(place: str, tool: Tool) -> Function:
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
    return Function(name, {"type": "object", **followed}, strict)


def _followed(schema: dict[str, Json]) -> Mapping[str, Json]:
    """Keep as much of a schema as a grammar can follow."""
    found = without_others(schema)
    assert isinstance(found, Mapping)
    return found if followable(json.dumps(found)) else {}
