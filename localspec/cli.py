"""The `localspec` command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import click

from localspec.backend import Footprint
from localspec.bench.command import bench
from localspec.bench.make_draft import make_draft
from localspec.chat.options import ChatOptions, ChatWanted
from localspec.clients.command import connect, launch
from localspec.commands import configuration
from localspec.commands.config import config
from localspec.commands.convert_draft import convert_draft
from localspec.commands.doctor import doctor
from localspec.commands.group import join_group, launch_group
from localspec.commands.interactive_load import loaded
from localspec.commands.models import COMMANDS, names
from localspec.commands.options.declare import (
    INTEGER,
    READABLE,
    chosen,
    flag,
    given,
    option,
    options,
    read,
)
from localspec.commands.options.loading import (
    LOADING,
    DraftingOptions,
    EngineOptions,
    LoadingOptions,
)
from localspec.commands.options.loading import loading as how_to_load
from localspec.commands.options.reply import ReplyOptions, settings
from localspec.commands.plan import plan
from localspec.commands.tune import tune
from localspec.commands.worker import worker
from localspec.engine.settings import Settings
from localspec.engine.worker import Stream
from localspec.errors import LocalSpecError, UsageError
from localspec.export.command import export
from localspec.memory.machine import size
from localspec.models import engines, trial
from localspec.prove.command import prove
from localspec.runtime.runtime import Runtime
from localspec.server.options import ServingOptions
from localspec.system.rebirth import Lives, lives, one_life

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main() -> None:
    """Run the command line; what runs a model does so in a process that may be ended."""
    sys.exit(run(sys.argv[1:], partial(lives, fallen)))


def fallen(said: str) -> None:
    """Report that a signal ended an engine."""
    advice = "if a graphics card or its driver failed, `--device cpu` does without"
    click.echo(f"localspec: {said}; {advice}", err=True)


def run(arguments: Sequence[str], lives: Lives = one_life) -> int:
    """Run one command; 0, or 1 failed, 2 wrong usage, 130 interrupted, with one line on stderr."""
    try:
        code = commands.main(
            list(arguments), prog_name="localspec", standalone_mode=False, obj=lives
        )
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        if said := configuration.origin(error):
            click.echo(f"localspec: {said}", err=True)
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except LocalSpecError as error:
        click.echo(f"localspec: {error}", err=True)
        return USAGE if isinstance(error, UsageError) else FAILED
    except BrokenPipeError:
        # Who read the output has gone; so must what is left of it, or Python complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code or 0


CONTEXT = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
    "auto_envvar_prefix": configuration.PREFIX,
}


@click.group(context_settings=CONTEXT)
@click.option("--config", type=READABLE, help="The file of options, instead of the user's.")
@click.version_option(package_name="localspec", allow_from_autoenv=False)
@click.pass_context
def commands(context: click.Context, config: Path | None) -> None:
    """Run language models on this machine, faster, and change nothing they say."""
    file = configuration.read(config)
    context.default_map = {**file.defaults(commands.commands)}
    context.obj = context.obj or one_life


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    raw: bool = flag("Continue the prompt as it is, without chat template.")
    json: bool = flag("Print the result with all its figures.")
    logprobs: int | None = option(INTEGER, "Of each token and N others; with --json.", "N")


@commands.command(params=options(*LOADING, ReplyOptions, GenerateOptions))
@click.argument("model", metavar="NAME_OR_PATH")
@click.argument("prompt")
@click.pass_context
def generate(context: click.Context, model: str, prompt: str) -> None:
    """Answer PROMPT, or standard input if it is `-`, and exit.

    A model with a chat template is asked through it.
    """
    shown = read(context, GenerateOptions)
    if shown.logprobs is not None and not shown.json:
        raise UsageError("--logprobs are part of the result as JSON: add --json")
    # A wrong wish fails before anything is loaded.
    wanted = settings(read(context, ReplyOptions), shown.logprobs)
    found = read(context, LoadingOptions)
    loading = how_to_load(found, read(context, DraftingOptions))
    text = sys.stdin.read() if prompt == "-" else prompt
    if loading.options.members == 1:
        context.obj(again=False)
    with loaded(model, found.draft, loading) as runtime:
        stream = ask(runtime, text, wanted, raw=shown.raw)
        if shown.json:
            click.echo(json.dumps(asdict(stream.result), indent=2, ensure_ascii=False))
        else:
            show(stream, runtime)


def ask(runtime: Runtime, text: str, wanted: Settings, *, raw: bool) -> Stream:
    if raw or not runtime.tokenizer.chat_template:
        return runtime.stream(text, wanted)
    return runtime.stream(runtime.conversation([{"role": "user", "content": text}]), wanted)


def show(stream: Stream, runtime: Runtime) -> None:
    """Print a reply as it comes; its figures follow on a terminal's stderr."""
    for chunk in stream:
        click.echo(chunk.text, nl=False)
        sys.stdout.flush()
    click.echo()
    for notice in stream.result.notices:
        click.echo(f"localspec: {notice}", err=True)
    if sys.stderr.isatty():
        from localspec.chat.speakers.local import ended
        from localspec.chat.status import status

        told = status(ended(stream.result), runtime.context)
        click.secho(told, err=True, dim=True)


