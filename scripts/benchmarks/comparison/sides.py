"""The servers that are compared, and how each is started."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.serving.process import ServerProcess, localspec, running
from localspec.apps.clients.started import free_port

LLAMA_SERVER, PLAIN, GUESSING = "llama-server", "localspec-plain", "localspec"
DRAFTED = "localspec-draft"
IK, IK_REPACKED = "ik", "ik-repacked"
NGRAMS = ("ngram-mod", "ngram-simple", "ngram-cache", "ngram-map-k", "ngram-map-k4v")
JINJA = ("--jinja",)  # the model's own chat template, which the others take without being asked
PATIENT = ("--time-limit", "36000")  # seconds of a reply; llama-server has no limit

Program = Literal["llama-server", "ik", "localspec"]


@dataclass(frozen=True, slots=True)
class Side:
    """A server under a name, with options of its own."""

    name: str
    program: Program
    options: tuple[str, ...] = ()


SIDES = {
    LLAMA_SERVER: Side(LLAMA_SERVER, "llama-server"),
    **{name: Side(name, "llama-server", ("--spec-type", name)) for name in NGRAMS},
    IK: Side(IK, "ik", JINJA),
    IK_REPACKED: Side(IK_REPACKED, "ik", (*JINJA, "--run-time-repack")),
    PLAIN: Side(PLAIN, "localspec", ("--proposer", "none")),
    GUESSING: Side(GUESSING, "localspec"),
}
USUAL = (LLAMA_SERVER, "ngram-mod", PLAIN, GUESSING)


def sides_of(modes: Sequence[str], ours: Sequence[str], theirs: Sequence[str] = ()) -> list[Side]:
    """Return the named sides, llama-server first, and more of ours or theirs by `NAME=OPTIONS`."""
    names = list(dict.fromkeys([LLAMA_SERVER, *modes]))
    if strange := [name for name in names if name not in SIDES]:
        raise SystemExit(f"there is no mode {strange[0]!r}; known: {', '.join(SIDES)}")
    more = [of_options(text, "llama-server", "--theirs") for text in theirs]
    more += [of_options(text, "localspec", "--ours") for text in ours]
    return [*(SIDES[name] for name in names), *more]


def of_options(text: str, program: Program, option: str) -> Side:
    name, equals, options = text.partition("=")
    if not equals or not name or name in SIDES:
        raise SystemExit(f"{option} {text!r} is not NAME=OPTIONS with a name that is new")
    return Side(name, program, tuple(shlex.split(options)))


@dataclass(frozen=True, slots=True)
class Starter:
    """Starts any side on the same file with the same number of threads."""

    model: Path
    llama_server: Path
    threads: int
    folder: Path  # for logs
    ik: Path | None = None  # the server of ik_llama.cpp
    draft: Path | None = None  # a draft model or head
    shares_cache: bool = False  # whether our slots share one KV cache here, as on a GPU

    def start(
        self, side: Side, streams: int, context: int
    ) -> AbstractContextManager[ServerProcess]:
        """Start a side for so many requests at once, with a context of so many tokens for each."""
        log = self.folder / f"{side.name}.log"
        if side.program == "localspec":
            options = self.localspec_options(streams, context)
            return localspec(self.model, log, *options, *PATIENT, *side.options)
        port = free_port()
        command = self.llama_server_command(side, streams, context, port)
        return running(side.name, command, log, lambda: f"http://127.0.0.1:{port}")

    def localspec_options(self, streams: int, context: int) -> Sequence[str]:
        """Return the options for the same cache that llama-server has.

        Where ours was larger, a second server of ours found too little memory for a cache for each
        slot; eight slots of one cache decode at 0.6 of the speed on a CPU.
        """
        sizes = streams * context if self.shares_cache else context
        return [
            *("--slots", str(streams), "--context", str(sizes)),
            *("--threads", str(self.threads)),
        ]

    def llama_server_command(
        self, side: Side, streams: int, context: int, port: int
    ) -> Sequence[str]:
        wishes = {
            "--model": self.model,
            "--host": "127.0.0.1",
            "--port": port,
            "--threads": self.threads,
            "--threads-batch": self.threads,
            "--parallel": streams,
            "--ctx-size": streams * context,  # of all slots together
        }
        options = [part for name, value in wishes.items() for part in (name, str(value))]
        program = self.ik if side.program == "ik" else self.llama_server
        return [str(program), *options, *side.options]
