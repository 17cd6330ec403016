"""The process in which a grammar is first compiled; it may crash or be ended without harm.

It is run as a file, and imports nothing of LocalSpec: that would take longer than the compiling.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llguidance import LLParserLimits

STACK_BYTES = 4 << 20  # llguidance takes 1 to 3 kB for each rule within another
DEEPER_BYTES = 8 << 20  # to compile a grammar again that fitted into the former
STACKS = threading.Lock()
NICENESS = 5  # beside three large grammars on two cores, a token took up to a second without it


def main() -> None:
    """Read a grammar as JSON, and answer with its fault, or with its translation from GBNF."""
    request = json.load(sys.stdin)
    bound_processor(request["seconds"])
    answer: dict[str, str] = {}

    def compile_grammar() -> None:
        if "gbnf" in request:
            answer.update(translate_gbnf(request["gbnf"]))
        else:
            answer["fault"] = fault(request["source"])

    on_stack(STACK_BYTES, compile_grammar)
    json.dump(answer, sys.stdout)


def on_stack(size: int, work: Callable[[], None]) -> None:
    """Run work on a stack of this many bytes, at a lower priority than other threads.

    The stack of a thread is 1 MB on some systems.
    """

    def work_behind_others() -> None:
        if sys.platform == "linux":  # where each thread has a priority of its own
            os.nice(NICENESS)
        work()

    thread = threading.Thread(target=work_behind_others)
    with STACKS:
        default = threading.stack_size(size)
        thread.start()
        threading.stack_size(default)
    thread.join()


def bound_processor(seconds: int) -> None:
    """Let the system end this process after so much processor time, where it can."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def fault(source: str) -> str:
    from llguidance import LLMatcher, LLTokenizer

    return LLMatcher(LLTokenizer("byte"), source, log_level=0, limits=limits()).get_error()


def limits() -> LLParserLimits:
    from llguidance import LLParserLimits

    return LLParserLimits(
        max_lexer_states=20_000,  # at 1 to 2 kB each
        initial_lexer_fuel=500_000,  # 0.5 s of processor time
        step_max_items=50_000,  # of the parser
        verbose_errors=False,
    )


def translate_gbnf(text: str) -> dict[str, str]:
    from llguidance.gbnf_to_lark import gbnf_to_lark

    try:
        return {"lark": gbnf_to_lark(text)}
    except Exception as error:  # it raises several kinds, `Exception` itself among them
        return {"fault": str(error)}


if __name__ == "__main__":
    main()
