"""The report for an issue: it has the facts, and nothing of whose machine it is."""

from __future__ import annotations

import json
import socket
from dataclasses import asdict
from pathlib import Path

import pytest

from localspec.apps.chat.hearing import hear
from localspec.apps.command_line import run
from localspec.apps.commands import doctor
from localspec.apps.commands.private_texts import PrivateTexts
from localspec.apps.commands.report import UNNAMED
from localspec.apps.server.faults import overloaded
from localspec.apps.server.replies.streaming import logged_fault
from localspec.base.errors import BackendError, UsageError
from localspec.base.system import defects, kept_json
from localspec.base.system.atomic_write import write
from localspec.interfaces.footprint import Footprint
from localspec.running.models import store, trial_record
from localspec.running.models.stored_pair import PulledPair, StoredModel
from localspec.running.runtime import kept_calibrations, pair_history
from localspec.running.runtime.calibration import Calibration
from localspec.running.runtime.pair_history import Era, History
from localspec.running.runtime.pair_speed import PairSpeed

USER, KEY, TOKEN = "ottilie-brandt", "sk-verysecret-0123456789", "hf_OtherSecret"
PROMPT, FILE, NAME = "the merger with Umbra is on Friday", "umbra merger.gguf", "Umbra Internal 7B"
HOST, ADDRESS = "secretbox.example.com", "10.20.30.40"
PRIVATE = (USER, KEY, TOKEN, PROMPT, "merger", "umbra", "secretbox", ADDRESS)
VERSIONS = ("localspec 1.0", "engine 0.3.36")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with private texts wherever LocalSpec reads or keeps something."""
    home = tmp_path / USER
    home.mkdir()
    for name in ("HOME", "USERPROFILE", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(home))
    for kind in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(home))
    monkeypatch.setenv("USER", USER)
    monkeypatch.setenv("LOCALSPEC_API_KEY", KEY)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("LOCALSPEC_CHAT_SYSTEM", PROMPT)
    monkeypatch.chdir(home)
    return home


def keep_settings(home):
    settings = (
        f'[serve]\nport = 9000\nallow-host = ["{HOST}"]\n[chat]\nattach = "http://{ADDRESS}"\n'
    )
    write(home / "localspec" / "localspec.toml", settings)
    write(home / "localspec" / "server.log", f"prompt: {PROMPT}\n")
    write(home / "localspec" / "history", PROMPT)
    write(home / "localspec" / "recent.json", json.dumps({"names": [str(home / FILE)]}))


def footprint(path):
    """A model's header, as far as it matters here."""
    counts = {"layers": 24, "heads": 16, "kv_heads": 8, "embedding": 64, "vocabulary": 1000}
    sizes = {"file_bytes": 7_000, "weight_bytes": 6_000, "context": 4096}
    texts = {"name": NAME, "quantisation": "Q4_K_M", "tokenizer": "gpt2", "chat_template": PROMPT}
    return Footprint(path, "llama", **texts, **counts, **sizes)


def keep_models(own, public):
    """Keep what trials found of a model of the user's, and of one that was pulled by its name."""
    for path, fault in ((own, f"{own}: tensor 'a' of {own.name} is cut short"), (public, "")):
        record = {"footprint": asdict(footprint(path)), "needs": {}, "verdicts": {"way": fault}}
        write(trial_record.folder() / f"{path.stem}.json", json.dumps(record, default=str))
    store.keep(PulledPair("qwen3-8b", "q4", "llamacpp", StoredModel("hf:a/b", public, ())))


def keep_measurements(*titles):
    for title in titles:
        speed = PairSpeed("1101", (0.1, 0.1, 0.1), (0.2, 0.2, 0.2))
        history = History(title, True, Era(VERSIONS, 1, speed))
        kept_json.keep(pair_history.folder() / f"{len(title)}.json", asdict(history))
        kept_calibrations.keep(str(len(title)), Calibration({1: 0.1, 2: 0.11, 4: 0.12}), title)


def fail(home):
    """Fail as an engine does, with words that are private."""
    try:
        try:
            json.loads(f"{PROMPT} {home}")
        except ValueError as error:
            raise BackendError(f"{PROMPT} in {home}") from error
    except BackendError as error:
        defects.keep(error)


def test_a_report_has_the_facts_and_nothing_private(home, capsys):
    own, public = home / FILE, home / "Qwen3-8B-Q4_K_M.gguf"
    keep_settings(home)
    keep_models(own, public)
    keep_measurements(f"{own.name} with {public.name}", public.name)
    fail(home)
    assert run(["doctor", "--report"]) == 0
    assert "localspec-report.json has versions" in capsys.readouterr().out
    text = Path("localspec-report.json").read_text(encoding="utf-8")
    assert not [word for word in PRIVATE if word.lower() in text.lower()]
    report = json.loads(text)
    assert report["settings"]["serve port"] == 9000
    names = {"serve allow-host", "serve api-key", "chat attach", "chat system", "chat key"}
    assert {report["settings"][name] for name in names} == {"set"}
    assert {model["name"] for model in report["models"]} == {"qwen3-8b", UNNAMED}
    assert all(model["quantisation"] == "Q4_K_M" for model in report["models"])
    assert [fault for model in report["models"] for fault in model["faults"]] == [
        "FILE: tensor 'a' of FILE is cut short"
    ]
    pairs = {pair["pair"]: pair for pair in report["pairs"]}
    assert pairs.keys() == {f"{UNNAMED} with qwen3-8b", "qwen3-8b"}
    assert pairs["qwen3-8b"]["now"]["plain_ms"] == 100
    assert pairs["qwen3-8b"]["now"]["versions"] == list(VERSIONS)
    assert {cost["pair"] for cost in report["costs"]} == pairs.keys()
    trace = report["last_error"]["trace"]
    assert [line for line in trace if not line.startswith(" ")] == [
        "BackendError",
        "JSONDecodeError",
    ]
    assert any(line.startswith("  json.decoder, line ") for line in trace)
    assert {"build", "devices"} <= report["engines"]["llamacpp"].keys()
    assert any(line.startswith("numpy ") for line in report["software"]["packages"])