@commands.command(params=options(*LOADING, ReplyOptions, ChatOptions))
@click.argument("name", metavar="[NAME_OR_PATH]", default="", shell_complete=names)
@click.argument("question", default="")
@click.pass_context
def chat(context: click.Context, name: str, question: str) -> None:
    """Talk to a model in the terminal, or have it answer one QUESTION and exit.

    Without a name it is the one used last, or the best that is here. What comes through a pipe is
    put before the question.
    """
    from localspec.chat.command import chat as talk  # a terminal's libraries take their time

    wanted = ChatWanted(
        chat=read(context, ChatOptions),
        load=read(context, LoadingOptions),
        drafting=read(context, DraftingOptions),
        reply=read(context, ReplyOptions),
        typed=given(context),
        chosen=chosen(context),
    )
    talk(wanted, name, question, context.obj)


@commands.command(params=options(*LOADING, ServingOptions))
@click.argument("names", metavar="NAME_OR_PATH...", nargs=-1, required=True, shell_complete=names)
@click.pass_context
def serve(context: click.Context, names: Sequence[str]) -> None:
    """Answer over HTTP, in the APIs of OpenAI, Anthropic, Ollama and llama.cpp.

    Of several models the first is loaded at once, the others when a request asks for them.
    """
    from localspec.server.command import serve as answer  # a web server takes its time to import

    wanted = read(context, LoadingOptions)
    loading = how_to_load(wanted, read(context, DraftingOptions))
    answer(read(context, ServingOptions), loading, wanted.draft, names)


@dataclass(frozen=True, slots=True)
class InfoOptions:
    json: bool = flag("Print everything, the template included.")


@commands.command(params=options(EngineOptions, InfoOptions))
@click.argument("model", metavar="NAME_OR_PATH")
@click.pass_context
def info(context: click.Context, model: str) -> None:
    """Tell what a model's file or folder holds, as its engine lays it out."""
    footprint = trial.footprint(model, read(context, EngineOptions).backend)
    if read(context, InfoOptions).json:
        click.echo(json.dumps(asdict(footprint), indent=2, default=os.fspath))
        return
    for name, value in (*describe(footprint), *runs_on(footprint.path)):
        click.echo(f"{name:<14} {value}")


for _command in COMMANDS:
    commands.add_command(_command)
commands.add_command(bench)
commands.add_command(config)
commands.add_command(connect)
commands.add_command(convert_draft)
commands.add_command(doctor)
commands.add_command(export)
commands.add_command(launch)
commands.add_command(launch_group)
commands.add_command(join_group)
commands.add_command(make_draft)
commands.add_command(plan)
commands.add_command(prove)
commands.add_command(tune)
commands.add_command(worker)


def describe(f: Footprint) -> list[tuple[str, str]]:
    kept = f"{f.kv_bytes_per_token:,} bytes per token"
    if f.window:
        kept += f", and {f.window_bytes_per_token:,} in a window of {f.window:,} tokens"
    experts = f"{f.experts} in a layer, {f.active_experts} of them active"
    lines = [
        ("path", os.fspath(f.path)),
        ("name", f.name),
        ("architecture", f.architecture),
        ("quantisation", f.quantisation),
        ("size", f"{f.file_bytes:,} bytes, {f.weight_bytes:,} of weights"),
        ("layers", layers(f)),
        ("heads", f"{f.heads}, {f.kv_heads} for keys and values" if f.heads else ""),
        ("experts", experts if f.experts else ""),
        ("MTP head", f"{f.drafting_layers} layers" if f.drafting_layers else ""),
        ("drafting head", f"{f.drafter}: give it with --draft" if f.drafter else ""),
        ("vision", f"{f.projector.name} beside it" if f.projector else ""),
        ("context", f"{f.context:,} tokens"),
        ("16-bit KV", kept),
        ("state", f"{f.state_bytes:,} bytes per slot" if f.recurrent else ""),
        ("tokenizer", f"{f.tokenizer}, {f.vocabulary:,} tokens" if f.vocabulary else ""),
        ("chat template", "yes" if f.chat_template else "no"),
    ]
    return [line for line in lines if line[1]]


def runs_on(path: Path) -> Iterator[tuple[str, str]]:
    """Name the devices that the engine of a file sees, each with its free memory."""
    for device in engines.backend(engines.taker(path)).probe():
        yield device.kind, f"{device.name}, {size(device.free_bytes)} free"


def layers(f: Footprint) -> str:
    """Describe the layers: their number and kinds; some have two, or none of these."""
    kinds = {
        "with attention": f.attention_layers,
        f"with attention in a window of {f.window:,} tokens": f.window_layers,
        "recurrent": f.recurrent_layers,
    }
    told = [f"{count} {kind}" for kind, count in kinds.items() if count]
    return f"{f.layers}: {', '.join(told)}" if told else str(f.layers)
