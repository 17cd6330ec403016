"""Compiles a grammar first in a confined process, which loads this file by its path."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llguidance import LLParserLimits

STACK_BYTES = 4 << 20  # llguidance takes 1 to 3 kB for each rule within another
DEEPER_BYTES = 8 << 20  # to compile a grammar again that fitted into the former
STACKS = threading.Lock()
NICENESS = 5  # beside three large grammars on two cores, a token took up to a second without it


def respond(request: Mapping[str, str], _: bytes) -> tuple[dict[str, str], bytes]:
    """Return the fault of a grammar, or its translation from GBNF."""
    reply: dict[str, str] = {}

    def compile_grammar() -> None:
        if "gbnf" in request:
            reply.update(translate_gbnf(request["gbnf"]))
        else:
            reply["fault"] = fault(request["source"])

    on_stack(STACK_BYTES, compile_grammar)
    if not reply:
        raise MemoryError
    return reply, b""


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