def test_a_report_of_a_new_machine_goes_to_standard_output(home, capsys):
    assert run(["doctor", "--report", "-"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["models"], report["pairs"], report["last_error"]) == ([], [], None)
    assert {finding["subject"] for finding in report["findings"]} >= {"localspec", "memory", "disk"}


def test_a_report_of_broken_settings_says_so(home, capsys):
    write(home / "localspec" / "localspec.toml", f'[serve]\nhots = "{HOST}"\n')
    assert run(["doctor", "--report", "-"]) == 0
    report = capsys.readouterr().out
    assert json.loads(report)["settings"] == {"error": "UsageError"}
    assert HOST not in report


def test_a_report_that_cannot_be_written_says_why(home, capsys):
    assert run(["doctor", "--report", str(home / "nowhere" / "report.json")]) == 2
    assert "cannot be written: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("5 GiB free under /home/ottilie/.cache/x", "5 GiB free under PATH"),
        (r"no C:\Users\ottilie\m.dll here", "no PATH here"),
        (r"\\server\share\a is away", "PATH is away"),
        ("~/models/a.gguf: cut short", "PATH cut short"),
        ("models/own.gguf is cut short", "FILE is cut short"),
        ("the worker box.lan:50052 does not answer", "the worker ADDRESS does not answer"),
        ("from 10.1.2.3 and [fe80::1]:80", "from ADDRESS and ADDRESS"),
        ("https://user:pass@host/x?key=1 failed", "ADDRESS failed"),
        ("ask me@example.com", "ask ADDRESS"),
        ("libcudart.so.12: cannot open shared object file", None),
        ("llama-cpp-python 0.3.36: CPU, AVX2", None),
        ("Linux 6.1.0-21-amd64, x86_64", None),
        ("decodes at 11.5 tokens/s; checking 2 tokens 1.1 times the time of one", None),
        ("localspec.core.requests.engine, line 305, Engine._conclude", None),
        ("gpu: NVIDIA H100 80GB HBM3, 79.1 GiB free of 79.6 GiB", None),
    ],
)
def test_paths_and_addresses_are_taken_out_and_facts_left(text, public):
    assert PrivateTexts({}).text_without(text) == (public or text)


def test_names_of_people_and_machines_and_keys_are_taken_out(home):
    private = PrivateTexts.of_this_machine({"USERNAME": "Ottilie", "MY_API_KEY": "abc+def"})
    line = f"ottilie at {socket.gethostname()} under {home}/x y with abc+def, not ottilies"
    assert private.text_without(line) == "USER at HOST under PATH y with KEY, not ottilies"


def test_a_mistake_of_the_user_is_no_defect(home):
    defects.keep(UsageError("there is no such file"))
    assert defects.last() is None
    defects.keep_death("SIGSEGV ended the engine")
    assert defects.last()["trace"] == ["SIGSEGV ended the engine"]


def test_a_defect_that_comes_again_and_again_is_written_once(home):
    files = []
    for ending in ("SIGSEGV", "SIGSEGV", "SIGABRT"):
        defects.keep_death(ending)
        files.append(defects.record_path().stat().st_ino)
    assert files[0] == files[1] != files[2]


def test_code_of_others_is_not_named_in_a_trace(home):
    space = {"__name__": "umbra_plugin"}
    exec("class UmbraError(Exception): pass\ndef merge(): raise UmbraError('Friday')", space)
    try:
        space["merge"]()
    except Exception as error:
        defects.keep(error)
    assert "mbra" not in defects.record_path().read_text(encoding="utf-8")
    assert defects.last()["trace"][0] == "an error of another module"


class FailingAnswer:
    """An answer of an engine that fails."""

    def cancel(self):
        pass

    def read(self, timeout):
        raise BackendError(PROMPT)

    def next(self, event):
        return event


class Watching:
    """A view that reads what comes."""

    def wait(self, read):
        return read(None)

    def close(self):
        pass


def test_defects_of_commands_servers_and_chats_are_kept(home, monkeypatch):
    def broken(**_):
        raise RuntimeError(PROMPT)

    monkeypatch.setattr(doctor, "findings", broken)
    with pytest.raises(RuntimeError):
        run(["doctor"])
    assert defects.last()["trace"][0] == "RuntimeError"
    assert logged_fault(KeyError(PROMPT)).status == 500
    assert logged_fault(overloaded("all slots are busy")).status == 503
    assert defects.last()["trace"] == ["KeyError"]  # a refusal is none, and floods of them come
    assert hear(FailingAnswer(), Watching()).error
    assert defects.last()["trace"][0] == "BackendError"
