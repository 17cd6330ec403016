"""What somebody who writes an engine has to read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

MOST_LINES = 1100


def source(module: str) -> Path | None:
    """The file of a module; None for a package and for a name within a module."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec and not spec.submodule_search_locations else None


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (node.module, *(f"{node.module}.{name.name}" for name in node.names))
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def read_with(module: str) -> dict[str, int]:
    """The modules that one needs to be understood, and their lines."""
    lines, waiting = {}, [module]
    while waiting:
        name = waiting.pop()
        if name in lines or not name.startswith("localspec.") or not (path := source(name)):
            continue
        lines[name] = len(path.read_text(encoding="utf-8").splitlines())
        waiting += imported(path)
    return lines


def test_the_interface_of_an_engine_can_be_read_with_all_that_it_imports():
    lines = read_with("localspec.interfaces.backend")
    assert {"localspec.base.tokens", "localspec.interfaces.token_source"} <= {*lines}
    assert not [
        name for name in lines if not name.startswith(("localspec.base", "localspec.interf"))
    ]
    assert sum(lines.values()) <= MOST_LINES, lines
