"""Docstrings of the site: their lines `name: text`, of the fields of a class, become a list."""

from __future__ import annotations

import re
from inspect import getdoc

import griffe

import localspec

FIELD = re.compile(r"^(\w+): ", re.MULTILINE)


class FieldLists(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.is_class and obj.docstring:
            public = getattr(localspec, obj.name, None) if obj.name in localspec.__all__ else None
            if public and obj.path == f"{public.__module__}.{public.__qualname__}":
                obj.docstring.value = getdoc(public) or ""  # some lines are written by a table
            obj.docstring.value = FIELD.sub(r"* `\1`: ", obj.docstring.value)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: object) -> None:
        """Show the default of a parameter of sampling, not what is declared of it."""
        call = attr.value
        if isinstance(call, griffe.ExprCall) and call.canonical_name == "default":
            attr.value = call.arguments[0]
