"""Renders chat templates in a confined process, which loads this file by its path."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MAX_CHARACTERS = 1 << 23  # characters of a rendered conversation
MAX_ERROR_CHARACTERS = 500  # characters of what a template says of itself


class GenerationTag(Extension):
    """A tag that marks for training what the model itself said; the text stays as it is."""

    tags = {"generation"}  # noqa: RUF012 (jinja's own way to declare it)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class Notes(Namespace):
    """A namespace whose names do not begin with an underscore."""

    def __init__(self, /, *pairs: Mapping[str, object], **named: object) -> None:
        super().__init__()
        for name, value in dict(*pairs, **named).items():
            self[name] = value

    def __setitem__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            raise jinja2.TemplateError(f"a namespace takes no name that starts with _, as {name}")
        super().__setitem__(name, value)


class GivenList(list[object]):
    """A list that came with the request: a template may only read it."""


class GivenObject(dict[str, object]):
    """An object that came with the request."""


for made_type, name in ((GivenList, "list"), (GivenObject, "dict")):
    made_type.__module__, made_type.__name__ = "builtins", name  # as errors of templates spell it
CHANGES: Mapping[type, tuple[str, ...]] = {
    list: ("append", "extend", "insert", "pop"),
    dict: ("update", "setdefault", "pop"),
}


class Sandbox(ImmutableSandboxedEnvironment):
    """Lets a template change lists and objects that it made itself; some keep notes in them."""

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        if attr in CHANGES.get(type(obj), ()):
            return True
        return super().is_safe_attribute(obj, attr, value)


def guard(variables: dict[str, object]) -> None:
    """Turn every list and object in the variables into one that a template cannot change."""
    left: list[object] = [variables]
    while left:
        match left.pop():
            case dict() as inside:
                for name, value in inside.items():
                    inside[name] = _held(value, left)
            case list() as inside:
                inside[:] = [_held(value, left) for value in inside]


def _held(value: object, left: list[object]) -> object:
    match value:
        case dict():
            left.append(held := GivenObject(value))
            return held
        case list():
            left.append(listed := GivenList(value))
            return listed
    return value


def environment() -> ImmutableSandboxedEnvironment:
    """Return an environment with the filters and functions that templates of the hub expect."""
    sandbox = Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, "jinja2.ext.loopcontrols"]
    )
    sandbox.filters["tojson"] = to_json
    sandbox.globals |= {"raise_exception": refuse, "strftime_now": now, "namespace": Notes}
    return sandbox


def to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        list(value) if isinstance(value, Iterator) else value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def now(form: str) -> str:
    return datetime.now().strftime(form)


@lru_cache(maxsize=8)
def compile_template(source: str) -> jinja2.Template:
    return environment().from_string(source)


def respond(request: dict[str, Any], _: bytes) -> tuple[dict[str, str], bytes]:
    return answer(request["template"], request["variables"]), b""


def answer(source: str, variables: dict[str, object] | None) -> dict[str, str]:
    """Return the text or the reason for none; without variables, only compile the template."""
    try:
        template = compile_template(source)
    except Exception as error:  # whatever a stranger's code brings about
        return {"broken": _words(error)}
    if variables is None:
        return {}
    try:
        guard(variables)
        text = template.render(variables)
    except jinja2.TemplateError as error:
        return {"refused": _words(error)}
    except Exception as error:
        return {"failed": _words(error)}
    if len(text) > MAX_CHARACTERS:
        return {"failed": f"it wrote {len(text):,} characters, and {MAX_CHARACTERS:,} are the most"}
    return {"text": text}


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:MAX_ERROR_CHARACTERS] or type(error).__name__
