"""A conversation in the terminal."""

from __future__ import annotations

import contextlib
import importlib
import sys

import click

from localspec.errors import LocalSpecError
from localspec.figures import TARGET
from localspec.job import Result
from localspec.message import Message
from localspec.runtime import Runtime
from localspec.settings import Settings
from localspec.worker import Stream

PROMPT = "> "


def converse(runtime: Runtime, settings: Settings) -> None:
    """Talk until the input ends; an answer that fails or is stopped ends only itself."""
    _edit_lines()
    click.secho("Ctrl-C stops an answer, Ctrl-D leaves.", dim=True)
    messages: list[Message] = []
    while (text := _question()) is not None:
        if not text.strip():
            continue
        question = {"role": "user", "content": text}
        try:
            result = answer(runtime.stream(runtime.conversation([*messages, question]), settings))
        except LocalSpecError as error:
            click.secho(f"{error}\n", fg="red")
            continue
        for notice in result.notices:
            click.secho(notice, fg="yellow")
        messages += [question, {"role": "assistant", "content": result.text}]
        click.secho(f"{status_line(result)}\n", dim=True)


def answer(stream: Stream) -> Result:
    """Print a reply as it comes; Ctrl-C keeps what there is of it."""
    try:
        for chunk in stream:
            click.echo(chunk.text, nl=False)
            sys.stdout.flush()
    except KeyboardInterrupt:
        stream.cancel()
    click.echo()
    return stream.result


def status_line(result: Result) -> str:
    """What a reply took, and what speculation saved."""
    timings, speculation = result.timings, result.speculation
    parts = [f"{result.usage.completion_tokens} tokens"]
    if timings.tokens_per_second:
        parts.append(f"{timings.tokens_per_second:.1f} tokens/s")
    if timings.first_token is not None:
        parts.append(f"first after {timings.first_token:.2f} s")
    if speculation.drafted:
        guessers = " and ".join(by for by in speculation.tokens_by_source if by != TARGET)
        parts.append(
            f"{speculation.accepted} of {speculation.drafted} guesses right"
            + (f" ({guessers})" if guessers else "")
        )
        parts.append(f"{speculation.mean_accepted + 1:.2f} tokens a round")
    if result.finish_reason != "stop":
        parts.append({"length": "cut at its length", "cancelled": "stopped"}[result.finish_reason])
    return ", ".join(parts)


def _question() -> str | None:
    """The next line; None at the end of input, and Ctrl-C only clears the line."""
    while True:
        try:
            return input(PROMPT)
        except KeyboardInterrupt:
            click.echo()
        except EOFError:
            click.echo()
            return None


def _edit_lines() -> None:
    """Arrow keys and history for `input`, where the platform has them."""
    with contextlib.suppress(ImportError):  # Windows: its console edits lines itself
        importlib.import_module("readline")
