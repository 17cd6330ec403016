"""A file is tried in a process of its own, and what came of it is remembered."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from localspec.base.device import Device
from localspec.base.errors import DeviceError, ModelFileError
from localspec.interfaces.backend import Build, Needs, Options
from localspec.running.models import trial, trial_process, trial_record
from localspec.running.models.engines import EngineHere
from localspec.running.models.locate import ModelFiles, locate
from localspec.running.models.trial_child import Trial
from localspec.running.models.trial_process import WAITS, TrialProcess, last_words
from localspec.running.models.trial_speed import WRITTEN
from tests import engines, tiny_vision
from tests.backends import gguf_copies
from tests.tiny import WIDTH

ROOM = 1 << 34
OPTIONS = Options(context=4096, threads=1)


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def place(seed: int = 0) -> ModelFiles:
    return ModelFiles(engines.GGUF_ENGINE, engines.tiny("llama", seed=seed))


def passes(found: ModelFiles, code: str = "", options: Options = OPTIONS, room: int = ROOM) -> None:
    """Try a file in a real process, or in one that does something else."""
    with trial.examine(found, process(code)) as looked:
        looked.check_runs(options, room)


def process(code: str):
    command = (sys.executable, "-c", code)
    return partial(TrialProcess, command=command) if code else TrialProcess


AGAIN = "raise SystemExit('it was tried again')"


def test_what_runs_passes_and_is_not_tried_again():
    passes(place())
    passes(place(), AGAIN)
    for code in ("", AGAIN):
        with trial.examine(place(), process(code)) as looked:
            assert looked.footprint().attention_layers == 3
    with pytest.raises(ModelFileError, match="tried again"):
        passes(place(seed=5), AGAIN)  # another file


def test_another_way_to_load_is_tried_by_itself():
    passes(place())
    with pytest.raises(ModelFileError, match="tried again"):
        passes(place(), AGAIN, Options(context=4096, threads=1, kv_type="q8_0"))
    passes(place(), AGAIN, Options(context=512, slots=4, threads=2))  # as large as one likes
    passes(place(), AGAIN, Options(context=512, batch=64, shared=True))


class Unwatched(TrialProcess):
    """Answers at once, and notes how long it could have taken."""

    def _watch(self, answered, most):
        self.most = most


@pytest.mark.parametrize(("driven", "seconds"), [(False, 20), (True, 120)])
def test_a_driver_that_compiles_its_kernels_first_has_more_time(driven, seconds):
    code = "input(); print('{\"answer\": null}', flush=True); input()"
    asked = Unwatched(place(), (sys.executable, "-c", code))
    asked.run(OPTIONS, driven=driven)
    assert int(asked.most) == seconds
    asked.close()


def test_a_model_that_sees_has_time_for_a_picture():
    code = "input(); print('{\"answer\": null}', flush=True); input()"
    asked = Unwatched(place(), (sys.executable, "-c", code))
    asked.run(replace(OPTIONS, projector=place().path))
    assert int(asked.most) == 320
    asked.close()


WORK = """
import json, time
input()
for _ in range(3):
    began = time.process_time()
    while time.process_time() < began + 0.8:
        pass
    if {tells}:
        print(json.dumps({{}}), flush=True)
