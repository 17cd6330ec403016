"""Options of a reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from localspec.commands.options.declare import INTEGER, NUMBER, OPENED, TEXT, flag, option, repeated
from localspec.engine.settings import Settings
from localspec.errors import UsageError
from localspec.sampling.parameters import Sampling


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    max_tokens: int | None = option(INTEGER, "Most tokens to say; else the context's end.")
    temperature: float = option(NUMBER, "0, the default, is greedy.", default=0.0)
    top_k: int = option(INTEGER, "Only the k most likely tokens.", default=0)
    top_p: float = option(NUMBER, "Only the most likely, up to p.", default=1.0)
    min_p: float = option(
        NUMBER, "Drop tokens less likely than P times the most likely one.", "P", default=0.0
    )
    repetition_penalty: float = option(NUMBER, "1 is none.", default=1.0)
    presence_penalty: float = option(NUMBER, "0 is none.", default=0.0)
    frequency_penalty: float = option(NUMBER, "0 is none.", default=0.0)
    logit_bias: tuple[str, ...] = repeated(TEXT, "May be given several times.", "TOKEN=BIAS")
    seed: int | None = option(INTEGER, "Makes a sampled reply repeatable.")
    stop: tuple[str, ...] = repeated(TEXT, "Ends the reply; may repeat.", "TEXT")
    prediction: IO[str] | None = option(
        OPENED, "A file that the reply is likely to repeat, as one to be edited."
    )
    ignore_end: bool = flag("Go on where the model would stop.")
    plain: bool = flag("Do not speculate.")


def settings(wanted: ReplyOptions, logprobs: int | None = None) -> Settings:
    """Make the settings of a reply of its options."""
    sampling = Sampling(
        temperature=wanted.temperature,
        top_k=wanted.top_k,
        top_p=wanted.top_p,
        min_p=wanted.min_p,
        repetition=wanted.repetition_penalty,
        presence=wanted.presence_penalty,
        frequency=wanted.frequency_penalty,
        bias=dict(map(_bias, wanted.logit_bias)),
    )
    return Settings(
        max_tokens=wanted.max_tokens,
        sampling=sampling,
        seed=wanted.seed,
        stop=wanted.stop,
        ignore_end=wanted.ignore_end,
        logprobs=logprobs,
        depth=0 if wanted.plain else None,
        prediction=_text(wanted.prediction),
    )


def _text(file: IO[str] | None) -> str:
    try:
        return file.read() if file else ""
    except UnicodeDecodeError as error:
        raise UsageError(f"--prediction: {error}") from error


def _bias(text: str) -> tuple[int, float]:
    token, _, value = text.partition("=")
    try:
        return int(token), float(value)
    except ValueError:
        raise UsageError(f"logit bias {text!r} is not of the form TOKEN=BIAS, as 42=-1.5") from None
