"""`localspec worker` and `--workers`, as two machines would use them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing

import psutil
import pytest

from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import Options, Row
from localspec.interfaces.other_machines import WORKERS
from localspec.running.models.locate import locate
from localspec_llamacpp import backend as llamacpp
from tests import engines
from tests.worker_process import QUIET, ServerProcess, worker

ASK = ["the code is the code", "--raw", "--temperature", "0", "--max-tokens", "24"]
ASK += ["--ignore-end", "--json"]


@pytest.fixture(autouse=True, scope="module")
def _a_cache_of_its_own(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def two():
    with worker("--memory", "1GiB") as one, worker("--memory", "900MiB") as other:
        yield one, other


def localspec(*words: str, workers: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "localspec", *words],
        env=os.environ | QUIET | {WORKERS: workers},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def said(*words: str, **where: str) -> dict:
    output = localspec(*words, **where)
    assert output.returncode == 0, output.stderr
    return json.loads(output.stdout)


def test_a_pair_with_its_layers_on_workers_says_what_it_says_here(two):
    both = f"{two[0].endpoint},{two[1].endpoint}"
    target, draft = str(engines.tiny("llama")), str(engines.tiny("llama", seed=3))
    alone = said("generate", target, *ASK)
    pair = ["generate", target, *ASK, "--draft", draft, "--depth", "3"]
    far = said(*pair, "--proposer", "draft-model", "--split", "2,1", "--workers", both)
    assert far["tokens"] == alone["tokens"]
    assert far["speculation"]["drafted"] > 0


def test_a_plan_puts_layers_on_a_worker_and_a_draft_model_here(two):
    target, draft = str(engines.tiny("llama")), str(engines.tiny("llama", seed=3))
    command = ["plan", target, "--draft", draft, "--context", "1024"]
    addresses = [each.endpoint for each in two]
    output = said(*command, "--json", "--workers", ",".join(addresses))
    weights = {item["pool"] for item in output["items"] if item["what"] == "weights"}
    assert addresses[0] in weights  # the roomier one
    assert addresses[1] not in weights
    [place] = {item["pool"] for item in output["items"] if item["what"] == "draft model"}
    assert place not in addresses
    assert [link["worker"] for link in output["links"]] == addresses
    assert all(0 < link["trip_seconds"] < 0.5 for link in output["links"])
    stdout = localspec(*command, workers=",".join(addresses)).stdout
    assert f"{addresses[0]}, 1.0 GiB" in stdout
    assert re.search(rf"a trip to {addresses[0]} takes [\d.]+ ms, [\d,]+ MB/s\n", stdout)
    assert re.search(rf"a trip to {addresses[1]} takes .*; it is not needed", stdout)


def test_doctor_lists_the_devices_of_workers_and_their_links(two):
    stdout = localspec("doctor", "--workers", two[1].endpoint).stdout
    assert re.search(rf"worker: {two[1].endpoint}, [89]\d\d MiB free of 900 MiB", stdout)
    assert re.search(rf"a trip to {two[1].endpoint} takes [\d.]+ ms", stdout)


def test_a_second_client_is_told_that_the_worker_has_one(two):
    with_server = ServerProcess(two[0].endpoint, "--depth", "0", "--proposer", "none")
    try:
        with_server.ready()
        model = str(engines.tiny("llama"))
        output = localspec("generate", model, *ASK, "--workers", two[0].endpoint)
        assert output.returncode == 1
        assert "serves another client, and one at a time" in output.stderr
        assert "Traceback" not in output.stderr
        stdout = localspec("doctor", "--workers", two[0].endpoint).stdout
        assert "serves another client" in stdout
        assert with_server.complete("the code").status_code == 200
    finally:
        with_server.kill()
    assert said("generate", model, *ASK, "--workers", two[0].endpoint)["tokens"]


def test_a_worker_says_what_it_offers_and_leaves_at_ctrl_c():
    with worker("--memory", "64MiB", "--host", "0.0.0.0") as one:
        lines = "".join(one.told.lines)
        assert "WARNING: whoever reaches this address" in lines
        assert f"ssh -NL {one.endpoint.partition(':')[2]}:127.0.0.1" in lines
        assert re.search(r"worker at 0\.0\.0\.0:\d+", lines)
        one.told.wait_for(r"cpu: .*, 0\.1 GiB free of 0\.1 GiB")
        group = psutil.Process(one.told.process.pid).children(recursive=True)
        one.told.process.send_signal(signal.SIGINT)
        one.told.ended()
        assert not any(each.is_running() for each in group)
        assert "Traceback" not in "".join(one.told.lines)


def test_a_worker_keeps_weights_that_were_sent_once(tmp_path, monkeypatch):
    starter, texts = locate("smollm2-135m").path, []
    with worker("--cache", str(tmp_path / "kept")) as one:
        monkeypatch.setenv(WORKERS, one.endpoint)
        for _ in range(2):
            with closing(llamacpp.load(starter, Options(context=256, threads=1))) as model:
                [logits] = model.forward([Row(0, tokens_of([5, 3, 1, 4]), outputs=1)])
                texts.append(logits.copy())
            kept = sum(file.stat().st_size for file in (tmp_path / "kept").iterdir())
            assert 10 << 20 < kept < 60 << 20  # its large tensors, once
    assert (texts[0] == texts[1]).all()
