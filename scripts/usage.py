"""Start of scripts that are packages, and their help, for which nothing has to be installed."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from environment import ROOT, become, ensure, facts, holds

SCRIPTS = Path(__file__).resolve().parent


def run(module: str, source: str, extras: Sequence[str], doc: str | None) -> NoReturn:
    """Run a module of this folder in its environment; its `source` has the options."""
    help_first(extras, source, doc)
    python = ensure(extras)
    paths = (str(ROOT), str(SCRIPTS), os.environ.get("PYTHONPATH"))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    become(python, "-m", module, *sys.argv[1:])


def help_first(extras: Sequence[str], source: str, doc: str | None) -> None:
    """Print help and end, if it is asked for.

    `source` is the module that the script runs. Its own parser answers where all is installed.
    """
    if not {"-h", "--help"} & set(sys.argv[1:]):
        return
    text = (SCRIPTS / source).read_text(encoding="utf-8")
    if "ArgumentParser(" in text and holds(facts(extras)):
        return
    print("\n".join([(doc or "").strip(), *options(text)]))
    sys.exit()


def described(source: str) -> str:
    """Return what a module says of itself."""
    return ast.get_docstring(ast.parse((SCRIPTS / source).read_text(encoding="utf-8"))) or ""


def options(text: str) -> Iterator[str]:
    """List the options that a module declares, each with its help."""
    declared = [call for call in ast.walk(ast.parse(text)) if isinstance(call, ast.Call)]
    rows = [(name, help_of(call)) for call in declared if (name := option(call))]
    yield from ([""] if rows else [])
    yield from (f"  {name:16} {words}".rstrip() for name, words in rows)


def option(call: ast.Call) -> str:
    first = call.args[0] if call.args else None
    name = first.value if isinstance(first, ast.Constant) else None
    return name if isinstance(name, str) and name.startswith("--") else ""


def help_of(call: ast.Call) -> str:
    words = next((keyword.value for keyword in call.keywords if keyword.arg == "help"), None)
    return str(words.value) if isinstance(words, ast.Constant) else ""
