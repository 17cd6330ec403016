"""Pack small files and llama-server's answers, for the tests."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from architectures.checking import llama_server, records
from architectures.checking.answers import ModelAnswer
from architectures.checking.trial import run_module
from architectures.kinds import Cell
from benchmarks.serving.process import Unable
from localspec_build.target import PACKAGE

KEPT, MOST = 3, 12  # texts of each model, and tokens of each
Continued = list[tuple[str, list[int]]]  # texts, and the tokens after them
TEXTS = (
    *("The", "The lazy dog", "A few tokens ahead", "def", "Hello there", "how are you today?"),
    *("if i % 2 == 0", "the model checks them at once", "1 2 3 4 5", "main(x):", "é"),
    "jumps over the lazy dog. " * 14,  # longer than windows
)


@dataclass(frozen=True, slots=True)
class Keeping:
    """Packs files into a folder."""

    folder: Path
    server: Path  # llama.cpp's

    def keep(self, cells: list[Cell]) -> list[str]:
        """Pack files with answers that do not depend on rounding; return those without any."""
        self.folder.mkdir(parents=True, exist_ok=True)
        continued: dict[str, Continued] = {}
        for cell in cells:
            if problem := self._sure(cell):
                continued[cell.name] = problem
            print(f"{cell.name}: {sum(len(tokens) for _, tokens in problem)} tokens", flush=True)
        kept = [cell for cell in cells if cell.name in continued]
        (self.folder / "expected.json").write_text(as_json(continued), encoding="utf-8")
        with tarfile.open(self.folder / "models.tar.xz", "w:xz", preset=9) as archive:
            for cell in sorted(kept, key=lambda cell: cell.name):
                archive.add(cell.path, f"{cell.name}.gguf", filter=anonymous)
        return [cell.name for cell in cells if cell.name not in continued]

    def _sure(self, cell: Cell) -> Continued:
        results = cell.origin.parent.parent / "results"
        key, name = records.key_of_engine(cell.path), f"{cell.name}-{cell.kind}-sure"
        problem = records.compute_once(
            results, name, key, lambda: sure_answers(self.server, cell.path)
        )
        return [(text, tokens) for text, tokens in problem] if isinstance(problem, list) else []


def sure_answers(server: Path, file: Path) -> Continued:
    """List texts and llama-server's continuations, as far as they do not depend on rounding."""
    try:
        answers = [ModelAnswer.of(answer) for answer in llama_server.answers(server, file, TEXTS)]
    except Unable:
        return []
    asked = json.dumps(
        [{"prompt": answer.prompt, "said": answer.tokens[:MOST]} for answer in answers]
    )
    lengths = run_module(["architectures.checking.logits", str(file), "sure"], {}, asked)
    if not isinstance(lengths, list):
        return []
    long = sorted(zip(lengths, answers, strict=True), key=lambda answer: -answer[0])[:KEPT]
    return [(answer.text, list(answer.tokens[:length])) for length, answer in long if length]


def as_json(continued: Mapping[str, Continued]) -> str:
    """Write JSON, a line a model."""
    rows = [
        f"  {json.dumps(name)}: {json.dumps(continued[name], ensure_ascii=False)}"
        for name in continued
    ]
    engine = f"llama-server of {PACKAGE} {version(PACKAGE)}"
    body = ",\n".join(rows)
    return f'{{\n "engine": {json.dumps(engine)},\n "says": {{\n{body}\n }}\n}}\n'


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove what differs between machines and days."""
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
