"""Docstrings of the site: their lines `name: text`, of the fields of a class, become a list."""

from __future__ import annotations

import re

import griffe

FIELD = re.compile(r"^(\w+): ", re.MULTILINE)


class FieldLists(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.is_class and obj.docstring:
            obj.docstring.value = FIELD.sub(r"* `\1`: ", obj.docstring.value)
