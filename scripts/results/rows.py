"""The rows of docs/results, each checked before it is shown: anybody may have sent it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from localspec.apps.bench.share import FORMAT, digest

Sum = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]
Speed = Annotated[float, Field(gt=0, lt=1e6)]
Text = Annotated[str, Field(max_length=200)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Hardware(Part):
    processor: Text
    system: Text
    memory_bytes: Count
    devices: list[Text]
    workers: Count


class Weights(Part):
    architecture: Text
    quantisation: Text
    parameters: int | None
    bytes: Count
    sha256: list[Sum] = Field(min_length=1)


class Mode(Part):
    times_plain: Speed
    low: float
    high: float
    accepted: float | None
    texts: Count
    texts_of_plain: Count
    texts_sha256: Sum


class Kind(Part):
    prompts: int = Field(ge=1)
    plain_tokens_per_second: Speed
    times_plain: dict[str, Speed]


class Proof(Part):
    proven: bool
    faults: list[str]
    texts: Count
    equal_texts: Count
    sampled_rounds: Count


class SharedRow(Part):
    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    hardware: Hardware
    name: Text | None
    model: Weights
    draft: Weights | None
    options: dict[str, object]
    versions: list[Text]
    sampling: Text
    prompts: int = Field(ge=1)
    plain_tokens_per_second: Speed
    first_token_seconds: Speed | None
    memory_bytes: Count
    modes: dict[str, Mode] = Field(min_length=1)
    kinds: dict[str, Kind]
    texts: dict[str, str] = Field(min_length=1)
    texts_sha256: Sum
    unsteady: float
    load_of_others: float
    copied_bytes_a_second: Count
    prove: Proof


def rows_in(folder: Path) -> Iterator[SharedRow]:
    """Yield all rows of a folder; raise a ValueError for the first that cannot be shown."""
    for file in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                try:
                    yield row_of(line)
                except ValueError as error:
                    raise ValueError(f"line {number} of {file.name}: {error}") from error


def row_of(line: str) -> SharedRow:
    """Read a row; raise a ValueError where its parts contradict each other."""
    try:
        row = SharedRow.model_validate_json(line)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))
        raise ValueError(f"{place or 'the row'}: {fault['msg']}") from error
    if digest(row.texts) != row.texts_sha256:
        raise ValueError(f"its texts do not have the sum {row.texts_sha256[:12]}...")
    for name, mode in row.modes.items():
        if not mode.low <= mode.times_plain <= mode.high:
            raise ValueError(
                f"{name} is {mode.times_plain}, not between {mode.low} and {mode.high}"
            )
        if mode.texts_of_plain > mode.texts:
            raise ValueError(f"{name} has {mode.texts_of_plain} equal texts of {mode.texts}")
        if mode.texts_of_plain == mode.texts and mode.texts_sha256 != row.texts_sha256:
            raise ValueError(f"{name} claims the texts of plain decoding, and has another sum")
    if row.kinds and sum(kind.prompts for kind in row.kinds.values()) != row.prompts:
        raise ValueError(f"its kinds do not have {row.prompts} prompts together")
    if row.prove.equal_texts > row.prove.texts:
        raise ValueError("more texts of its proof are equal than there are")
    return row
