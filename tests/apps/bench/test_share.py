"""The row for a public table: what is in it, and what never is."""

from __future__ import annotations

import getpass
import json
import platform
import shutil
from hashlib import sha256

import pytest

from localspec.apps.bench import share
from localspec.apps.command_line import run
from localspec.interfaces.backend import Build, Device
from localspec.running.models.engines import EngineHere
from tests import engines

PROOF = {
    "proven": True,
    "faults": [],
    "greedy": {"texts": 9, "equal": 9, "drafts": {}, "differences": []},
    "sampled": {"rounds": 300, "temperature": 1.0},
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A file of rows, to which one of a model was added whose path tells whose it is."""
    folder = tmp_path_factory.mktemp("home of alice")
    model, prompts, rows = (folder / name for name in ("alices secret.gguf", "asked", "rows"))
    shutil.copy(engines.tiny("llama"), model)
    rows.write_text("{}\n")
    lines = [{"category": "chat", "prompt": f"the {word} is"} for word in ("code", "return", "is")]
    prompts.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    options = ["--threads=1", "--context=512", "--max-tokens=8", "--seconds=2"]
    files = ["--prompts", str(prompts), "--share", str(rows)]
    assert run(["bench", str(model), "--modes=ngram:2", *options, *files]) == 0
    return model, rows.read_text(encoding="utf-8")


def test_a_row_tells_the_hardware_the_weights_the_versions_and_the_figures(shared):
    model, text = shared
    row = json.loads(text.splitlines()[-1])
    assert text.startswith("{}\n")
    assert row["model"]["sha256"] == [sha256(model.read_bytes()).hexdigest()]
    assert row["hardware"]["system"] == f"{platform.system()} {platform.machine()}"
    assert any(line.startswith("localspec ") for line in row["versions"])
    assert row["plain_tokens_per_second"] > 0
    assert row["modes"]["ngram:2"]["texts"] == row["modes"]["ngram:2"]["texts_of_plain"] == 3
    assert row["options"]["threads"] == 1
    assert row["prove"]["texts"] > 0
    assert row["draft"] is row["name"] is None
    assert row["first_token_seconds"] > 0
    assert row["memory_bytes"] > row["model"]["bytes"]
    assert row["modes"]["ngram:2"]["texts_sha256"] == row["texts_sha256"]
    assert row["texts"] is None  # they answer prompts of somebody's own
    assert row["kinds"] == {}


def test_a_row_has_no_path_user_or_host_and_no_name_of_a_file(shared):
    model, text = shared
    private = {"alice", "secret", str(model.parent), platform.node(), f'"{getpass.getuser()}"'}
    assert [word for word in private if word in text] == []


def test_a_device_of_another_machine_is_counted_and_not_named():
    gpu = Device("Some GPU", "gpu", 1, 1)
    far = Device("RPC0[10.0.0.7:50052]", "gpu", 1, 1, worker="10.0.0.7:50052")
    engine = EngineHere(engines.GGUF_ENGINE, Build("1", ()), [Device("CPU", "cpu", 1, 1), gpu, far])
    shown = share.hardware(engine)
    assert (shown["devices"], shown["workers"]) == (["Some GPU"], 1)


def test_the_verdict_of_a_proof_is_taken_over_and_none_where_there_is_none():
    commands = []

    def prints(text):
        return lambda arguments: commands.append(arguments) or text.encode()

    assert share.prove(["model", "--threads", "1"], prints(json.dumps(PROOF))) == {
        "proven": True,
        "faults": [],
        "texts": 9,
        "equal_texts": 9,
        "sampled_rounds": 300,
    }
    assert commands == [["prove", "model", "--threads", "1", "--json"]]
    for broken in ("", "{}", "[]", '{"greedy": 1, "proven": true, "faults": []}', "killed"):
        assert share.prove([], prints(broken)) is None
