"""Compiles grammars in a process of their own before they are compiled in this one.

llguidance cannot be interrupted: an intersection of a hundred patterns takes it hours, and rules
that are nested 2,000 deep end its process. Here such a process is one that nobody else needs.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from localspec.errors import UsageError
from localspec.grammar import compile_child

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

COMPILE_SECONDS = 2  # of processor time; the largest that is of use takes 0.3
PATIENCE_SECONDS = 30  # by the clock, on a machine that does much besides
SHORT = 4096  # characters of a schema without what is demanding, which takes 20 ms
SHORT_PATTERN = 1024  # characters of one that stands alone, which takes 80 ms at most
DEMANDING = re.compile(r"pattern|allOf|\\u")  # an escape may spell either
DEMANDS = 8  # that take no time yet, whatever they say
TOO_LONG = f"it takes more than {COMPILE_SECONDS} s to compile"

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
    """Tell why llguidance cannot compile a grammar; empty if it can."""
    return tried({"source": TOKEN.sub(ANY_TOKEN, source)})["fault"]


def fault_of_schema(schema: str, options: JsonCompileOptions | None = None) -> str:
    """Tell why a JSON Schema cannot be followed; raises ValueError if it is no object."""
    from llguidance import LLMatcher

    source = LLMatcher.grammar_from_json_schema(schema, defaults=options)
    return compile_child.fault(source) if is_quick(schema) else fault(source)


def fault_of_pattern(pattern: str) -> str:
    """Tell why a string cannot be held to a pattern; raises ValueError if that is no text."""
    from llguidance import LLMatcher

    schema = {"type": "string", "pattern": pattern}
    source = LLMatcher.grammar_from_json_schema(schema)
    quick = len(pattern) <= SHORT_PATTERN
    return compile_child.fault(source) if quick else fault(source)


def is_quick(schema: str) -> bool:
    """Tell whether a schema takes no time worth a process."""
    return len(schema) <= SHORT and len(DEMANDING.findall(schema)) <= DEMANDS


@lru_cache(maxsize=64)
def lark_of_gbnf(text: str) -> str:
    """Translate a grammar in GBNF; raises UsageError if it is none."""
    bracketed = REPEATED.sub(lambda found: f'{found[1]} ""' if found[1] else found[0], text)
    answer = tried({"gbnf": bracketed})
    if "lark" not in answer:
        raise UsageError(f"the grammar is not GBNF: {answer['fault'][:200]}")
    return answer["lark"]


def tried(request: Mapping[str, object], seconds: int = COMPILE_SECONDS) -> dict[str, str]:
    """Ask a new process; what ends it is a fault of the grammar."""
    command = [sys.executable, "-I", compile_child.__file__]
    asked = json.dumps({**request, "seconds": seconds}).encode()
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, timeout=PATIENCE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:  # which tells of the machine, and is not kept
        raise UsageError(f"a grammar could not be compiled in {PATIENCE_SECONDS} s") from error
    if done.returncode == 0:
        answer: dict[str, str] = json.loads(done.stdout)
        return answer
    return {"fault": end_of(done.returncode)}


def end_of(code: int) -> str:
    """Tell why a process ended that compiled a grammar."""
    name = signal.Signals(-code).name if code < 0 else ""
    if name in ("SIGXCPU", "SIGKILL"):
        return TOO_LONG
    return "it is too large, or its rules are nested too deeply"
