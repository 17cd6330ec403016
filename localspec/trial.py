"""Try a model file in a process of its own: what kills an engine must not kill the program.

The verdict on a file is remembered, for the versions that it was tried with.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import platformdirs

from localspec.backend import Options, Row
from localspec.backends import backend
from localspec.entry import Engine
from localspec.errors import LocalSpecError, ModelFileError, OutOfMemory
from localspec.fingerprint import fingerprint, versions
from localspec.locating import Found

COMMAND = (sys.executable, "-c", "import sys, localspec.trial as t; sys.exit(t.main())")
TOKENS = 4
SMALL = Options(context=64, batch=32)
NO_ROOM = 3  # how the process ends where memory is what it lacks
SECONDS = 900.0  # for a model of 100 GB on a slow disk


def passed(place: Found, room: int) -> None:
    """Refuse a file with which its engine dies or cannot decode, if there is room to try it."""
    record = _folder() / f"{fingerprint([place.path], [place.engine, *versions()])}.json"
    verdict = _remembered(record)
    if verdict is None:
        verdict = tried(place, room)
        if verdict is None:
            return
        with suppress(OSError):
            record.parent.mkdir(parents=True, exist_ok=True)
            record.write_text(json.dumps({"verdict": verdict}), encoding="utf-8")
    if verdict:
        raise ModelFileError(f"{place.path.name} cannot be used: {verdict}")


def tried(place: Found, room: int) -> str | None:
    """What is wrong with a file; nothing if all is well, None where there was no room to tell."""
    command = [*COMMAND, place.engine, str(place.path), str(room)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"its engine did not decode {TOKENS} tokens in {SECONDS:.0f} seconds"
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return f"it kills its engine ({name}): {_last(done.stderr)}"
    if done.returncode == NO_ROOM:
        return None
    if done.returncode:
        return _last(done.stderr)
    return ""


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason was given"


def _folder() -> Path:
    return platformdirs.user_cache_path("localspec", appauthor=False) / "trials"


def _remembered(record: Path) -> str | None:
    try:
        verdict = json.loads(record.read_text(encoding="utf-8"))["verdict"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return verdict if isinstance(verdict, str) else None


def decode(engine: Engine, path: Path, room: int) -> None:
    """Load a model and decode a few tokens, the most likely ones."""
    with backend(engine).rehearse(path) as rehearsal:
        if rehearsal(SMALL).total > room:
            raise OutOfMemory(f"{path.name} needs more than {room:,} bytes")
    model = backend(engine).load(path, SMALL)
    try:
        token = 0 if model.tokenizer.bos is None else model.tokenizer.bos
        for _ in range(TOKENS):
            [logits] = model.forward([Row(0, np.array([token], np.int32))])
            if not np.isfinite(logits).all():
                raise ModelFileError("it computes numbers that are none: its weights are broken")
            token = int(logits[0].argmax())
    finally:
        model.close()


def main() -> int:
    engine, path, room = sys.argv[1:]
    try:
        decode("mlx" if engine == "mlx" else "llamacpp", Path(path), int(room))
    except OutOfMemory:
        return NO_ROOM
    except LocalSpecError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