print(json.dumps({{"answer": None}}), flush=True)
"""


@pytest.mark.parametrize("tells", [True, False])
def test_a_driver_that_gets_on_has_its_time_anew_and_its_user_is_told(tells, monkeypatch, caplog):
    monkeypatch.setattr(trial_process, "KERNEL_SECONDS", 0.4)
    monkeypatch.setattr(trial_process, "NOTICE_SECONDS", 0.05)
    command = (sys.executable, "-c", WORK.format(tells=tells))
    asked = TrialProcess(place(), command, seconds=1.0)
    with nullcontext() if tells else pytest.raises(ModelFileError, match="seconds of work"):
        asked.run(OPTIONS, driven=True)
    asked.close()
    assert [each.message for each in caplog.records] == [WAITS % place().path.name]


def test_each_forward_of_a_trial_is_a_step():
    steps = []
    model = Trial(engines.GGUF_ENGINE, place().path)
    model.run(OPTIONS, lambda: steps.append(1))
    model.close()
    assert len(steps) == 5


def test_an_engine_that_dies_takes_nobody_along_and_is_not_asked_again():
    with trial.examine(place()) as looked:  # laid out, so that the trial is what dies
        looked.footprint()
        looked.needs(Options(context=128, slots=2, tentative=8, mmap=True))
    deadly = "import os, sys; print('ggml.c: GGML_ASSERT(x)', file=sys.stderr); os.abort()"
    for code in (deadly, "pass"):
        with pytest.raises(
            ModelFileError, match=r"ends its engine \(SIGABRT\): ggml.c: GGML_ASSERT"
        ):
            passes(place(), code)


class Dying:
    """A process whose engine dies when it is to run."""

    def __init__(self, files):
        pass

    def needs(self, options):
        return Needs(0, 0, 0)

    def run(self, options, *, driven=False):
        raise ModelFileError("it ends its engine (SIGABRT): no answer")

    def close(self):
        pass


@pytest.mark.parametrize("lost", [False, True])
def test_a_worker_that_dies_of_parts_of_layers_comes_with_the_option_to_leave_out(
    lost, monkeypatch
):
    def probe():
        if lost:
            raise DeviceError("the worker box:1 does not answer")
        return []

    monkeypatch.setattr(engines.GGUF_ENGINE.backend(), "probe", probe)
    for worker, mode in (("box:1", "tensor"), ("box:1", "layer"), ("", "tensor")):
        card = Device(f"a card {worker}", "gpu", ROOM, ROOM, worker=worker)
        engine = EngineHere(engines.GGUF_ENGINE, Build("1", ()), [card, card])
        with (
            trial.examine(place(), Dying, engine) as looked,
            pytest.raises(DeviceError if lost else ModelFileError) as caught,
        ):
            looked.check_runs(replace(OPTIONS, split_mode=mode, split=(1.0, 1.0)), ROOM)
        advice = "leave out --split-mode tensor" if worker and mode == "tensor" else ""
        assert str(caught.value).partition("layers only: ")[2] == advice


def test_what_its_engine_refuses_is_told(tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(400))
    with pytest.raises(ModelFileError, match=r"broken\.gguf is big endian"):
        passes(ModelFiles(engines.GGUF_ENGINE, broken))


def test_a_projector_is_tried_with_its_model(tmp_path):
    model, projector = tiny_vision.write_sighted(tmp_path, "llama")
    passes(ModelFiles(engines.GGUF_ENGINE, model), options=replace(OPTIONS, projector=projector))


def test_a_projector_that_ends_its_engine_is_named(tmp_path):
    model, projector = tiny_vision.write_sighted(tmp_path, "llama")
    crooked = {"v.blk.0.attn_q.weight": gguf_copies.numbers(32, 24)}
    broken = gguf_copies.copied(projector, tmp_path / "mmproj-broken.gguf", tensors=crooked)
    fault = r"llama\.gguf with mmproj-broken\.gguf cannot be used: it ends its engine \(SIGABRT\)"
    with pytest.raises(ModelFileError, match=fault):
        passes(ModelFiles(engines.GGUF_ENGINE, model), options=replace(OPTIONS, projector=broken))


def test_a_projector_that_computes_no_numbers_is_refused(tmp_path):
    model, projector = tiny_vision.write_sighted(tmp_path, "llama")
    none = {"mm.model.mlp.3.bias": np.full(WIDTH, np.nan, np.float32)}
    broken = gguf_copies.copied(projector, tmp_path / "mmproj-broken.gguf", tensors=none)
    with pytest.raises(ModelFileError, match="numbers that are none"):
        passes(ModelFiles(engines.GGUF_ENGINE, model), options=replace(OPTIONS, projector=broken))


def test_where_there_is_no_room_nothing_is_decided():
    passes(place(), room=1000)
    with pytest.raises(ModelFileError):
        passes(place(), "import os; os.abort()")


def test_a_record_that_makes_no_sense_is_made_anew():
    passes(place())
    [record] = trial_record.folder().glob("*.json")
    for content in ("", "[]", '{"footprint": 1, "needs": {"x": 2}, "verdicts": []}', "\0"):
        record.write_text(content, encoding="utf-8")
        passes(place())
    with trial.examine(place()) as looked:
        assert looked.footprint().layers == 3


def test_an_engine_is_quoted_by_its_assertion_else_by_its_last_line():
    log = "loading\n/tmp/build/ggml.c:12: GGML_ASSERT(a > 0) failed\nsome frame\n"
    assert last_words(log) == "ggml.c:12: GGML_ASSERT(a > 0) failed"
    assert last_words("one\n\ntwo \n") == "two"
    assert last_words("") == "no reason was given"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no MLX for it")
def test_a_folder_is_tried_too():
    files = ModelFiles(engines.MLX_ENGINE, engines.tiny_folder("llama"))
    passes(files, options=Options(context=512))
    assert len(list(trial_record.folder().glob("*.json"))) == 1


def test_a_model_is_timed_in_a_process_that_ends_with_it():
    files = locate(str(engines.tiny("llama")))
    with trial.examine(files, TrialProcess) as examined:
        speeds = examined.measure(Options(context=256, threads=1, micro_batch=8), 0.05, 60.0)
        assert min(speeds.plain, speeds.reading, speeds.wide) > 0
        assert len(speeds.text) == WRITTEN + 1
        assert 0 <= speeds.rivals <= 1
        with pytest.raises(ModelFileError, match="did not answer in 0 seconds"):
            examined.measure(Options(context=256, threads=1), 60.0, 0.01)
