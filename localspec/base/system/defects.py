"""The last defect, kept for `localspec doctor --report`: what failed where, without its words.

The message of an error may quote a prompt or a path, so it is not kept.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from localspec.base.errors import BackendError, LocalSpecError
from localspec.base.system import folders, kept_json
from localspec.base.system.fingerprint import installed_versions

MAX_FRAMES = 60  # of a trace, the last ones
MAX_LINKS = 8  # errors that led to one another
# Packages whose modules are named; those of others, as of a plug-in, may be private.
NAMED = frozenset(
    [
        *("localspec", "localspec_build", "localspec_llamacpp", "localspec_mlx", "llama_cpp"),
        *("anyio", "click", "httpx", "huggingface_hub", "jinja2", "llguidance", "mlx"),
        *("mlx_lm", "numpy", "prompt_toolkit", "pydantic", "starlette", "transformers", "uvicorn"),
    ]
)
OTHER = "another module"


def record_path() -> Path:
    return folders.cache() / "last_error.json"


def keep(error: BaseException) -> None:
    """Keep an error that is a defect, or an engine's; a full disk is no reason to fail."""
    if not isinstance(error, LocalSpecError) or isinstance(error, BackendError):
        _keep([line for link in _links(error) for line in _lines(link)])


def keep_death(ending: str) -> None:
    """Keep what ended an engine's process."""
    _keep([ending])


def last() -> dict[str, Any] | None:
    """Read what was kept; None if there is nothing that can be used."""
    return kept_json.load(record_path(), _defect)


def _defect(record: dict[str, Any]) -> dict[str, Any]:
    trace = [str(line) for line in record["trace"]]
    return {"date": str(record["date"]), "version": str(record["version"]), "trace": trace}


def _keep(trace: list[str]) -> None:
    [version] = installed_versions(["localspec"]) or ["localspec"]
    record = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "version": version, "trace": trace}
    if last() != record:  # to write it takes 0.1 s on a busy disk, and clients may ask for it again
        kept_json.keep(record_path(), record)


def _links(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that led to it, the last one first."""
    link: BaseException | None = error
    for _ in range(MAX_LINKS):
        if link is None:
            return
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _lines(error: BaseException) -> Iterator[str]:
    kind = type(error)
    yield kind.__name__ if _is_named(kind.__module__) else f"an error of {OTHER}"
    for frame, line in list(traceback.walk_tb(error.__traceback__))[-MAX_FRAMES:]:
        yield f"  {_where(frame, line)}"


def _where(frame: FrameType, line: int) -> str:
    module = str(frame.f_globals.get("__name__", ""))
    return f"{module}, line {line}, {frame.f_code.co_qualname}" if _is_named(module) else OTHER


def _is_named(module: str) -> bool:
    package = module.partition(".")[0]
    return package in NAMED or package in sys.stdlib_module_names
