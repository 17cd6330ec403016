"""The command line's options for loading a model and for a reply."""

from __future__ import annotations

import re
from pathlib import Path
from typing import IO

import click

from localspec.backend import Options
from localspec.decoding.prompt_pace import MAX_GAP
from localspec.engine.settings import Settings
from localspec.errors import UsageError
from localspec.memory.planner import Limits
from localspec.models.entry import WISHES, Wish
from localspec.runtime.loading import Loading
from localspec.sampling.parameters import Sampling

UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    UNITS |= {_letter: 1024**_power, f"{_letter}IB": 1024**_power, f"{_letter}B": 1000**_power}
SIZE = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>[a-z]*)\s*", re.I)


class Bytes(click.ParamType[int]):
    """A number of bytes as people write it: 8GiB, 8GB, 512M."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        found = SIZE.fullmatch(str(value))
        if not found or found["unit"].upper() not in UNITS:
            self.fail(f"{value!r} is no size: write 8GiB, 8GB or 512MiB", param, ctx)
        return int(float(found["number"]) * UNITS[found["unit"].upper()])


BACKEND = click.Option(
    ["--backend"],
    type=click.Choice(WISHES),
    default="auto",
    help="The engine; a GGUF file or an MLX folder decides for itself.",
)

LOADING = (
    BACKEND,
    click.Option(["--draft"], metavar="NAME_OR_PATH", help="A smaller model that guesses."),
    click.Option(
        ["--proposer"],
        metavar="NAME,...",
        default="auto",
        help="Who guesses: auto, none, or names as ngram,draft-model.",
    ),
    click.Option(
        ["--depth"],
        type=click.IntRange(0, 64),
        help="Tokens to guess ahead; what pays, by measurement, if not given.",
    ),
    click.Option(
        ["--context"],
        type=click.IntRange(1),
        help="Tokens of prompt and reply together.",
    ),
    click.Option(
        ["--kv-type"],
        type=click.Choice(["auto", "f16", "q8_0", "q4_0"]),
        default="auto",
        help="Precision of keys and values; 16 bits if not given.",
    ),
    click.Option(
        ["--bit-exact"],
        is_flag=True,
        help="Greedy text equal to the bit, alone, beside others and with drafts: llama.cpp on a "
        "CPU, weights as Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0. Tokens take 1.4 to 2.5 times as long.",
    ),
    click.Option(
        ["--flash-attention"],
        type=click.Choice(["auto", "on", "off"]),
        default="auto",
        help="Without it, a CPU may turn near-ties.",
    ),
    click.Option(
        ["--device"], metavar="auto|cpu|N", default="auto", help="Where to run; N: the Nth GPU."
    ),
    click.Option(
        ["--budget"],
        type=Bytes(),
        help="Most memory to take, as 6GiB; else what is free, but for a reserve.",
    ),
    click.Option(["--gpu-layers"], type=click.IntRange(0), help="Layers on the GPU; else all."),
    click.Option(
        ["--threads"], type=click.IntRange(1), help="CPU threads; else one per physical core."
    ),
    click.Option(
        ["--adapter"],
        type=click.Path(exists=True, path_type=Path),
        help="A LoRA adapter's folder, to put on an MLX model.",
    ),
    click.Option(["--verbose"], is_flag=True, help="Show the engine's log."),
)

REPLY = (
    click.Option(["--max-tokens"], type=int, help="Most tokens to say; else the context's end."),
    click.Option(["--temperature"], type=float, default=0.0, help="0, the default, is greedy."),
    click.Option(["--top-k"], type=int, default=0, help="Only the k most likely tokens."),
    click.Option(["--top-p"], type=float, default=1.0, help="Only the most likely, up to p."),
    click.Option(
        ["--min-p"],
        type=float,
        default=0.0,
        metavar="P",
        help="Drop tokens less likely than P times the most likely one.",
    ),
    click.Option(["--repetition-penalty"], type=float, default=1.0, help="1 is none."),
    click.Option(["--presence-penalty"], type=float, default=0.0, help="0 is none."),
    click.Option(["--frequency-penalty"], type=float, default=0.0, help="0 is none."),
    click.Option(
        ["--logit-bias"], multiple=True, metavar="TOKEN=BIAS", help="May be given several times."
    ),
    click.Option(["--seed"], type=int, help="Makes a sampled reply repeatable."),
    click.Option(["--stop"], multiple=True, metavar="TEXT", help="Ends the reply; may repeat."),
    click.Option(
        ["--prediction"],
        type=click.File(encoding="utf-8"),
        help="A file that the reply is likely to repeat, as one to be edited.",
    ),
    click.Option(["--ignore-end"], is_flag=True, help="Go on where the model would stop."),
    click.Option(["--plain"], is_flag=True, help="Do not speculate."),
)

SERVING = (
    click.Option(["--host"], default="127.0.0.1", help="The address to answer at."),
    click.Option(["--port"], type=click.IntRange(0, 65535), default=8080, help="0: any."),
    click.Option(
        ["--slots"], type=click.IntRange(1), default=4, help="Requests that are answered at once."
    ),
    click.Option(
        ["--max-gap"],
        type=click.FloatRange(0, min_open=True),
        default=MAX_GAP,
        metavar="SECONDS",
        help="Longest that replies may pause while a prompt is read; longer, and new requests "
        "begin sooner.",
    ),
    click.Option(
        ["--queue"], type=click.IntRange(0), default=64, help="Requests that may wait for a slot."
    ),
    click.Option(
        ["--time-limit"],
        type=click.FloatRange(0, min_open=True),
        default=600.0,
        metavar="SECONDS",
        help="Most time of one reply.",
    ),
    click.Option(["--body-limit"], type=Bytes(), default="32MiB", help="Most bytes of a request."),
    click.Option(
        ["--idle"],
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="Unload what nobody asked for in so long.",
    ),
    click.Option(
        ["--api-key"],
        multiple=True,
        envvar="LOCALSPEC_API_KEY",
        metavar="KEY",
        help="Needed to use the server; may repeat, or be in LOCALSPEC_API_KEY.",
    ),
    click.Option(
        ["--api-key-file"],
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Keys, one a line.",
    ),
    click.Option(["--insecure"], is_flag=True, help="Let anybody in who reaches the address."),
    click.Option(
        ["--allow-host"], multiple=True, metavar="NAME", help="A name to be called by; * is all."
    ),
    click.Option(
        ["--allow-origin"], multiple=True, metavar="URL", help="A web page that may ask; * is all."
    ),
    click.Option(
        ["--cache-dir"],
        type=click.Path(file_okay=False, path_type=Path),
        help="Keep long prompts there, for another time.",
    ),
    click.Option(["--cache-size"], type=Bytes(), default="8GiB", help="Most bytes there."),
    click.Option(
        ["--cache-ram"],
        type=Bytes(),
        default="8GiB",
        help="Most memory for what slots gave up; at most a quarter of what is free.",
    ),
    click.Option(["--docs"], is_flag=True, help="Describe the API at /docs and /openapi.json."),
    click.Option(["--log-prompts"], is_flag=True, help="Show prompts and replies in the log."),
)

TALKING = (
    click.Option(["--resume"], is_flag=True, help="Go on with the last conversation."),
    click.Option(["--system"], default="", metavar="TEXT", help="What it is told beforehand."),
    click.Option(["--lens"], is_flag=True, help="Colour each token by who guessed it."),
    click.Option(["--attach"], metavar="URL", help="Talk to a server that runs already."),
    click.Option(
        ["--key"],
        envvar="LOCALSPEC_API_KEY",
        help="Of the server, if it wants one; or in LOCALSPEC_API_KEY.",
    ),
)

for _option in (*LOADING, *REPLY, *SERVING, *TALKING):
    # Values stay in the context, where `loading` and `settings` read them: commands take few.
    _option.expose_value = False
    _option.callback = lambda context, option, value: context.meta.update({option.name: value})


def draft(context: click.Context) -> str | None:
    found: str | None = context.meta["draft"]
    return found


def backend(context: click.Context) -> Wish:
    found: Wish = context.meta["backend"]
    return found


def loading(context: click.Context) -> Loading:
    """Read from the command line how to load."""
    wish = context.meta
    options = Options(
        slots=wish.get("slots", 1),
        context=wish["context"],
        tentative=max(wish["depth"] or 0, Options().tentative),
        kv_type=wish["kv_type"],
        flash_attention={"auto": None, "on": True, "off": False}[wish["flash_attention"]],
        gpu_layers=wish["gpu_layers"],
        bit_exact=wish["bit_exact"],
        threads=wish["threads"],
        adapter=wish["adapter"],
        verbose=wish["verbose"],
    )
    limits = Limits(wish["device"], wish["budget"])
    max_gap = wish.get("max_gap", MAX_GAP)
    return Loading(
        options, wish["proposer"], wish["depth"], wish["backend"], limits, max_gap=max_gap
    )


def settings(context: click.Context, logprobs: int | None = None) -> Settings:
    """Read the settings of a reply from the command line."""
    wish = context.meta
    sampling = Sampling(
        temperature=wish["temperature"],
        top_k=wish["top_k"],
        top_p=wish["top_p"],
        min_p=wish["min_p"],
        repetition=wish["repetition_penalty"],
        presence=wish["presence_penalty"],
        frequency=wish["frequency_penalty"],
        bias=dict(map(_bias, wish["logit_bias"])),
    )
    return Settings(
        max_tokens=wish["max_tokens"],
        sampling=sampling,
        seed=wish["seed"],
        stop=wish["stop"],
        ignore_end=wish["ignore_end"],
        logprobs=logprobs,
        depth=0 if wish["plain"] else None,
        prediction=_text(wish["prediction"]),
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
