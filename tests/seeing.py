"""Prompts with pictures, and models that see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from localspec.core.requests.settings import Settings
from localspec.interfaces.media import Medium
from localspec.interfaces.media_positions import positions
from localspec.interfaces.testing import Script, ScriptedModel, ScriptedSight, seeing_logits, shown
from tests.runs import LETTERS, Want

CAT, DOG = Medium("image", b"a cat"), Medium("image", b"a dog")
BEGIN, END = 4, 5

Part = Sequence[int] | Medium


def seeing(
    script: Script | None = None,
    lengths: Sequence[int] = (3, 2),
    *,
    whole: bool = False,
    recurrent: bool = False,
    batch: int = 64,
) -> ScriptedModel:
    sight = ScriptedSight(BEGIN, END, lengths, whole=whole)
    model = ScriptedModel(script or seeing_logits(1), LETTERS, recurrent=recurrent, sight=sight)
    model.batch = batch
    return model


def pictured(model: ScriptedModel, *parts: Part, settings: Settings | None = None) -> Want:
    """Ask for a reply to tokens and pictures."""
    tokens, runs = [], []
    for part in parts:
        for piece in model.sight.pieces(part) if isinstance(part, Medium) else [part]:
            if isinstance(piece, np.ndarray | list | tuple):
                tokens += list(map(int, piece))
            else:
                tokens += positions(piece)
                runs.append(piece)
    return Want(tokens, replace(settings or Settings(), media=tuple(runs)))


def seen(model: ScriptedModel, want: Want) -> list[int]:
    """Return a prompt as the script of a model sees it."""
    places = {
        number: shown(run.name, place)
        for run in want.settings.media
        for place, number in enumerate(positions(run))
    }
    return [places.get(token, token) for token in want.prompt]


class Watched:
    """A model that keeps the rows of each forward."""

    def __init__(self, model: ScriptedModel) -> None:
        self.rounds: list[list[list[int]]] = []
        self._model = model

    def __getattr__(self, name: str) -> object:
        return getattr(self._model, name)

    def forward(self, rows):
        self.rounds.append([row.tokens.tolist() for row in rows])
        return self._model.forward(rows)

    @property
    def read(self) -> int:
        """The positions of pictures that it has read."""
        return sum(token < 0 for rows in self.rounds for row in rows for token in row)
