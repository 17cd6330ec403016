"""An MLX model behind the core's seam: slots, ragged batches, and work begun ahead."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module
from numpy.typing import NDArray

from localspec.base.errors import BackendError, LocalSpecError
from localspec.base.tokenizer import Tokenizer
from localspec.base.tokens import LogitRows
from localspec.interfaces.abilities import usual_scales
from localspec.interfaces.adapter import Scales
from localspec.interfaces.backend import Head, Options, Roll, Row, Saved
from localspec.interfaces.draft import Draft
from localspec.interfaces.forward_loop import RolledRow, check, roll_by_forward
from localspec.interfaces.media import Sight
from localspec.interfaces.mixed_rows import forward_in_parts, is_mixed
from localspec_mlx.adapters import AdapterLayers
from localspec_mlx.array_form import pack, unpack
from localspec_mlx.blueprint import Blueprint
from localspec_mlx.chain import extend
from localspec_mlx.devices import failure, tidy
from localspec_mlx.folder.tokenizer import FolderTokenizer
from localspec_mlx.heads.head import MlxHead
from localspec_mlx.heads.reader import LoadedHead
from localspec_mlx.host import Host
from localspec_mlx.outputs import Outputs, outputs_of
from localspec_mlx.predict import Choice, predict
from localspec_mlx.runner import Runner, lead
from localspec_mlx.whole_pictures import WholePictures

if TYPE_CHECKING:
    from localspec_mlx.sight import MlxSight


@dataclass(frozen=True, slots=True)
class Ahead:
    """A run that was begun before the core asked for it."""

    slots: tuple[int, ...]
    tokens: mx.array
    logits: mx.array
    states: Mapping[int, mx.array]  # that a head reads


class SharedModel(NamedTuple):
    """A model as mlx-lm defines it, for two that run it in turns."""

    module: Module
    tokenizer: FolderTokenizer
    turn: RLock


class MlxModel:
    def __init__(
        self,
        blueprint: Blueprint,
        tokenizer: FolderTokenizer,
        options: Options,
        head: LoadedHead | None = None,
        adapter_layers: AdapterLayers | None = None,
    ) -> None:
        assert options.context is not None
        self.tokenizer: Tokenizer = tokenizer
        self._turn = RLock()  # a picture is read within a forward
        self.shared: SharedModel | None = SharedModel(blueprint.model, tokenizer, self._turn)
        self.vocabulary = tokenizer.size
        self.slots, self.context = options.slots, options.context
        self.pool = options.slots * options.context
        self.batch, self.tentative = options.batch, options.tentative
        self.host = Host()
        self._stream = mx.new_thread_local_stream(mx.default_device())
        runner = Runner(blueprint, options.slots, tokenizer.size, head.tap if head else None)
        self._runner: Runner | None = runner
        self._head: MlxHead | None = None
        if head:
            self._head = MlxHead(head, options, runner.slots, self.host, self._stream)
        self.head: Head | None = self._head
        self.sight: Sight | None = None
        self._sight: MlxSight | None = None
        self._pictures = WholePictures()
        self._ahead: Ahead | None = None
        self._verbose, self._kv_type = options.verbose, options.kv_type
        self.notices: list[str] = []
        self._adapter_layers = adapter_layers
        self.adapters = options.adapters
        self._scales: Scales | None = None
        self.adapt(usual_scales(options.adapters))

    def see_by(self, sight: MlxSight) -> None:
        """Take pictures in from now on."""
        self.sight = self._sight = sight

    def adapt(self, scales: Scales) -> None:
        if scales == self._scales:
            return
        with self._device([]) as runner:
            self._undo_ahead(runner)
            if self._adapter_layers:
                self._adapter_layers.adapt(scales)
        self._scales = scales

    def forward(self, rows: Sequence[Row]) -> list[LogitRows]:
        at = tuple(row.slot for row in rows)
        with self._device(at) as runner:
            lengths = [self._length(runner, slot) for slot in at]
            check(self, rows, lengths)
            if self._sight and any(map(is_mixed, rows)):
                return forward_in_parts(rows, self.batch, self.forward, self._look)
            outputs = self._run(runner, rows, lengths)
            self._go_ahead(runner, rows, outputs.joined)
            logits = outputs.read(self.host)
            if not any(row.outputs for row in rows):  # which nothing else would wait for
                self._finish(runner, at)
            if outputs.long or any(map(lead, rows)):
                mx.clear_cache()
        return logits

    def _look(self, row: Row) -> LogitRows:
        """Read a picture, or as much of it as the row has."""
        assert self._sight
        with self._device([row.slot]) as runner:
            self._undo_ahead(runner)
            run, embeddings = self._sight.embeddings(row.tokens)
            start = runner.slots.length(row.slot)
            logits = runner.read_picture(row, embeddings, run.both_ways)
            if run.whole:
                self._pictures.append(row.slot, start, start + len(embeddings))
            outputs = outputs_of([row], [logits], self.host, self._stream)
            if self._head:
                self._head.note([row], [start], runner.states())
            self._finish(runner, [row.slot])
            mx.clear_cache()
            return outputs.read(self.host)[0]

    def _finish(self, runner: Runner, slots: Sequence[int]) -> None:
        """Wait for a piece of a prompt: its time is its own, and its buffers can be given back."""
        head = self._head.arrays(slots) if self._head else ()
        self.host.finish(runner.slots.arrays(slots), head)

    def _run(self, runner: Runner, rows: Sequence[Row], lengths: Sequence[int]) -> Outputs:
        """Begin to compute the logits of rows, unless that was begun ahead."""
        at = [row.slot for row in rows]
        ahead = self._take_ahead(runner, rows)
        if ahead:
            outputs = Outputs(rows, ahead.logits, {})
        else:
            outputs = outputs_of(rows, runner.run_rows(rows), self.host, self._stream)
        if self._head:
            self._head.note(rows, lengths, ahead.states if ahead else runner.states())
            self.host.start(outputs.arrays(), runner.slots.arrays(at), self._head.arrays(at))
            self._head.go_ahead(rows, outputs.by_row())
        elif not ahead:
            self.host.start(outputs.arrays(), runner.slots.arrays(at))
        return outputs

    def _take_ahead(self, runner: Runner, rows: Sequence[Row]) -> Ahead | None:
        """Return the run of rows, if it was begun ahead; anything else undoes it."""
        ahead = self._ahead
        if ahead and ahead.slots == tuple(row.slot for row in rows):
            alone = all(len(row.tokens) == row.outputs == 1 and not row.tentative for row in rows)
            alone = alone and not any(map(runner.slots.overwritten, ahead.slots))
            if alone and self.host.read(ahead.tokens).tolist() == [row.tokens[0] for row in rows]:
                self._ahead = None
                return ahead
        self._undo_ahead(runner)
        return None

    def _go_ahead(self, runner: Runner, rows: Sequence[Row], logits: mx.array) -> None:
        """Begin on the tokens the core is about to choose, so that the device need not wait."""
        hints = [row.next for row in rows if row.next]
        at = tuple(row.slot for row in rows)
        if len(hints) < len(rows):
            return
        runner.slots.mark(at)
        tokens = predict(logits, [Choice(hint.sampler, hint.position) for hint in hints])
        following = runner.step(at, tokens)
        self.host.start([tokens, following], runner.slots.arrays(at))
        self._ahead = Ahead(at, tokens, following, runner.states())

    def _undo_ahead(self, runner: Runner) -> None:
        if self._ahead:
            for slot in self._ahead.slots:
                runner.slots.truncate(slot, runner.slots.length(slot) - 1)
            self._ahead = None

    def _length(self, runner: Runner, slot: int) -> int:
        """Count the tokens of a slot, without one that was fed ahead."""
        ahead = self._ahead is not None and slot in self._ahead.slots
        return runner.slots.length(slot) - ahead

    def truncate(self, slot: int, length: int) -> int:
        with self._device([slot]) as runner:
            held = self._length(runner, slot)
            if length >= held:
                return held
            self._undo_ahead(runner)
            enough = self._pictures.edge(slot, self._enough(slot, length))
            kept = runner.slots.truncate(slot, enough)
            self._pictures.cut(slot, kept)
            if self._head:
                self._head.truncate(slot, length if kept else 0)
            return kept

    def _enough(self, slot: int, length: int) -> int:
        """Choose how many of `length` tokens to keep: a head may need the last one read again."""
        return self._head.enough(slot, length) if self._head and length > 0 else length

    def copy(self, source: int, target: int, length: int) -> int:
        with self._device([target]) as runner:
            self._undo_ahead(runner)
            enough = self._pictures.edge(source, self._enough(source, length))
            copied = runner.slots.copy(source, target, enough)
            self._pictures.copy(source, target, copied)
            if self._head:
                self._head.copy(source, target)
                self._head.truncate(target, length if copied else 0)
            return copied

    def save(self, slot: int, most: int) -> Saved | None:
        try:
            with self._device([]) as runner:
                self._undo_ahead(runner)
                length = runner.slots.length(slot)
                layers = runner.slots.content(slot, length)
                if layers is None:
                    return None
                head = self._head.content(slot) if self._head else []
                layers = [self._pictures.content(slot), *layers, *head]
                data = pack(self._mark(runner, length), layers, most, self.host)
                whole = runner.slots.serves_as_a_whole(slot)
        except BackendError:  # it was closed, or there is no memory for a copy
            return None
        return None if data is None else Saved(data, whole)

    def restore(self, slot: int, data: NDArray[np.uint8], length: int) -> int:
        self.truncate(slot, 0)
        try:
            with self._device([slot]) as runner:
                self._undo_ahead(runner)
                pictures, *layers = unpack(data, self._mark(runner, length))
                self._pictures.fill(slot, pictures)
                runner.slots.fill(slot, layers[: runner.slots.layers], length)
                if self._head:
                    self._head.fill(slot, layers[runner.slots.layers :])
                self.host.finish(runner.slots.arrays([slot]))
        except BackendError:
            return 0
        mx.clear_cache()
        return length

    def _mark(self, runner: Runner, length: int) -> list[str | int]:
        """Return what has to be the same where a text is saved and where it is restored."""
        return [runner.slots.signature, self._kv_type, "pictures", length]

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        if self._head or not all(roll.sampler.is_foreseen for roll in rolls):
            return roll_by_forward(self, rolls)
        paths = [RolledRow(roll) for roll in rolls]
        at = [roll.row.slot for roll in rolls]
        with self._device(at) as runner:
            self._undo_ahead(runner)
            check(self, [roll.row for roll in rolls], [runner.slots.length(slot) for slot in at])
            while live := [path for path in paths if path.wants]:
                extend(runner, self.host, live)
        return [path.draft() for path in paths]

    @contextmanager
    def _device(self, slots: Sequence[int]) -> Iterator[Runner]:
        """Run on a stream of our own; after a failure the slots hold nothing."""
        if self._runner is None:
            raise BackendError("this model was closed; load it again")
        tidy()
        try:
            with self._turn, mx.stream(self._stream):
                yield self._runner
        except LocalSpecError:
            raise
        except Exception as error:
            self._ahead = None
            for slot in slots:
                self._runner.slots.clear(slot)
                self._pictures.cut(slot, 0)
                if self._head:
                    self._head.truncate(slot, 0)
            raise failure("MLX could not run the model", error) from error

    def take_notices(self) -> list[str]:
        """Return what its user is to know, once."""
        notices, self.notices = self.notices, []
        return notices

    def free_head(self) -> None:
        self._head = self.head = None
        if self._runner:
            self._runner.tell_no_states()
        mx.clear_cache()

    def close(self) -> None:
        if self._verbose and self._runner:
            print(f"mlx: {mx.get_peak_memory() / 2**20:,.0f} MiB at most", file=sys.stderr)
        self._runner = self._ahead = self._head = self.shared = None
        mx.clear_cache()
