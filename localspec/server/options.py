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

    host: str = option(TEXT, "Listen at this address.", default="127.0.0.1")
    port: int = option(
        click.IntRange(0, 65535), "Listen at this port; 0 is any free one.", default=8080
    )
    unix: Path | None = option(
        WRITABLE, "Listen at this unix socket in place of an address. Only its owner may connect."
    )
    tls_cert: Path | None = option(
        READABLE, "Answer by HTTPS with this certificate and its chain (PEM)."
    )
    tls_key: Path | None = option(
        READABLE, "Key of the certificate, if it is in a file of its own."
    )
    prefix: str = option(
        TEXT,
        "Answer under this path, too, for a proxy that does not strip it.",
        "/PATH",
        default="",
    )
    slots: int = option(COUNT, "Answer N requests at once.", default=4)
    max_gap: float = option(
        SECONDS,
        "Let running replies pause for so long while a new prompt is read. With more, new "
        "requests begin sooner.",
        "SECONDS",
        default=MAX_GAP,
    )
    queue: int = option(
        click.IntRange(0), "Let N more requests wait for a slot, and refuse others.", default=64
    )
    time_limit: float = option(SECONDS, "End a reply after so long.", "SECONDS", default=600.0)
    body_limit: int = option(Bytes(), "Refuse requests with a larger body.", default=32 << 20)
    idle: float | None = option(SECONDS, "Unload a model that was not used for so long.", "SECONDS")
    api_key: tuple[str, ...] = repeated(
        TEXT,
        f"Require this key from clients. May repeat. {KEY} sets it, too.",
        "KEY",
        envvar=KEY,
        secret=True,
    )
    api_key_file: Path | None = option(
        READABLE, "Require a key of this file, which has one per line."
    )
    insecure: bool = flag("Require no key, also where others can reach the address.")
    allow_host: tuple[str, ...] = repeated(
        TEXT, "Accept requests to this host name; * accepts all. May repeat.", "NAME"
    )
    allow_origin: tuple[str, ...] = repeated(
        TEXT, "Accept requests by web pages of this origin; * accepts all. May repeat.", "URL"
    )
    cache_dir: Path | None = option(
        FOLDER, "Keep the KV cache of long prompts in this folder, for the next start."
    )
    cache_size: int = option(Bytes(), "Size of that folder at most.", default=8 << 30)
    cache_ram: int = option(
        Bytes(),
        "Memory for the KV cache of texts that lost their slot; at most a quarter of what is free.",
        default=8 << 30,
    )
    response_store: int = option(
        click.IntRange(0),
        "Keep N responses for previous_response_id; on disk with --cache-dir.",
        "N",
        default=STORED,
    )
    manage: bool | None = option(
        click.BOOL,
        "Let clients load, unload, download and delete models. Without it, they may where nobody "
        "else can reach the server.",
        "yes|no",
    )
    alias: tuple[str, ...] = repeated(
        TEXT,
        "Serve the model under this name, too; of several, write NAME=MODEL. May repeat.",
        "NAME",
    )
    strict: bool = flag("Refuse unknown fields and models, and values out of bounds.")
    docs: bool = flag("Describe the API at /docs and /openapi.json.")
    log_prompts: bool = flag("Write prompts and replies into the log.")
    log_file: Path | None = option(
        WRITABLE, "Append the log to a file, which may be moved away at any time.", "FILE"
    )


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
