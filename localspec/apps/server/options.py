"""The options of `localspec serve`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from localspec.base.errors import UsageError
from localspec.console.options.declare import (
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
from localspec.console.options.reply import budget_message_option, budget_option
from localspec.console.options.size import SIZE
from localspec.core.decoding.prompt_pace import MAX_GAP
from localspec.formats.pictures.limits import MAX_PIXELS
from localspec.interfaces.footprint import VECTOR_POOLINGS

KEY = "LOCALSPEC_API_KEY"
STORED = 1024  # responses
MAX_IMAGES = 100  # pictures of a request
FOR_AGENTS = 16_384  # tokens of context, below which coding agents have too little


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """The addresses and limits of the server."""

    host: str = option(TEXT, "Address to listen at.", default="127.0.0.1")
    port: int = option(
        click.IntRange(0, 65535), "Port to listen at; 0: any free one.", default=8080
    )
    unix: Path | None = option(
        WRITABLE, "Unix socket to listen at instead; only its owner may connect."
    )
    tls_cert: Path | None = option(READABLE, "Certificate for HTTPS, with its chain (PEM).")
    tls_key: Path | None = option(
        READABLE, "Key of the certificate, if it is in a file of its own."
    )
    prefix: str = option(
        TEXT,
        "Path to answer under, too, for a proxy that does not strip it.",
        "/PATH",
        default="",
    )
    slots: int = option(COUNT, "Number of requests that run at once.", default=4)
    max_gap: float = option(
        SECONDS,
        "Seconds that running replies may pause for a new prompt; higher starts new requests "
        "sooner.",
        "SECONDS",
        default=MAX_GAP,
    )
    queue: int = option(
        click.IntRange(0),
        "Number of further requests that may wait; others are refused.",
        default=64,
    )
    time_limit: float = option(
        SECONDS, "Seconds after which a reply is ended.", "SECONDS", default=600.0
    )
    body_limit: int = option(SIZE, "Maximum size of a request's body.", default=32 << 20)
    max_images: int = option(
        click.IntRange(0), "Maximum number of pictures in a request.", default=MAX_IMAGES
    )
    max_image_size: int = option(
        SIZE, "Maximum size of a request's pictures, as files.", default=32 << 20
    )
    max_image_pixels: int = option(
        click.IntRange(1, MAX_PIXELS), "Maximum number of pixels of a picture.", default=MAX_PIXELS
    )
    fetch_images: bool = flag("Pictures fetched from web addresses that clients send.")
    idle: tuple[str, ...] = repeated(
        TEXT,
        "Seconds without use after which a model is unloaded; NAME=SECONDS: this one. May repeat.",
        "SECONDS",
    )
    pin: tuple[str, ...] = repeated(
        TEXT,
        "Model that stays loaded, whatever others need and however long it is unused. May repeat.",
        "NAME",
    )
    api_key: tuple[str, ...] = repeated(
        TEXT,
        f"API key that clients must send. May repeat (env {KEY}).",
        "KEY",
        envvar=KEY,
        secret=True,
    )
    api_key_file: Path | None = option(READABLE, "File of API keys, one per line.")
    insecure: bool = flag("No key required, even where others can reach the address.")
    allow_host: tuple[str, ...] = repeated(
        TEXT, "Host name that requests may be for; *: all. May repeat.", "NAME"
    )
    allow_origin: tuple[str, ...] = repeated(
        TEXT, "Origin whose web pages may send requests; *: all. May repeat.", "URL"
    )
    cache_dir: Path | None = option(
        FOLDER, "Folder for the KV cache of long prompts, kept for the next start."
    )
    cache_size: int = option(SIZE, "Maximum size of that folder.", default=8 << 30)
    cache_ram: int = option(
        SIZE,
        "Memory for KV caches evicted from slots; at most a quarter of free memory.",
        default=8 << 30,
    )
    read_ahead: bool | None = option(
        click.BOOL,
        "Reading of prompts that may come, while nobody waits for an answer.",
        "yes|no",
        otherwise="yes, but not on battery",
    )
    response_store: int = option(
        click.IntRange(0),
        "Number of responses kept for previous_response_id; on disk with --cache-dir.",
        "N",
        default=STORED,
    )
    batch_size: int = option(
        SIZE,
        "Maximum size of a client's files for batches, kept on disk; 0: no batches.",
        default=1 << 30,
    )
    pooling: str | None = option(
        click.Choice(VECTOR_POOLINGS),
        "Have the first model, which continues text, turn texts into vectors, too.",
        otherwise="no",
    )
    reasoning_budget: int | None = budget_option()
    reasoning_budget_message: str | None = budget_message_option()
    manage: bool | None = option(
        click.BOOL,
        "Right of clients to load, unload, download and delete models.",
        "yes|no",
        otherwise="yes where nobody else can reach the server",
    )
    alias: tuple[str, ...] = repeated(
        TEXT,
        "Another name of the model; of several models, NAME=MODEL. May repeat.",
        "NAME",
    )
    strict: bool = flag("Errors for unknown fields and models, and for values out of bounds.")
    open: bool = flag("Open the page of the server in a browser.")
    no_page: bool = flag("No page for browsers at /.")
    log_prompts: bool = flag("Prompts and replies in the log, too.")
    log_file: Path | None = option(
        WRITABLE, "File that the log is appended to; it may be moved away at any time.", "FILE"
    )


def keys_of(options: Sequence[str], file: Path | None) -> tuple[str, ...]:
    """Read keys from the command line or the environment, and one a line from a file."""
    lines: list[str] = []
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the keys in {file} cannot be read: {error}") from error
        if not lines:
            raise UsageError(f"{file} has no keys; write one a line")
    keys = (*options, *lines)
    if not all(keys):  # as of `--api-key "$KEY"`, which clients without a key would match
        raise UsageError("an API key is empty: give one, or omit --api-key")
    if not all(key.isascii() and key.isprintable() and key.strip() == key for key in keys):
        raise UsageError("an API key is of visible ASCII letters")
    return tuple(keys)
