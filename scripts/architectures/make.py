"""Make model files: transformers' folders, llama.cpp's files of them, mlx-lm's folders of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from architectures.kinds import MLX, QUANTISED, WIDE, cell, projector, suits
from architectures.recipes import all_recipes
from localspec_build import folders
from localspec_build.pip import program_of

SCRIPTS = Path(__file__).resolve().parents[1]
QUANTISE = SCRIPTS / "requantising.py"  # run by itself: an assertion of llama.cpp may end it
PACKAGES = ("torch==2.13.0", "transformers>=5.23", "sentencepiece>=0.2", "protobuf>=5")
Worker = subprocess.Popen[str]


@dataclass(frozen=True, slots=True)
class Making:
    """A job: what to make, where, and by which tools."""

    folder: Path
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    width: int
    source: Path  # of llama.cpp
    python: Path  # with torch

    def run(self) -> dict[str, str]:
        """Make all that is missing; return the faults by model and form."""
        for part in ("gguf", "mlx", "hf"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        faults: dict[str, str] = {}
        with maker(self.python) as worker:
            for name in self.names:
                made = dict(self._make(name, worker))
                faults |= made
                print(f"{name:20} {'; '.join(made.values()) or 'made'}", flush=True)
        return faults

    def _make(self, name: str, worker: Worker) -> Iterator[tuple[str, str]]:
        recipe = all_recipes(self.width)[name]
        kinds = [kind for kind in self.kinds if suits(recipe, kind)]
        if fault := self._convert(name, kinds, worker):
            yield name, fault
        for kind in kinds:
            if kind in QUANTISED and (fault := self._quantise(name, kind)):
                yield f"{name} {kind}", fault
        folders = [kind for kind in kinds if kind in MLX and not self._path(name, kind).exists()]
        if folders:
            yield from self._fold(name, folders)

    def _path(self, name: str, kind: str) -> Path:
        return cell(self.folder, name, kind).path

    def _convert(self, name: str, kinds: Sequence[str], worker: Worker) -> str:
        """Let the worker make the folder and the 16-bit files; return the fault, if any."""
        wide = {kind for kind in kinds if kind in WIDE}
        if any(kind in QUANTISED for kind in kinds):
            wide.add("BF16")  # that which others are made of
        files = [self._path(name, kind) for kind in sorted(wide)]
        if wide and all_recipes(self.width)[name].vision:
            files.append(projector(self.folder, name))
        order = {
            "name": name,
            "width": self.width,
            "folder": str(self.folder / "hf" / name),
            "source": str(self.source),
            "files": [str(file) for file in files if not file.exists()],
        }
        return send(worker, order)

    def _quantise(self, name: str, kind: str) -> str:
        source, file = self._path(name, "BF16"), self._path(name, kind)
        if file.exists() or not source.exists():
            return ""
        command = [sys.executable, str(QUANTISE), str(source), str(file), kind]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            file.unlink(missing_ok=True)
        return f"{kind}: {last_line(done.stderr)}" if done.returncode else ""

    def _fold(self, name: str, kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Convert for mlx-lm by its installed version, if that knows the model."""
        source = self.folder / "hf" / name
        for kind in kinds:
            aside = self.folder / "mlx" / f"{name}-{kind}.part"
            shutil.rmtree(aside, ignore_errors=True)
            command = [sys.executable, "-m", "architectures.mlx_folder", str(source), str(aside)]
            done = subprocess.run([*command, kind], cwd=SCRIPTS, capture_output=True, text=True)
            if done.returncode:
                yield f"{name} {kind}", f"{kind}: {last_line(done.stderr)}"
                return
            aside.rename(self._path(name, kind))


@contextmanager
def maker(python: Path) -> Iterator[Worker]:
    """Start a process with torch that makes what it is sent."""
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS), "HF_HUB_OFFLINE": "1"}
    worker = subprocess.Popen(
        [python, "-m", "architectures.making"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    try:
        yield worker
    finally:
        if worker.stdin:
            worker.stdin.close()
        worker.wait()


def send(worker: Worker, order: dict[str, object]) -> str:
    """Send an order; return the fault, if any."""
    if worker.stdin is None or worker.stdout is None or worker.poll() is not None:
        return "the process that makes models has ended"
    print(json.dumps(order), file=worker.stdin, flush=True)
    answer = worker.stdout.readline()
    return str(json.loads(answer)["fault"]) if answer else "the process that makes models ended"


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def torch_python(folder: Path | None = None) -> Path:
    """Get the Python of an environment with torch and transformers, made where it is missing."""
    folder = folder or folders.cache() / "architectures" / "torch"
    python = Path(program_of(folder))
    stamp = folder / "ready"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == repr(PACKAGES):
        return python
    print(f"Installing {', '.join(PACKAGES)} in {folder}.", file=sys.stderr, flush=True)
    venv.create(folder, clear=True, with_pip=True, symlinks=sys.platform != "win32")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    stamp.write_text(repr(PACKAGES), encoding="utf-8")
    return python
