"""Compiles grammars in a process of their own before they are compiled in this one.

llguidance cannot be interrupted: an intersection of a hundred patterns takes it hours, and rules
that are nested 2,000 deep end its process. Here that process does nothing else.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.base.confined.process import ConfinedProcess, Unanswered
from localspec.base.errors import UsageError
from localspec.formats.grammar import compile_child

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

COMPILE_SECONDS = 2  # of processor time; the largest that is of use takes 0.3
COMPILE_BYTES = 1 << 30
MAX_QUICK_SCHEMA = 4096  # characters of a schema that asks for little, which takes 20 ms
MAX_QUICK_PATTERN = 1024  # characters of a pattern that stands alone, which takes 80 ms at most
DEMANDING = re.compile(r"pattern|allOf|\\u")  # an escape may spell either
MAX_DEMANDS = 8  # in a schema that is quick to compile, whatever they ask for
TOO_LONG = f"it takes more than {COMPILE_SECONDS} s to compile"
TOO_LARGE = "it is too large, or its rules are nested too deeply"
SCRIPT = Path(compile_child.__file__)

# A token of the model by its number or name, of which the trial's own vocabulary has none. The same
# within a text or a pattern costs no more to compile than what takes its place.
TOKEN = re.compile(r"<(?:\[[\d,^ -]+\]|[\w/|.-]+)>")
ANY_TOKEN = "<[0]>"

# A repetition that is all there is in brackets, which are repeated too: `gbnf_to_lark` would leave
# the brackets out. Texts, sets of characters and comments are skipped.
REPEATED = re.compile(
    r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|#[^\n]*|([*+?}])(?=(?:\s*\))+\s*[*+?{])', re.DOTALL
)


@lru_cache(maxsize=64)
def fault(source: str) -> str:
    """Return why llguidance cannot compile a grammar; empty if it can."""
    return compile_in_child({"source": TOKEN.sub(ANY_TOKEN, source)})["fault"]


def fault_of_schema(schema: str, options: JsonCompileOptions | None = None) -> str:
    """Return why a JSON Schema cannot be followed; raises ValueError if it is no object."""
    from llguidance import LLMatcher

    source = LLMatcher.grammar_from_json_schema(schema, defaults=options)
    return compile_child.fault(source) if is_quick(schema) else fault(source)


def fault_of_pattern(pattern: str) -> str:
    """Return why a string cannot be held to a pattern; raises ValueError if that is no text."""
    from llguidance import LLMatcher

    schema = {"type": "string", "pattern": pattern}
    source = LLMatcher.grammar_from_json_schema(schema)
    quick = len(pattern) <= MAX_QUICK_PATTERN
    return compile_child.fault(source) if quick else fault(source)


def is_quick(schema: str) -> bool:
    """Return whether a schema compiles too quickly to be worth a process."""
    return len(schema) <= MAX_QUICK_SCHEMA and len(DEMANDING.findall(schema)) <= MAX_DEMANDS


@lru_cache(maxsize=64)
def lark_of_gbnf(text: str) -> str:
    """Translate a grammar in GBNF; raises UsageError if it is none."""
    bracketed = REPEATED.sub(lambda match: f'{match[1]} ""' if match[1] else match[0], text)
    answer = compile_in_child({"gbnf": bracketed})
    if "lark" not in answer:
        raise UsageError(f"the grammar is not GBNF: {answer['fault'][:200]}")
    return answer["lark"]


def compile_in_child(
    request: Mapping[str, str], seconds: float = COMPILE_SECONDS
) -> dict[str, str]:
    """Compile in a new process; return its answer, or a fault if the grammar ended it."""
    process = ConfinedProcess(SCRIPT, seconds, COMPILE_BYTES, errors=subprocess.DEVNULL)
    with closing(process):  # one for each: they are compiled beside each other
        try:
            return dict(process.ask(request).reply)
        except Unanswered as error:
            if error.code is None:  # the machine was busy: not a fault of the grammar
                raise UsageError(f"a grammar could not be compiled: {error}") from error
            late = error.code < 0 and signal.Signals(-error.code).name == "SIGPROF"
            return {"fault": TOO_LONG if late else TOO_LARGE}
