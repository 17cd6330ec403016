"""The options of `localspec serve`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from localspec.commands.options.declare import (
    COUNT,
    FOLDER,
    READABLE,
    SECONDS,
    TEXT,
    WRITABLE,
    flag,
    option,
    repeated,
)
from localspec.commands.options.size import Bytes
from localspec.decoding.prompt_pace import MAX_GAP
from localspec.errors import UsageError

KEY = "LOCALSPEC_API_KEY"
STORED = 1024  # responses
FOR_AGENTS = 16_384  # tokens of context, below which coding agents have too little


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """The addresses and limits of the server."""

    host: str = option(TEXT, "The address to answer at.", default="127.0.0.1")
    port: int = option(click.IntRange(0, 65535), "0: any.", default=8080)
    unix: Path | None = option(
        WRITABLE, "Answer at a unix socket there, in place of an address; for its owner alone."
    )
    tls_cert: Path | None = option(READABLE, "Answer by HTTPS: a certificate, with its chain, PEM.")
    tls_key: Path | None = option(READABLE, "Its key, if that is in a file of its own.")
    prefix: str = option(
        TEXT, "Answer under this path too, behind a proxy that keeps it.", "/PATH", default=""
    )
    slots: int = option(COUNT, "Requests that are answered at once.", default=4)
    max_gap: float = option(
        SECONDS,
        "Longest that replies may pause while a prompt is read; longer, and new requests "
        "begin sooner.",
        "SECONDS",
        default=MAX_GAP,
    )
    queue: int = option(click.IntRange(0), "Requests that may wait for a slot.", default=64)
    time_limit: float = option(SECONDS, "Most time of one reply.", "SECONDS", default=600.0)
    body_limit: int = option(Bytes(), "Most bytes of a request.", default=32 << 20)
    idle: float | None = option(SECONDS, "Unload a model that was unused for so long.", "SECONDS")
    api_key: tuple[str, ...] = repeated(
        TEXT,
        f"Needed to use the server; may repeat, or be in {KEY}.",
        "KEY",
        envvar=KEY,
        secret=True,
    )
    api_key_file: Path | None = option(READABLE, "Keys, one a line.")
    insecure: bool = flag("Let anybody in who reaches the address.")
    allow_host: tuple[str, ...] = repeated(TEXT, "A name to be called by; * is all.", "NAME")
    allow_origin: tuple[str, ...] = repeated(TEXT, "A web page that may ask; * is all.", "URL")
    cache_dir: Path | None = option(FOLDER, "Keep long prompts there, for another time.")
    cache_size: int = option(Bytes(), "Most bytes there.", default=8 << 30)
    cache_ram: int = option(
        Bytes(),
        "Most memory for what slots gave up; at most a quarter of what is free.",
        default=8 << 30,
    )
    response_store: int = option(
        click.IntRange(0),
        "Most responses to keep for previous_response_id; on disk with --cache-dir.",
        "N",
        default=STORED,
    )
    manage: bool | None = option(
        click.BOOL,
        "Whether clients may load, unload, download and delete models; if not given, only where "
        "nobody else can reach the server.",
        "yes|no",
    )
    alias: tuple[str, ...] = repeated(
        TEXT, "Another name for the model, or NAME=MODEL of several; may repeat.", "NAME"
    )
    strict: bool = flag("Refuse fields and models that are not known, and values out of bounds.")
    docs: bool = flag("Describe the API at /docs and /openapi.json.")
    log_prompts: bool = flag("Show prompts and replies in the log.")


def keys_of(given: Sequence[str], file: Path | None) -> tuple[str, ...]:
    """Read keys from the command line or the environment, and one a line from a file."""
    lines: list[str] = []
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the keys in {file} cannot be read: {error}") from error
        if not lines:
            raise UsageError(f"{file} has no keys; write one a line")
    keys = (*given, *lines)
    if not all(key.isascii() and key.isprintable() and key.strip() == key for key in keys):
        raise UsageError("an API key is of visible ASCII letters")
    return tuple(keys)
