"""The libraries of the server and of the chat; a program that embeds a model needs none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# By extra, what is imported of its packages, and of those that they bring.
LIBRARIES: Mapping[str, Sequence[str]] = {
    "server": ("prometheus_client", "pydantic", "pydantic_core", "starlette", "uvicorn"),
    "chat": ("httpcore", "httpx", "markdown_it", "prompt_toolkit", "pygments", "rich"),
}


def install_command(module: str) -> str:
    """Return the command that installs a missing module of an extra; empty for other modules."""
    library = module.partition(".")[0]
    extras = (extra for extra, libraries in LIBRARIES.items() if library in libraries)
    return next((f'pip install "localspec[{extra}]"' for extra in extras), "")
