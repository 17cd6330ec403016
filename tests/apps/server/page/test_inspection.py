"""The paths below /localspec: the machine, the log, the models, the bench."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, nullcontext

import pytest

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.command import with_bench
from localspec.apps.server.faults import Refused
from localspec.apps.server.inspection.bench_run import BenchRun
from localspec.apps.server.model_host import ModelHost
from localspec.apps.server.model_library import PulledLibrary
from localspec.apps.server.monitoring.log_lines import MAX_LINES, RecentLines
from localspec.apps.server.offers import Offers, ServedOffer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.sampling.parameters import GREEDY
from localspec.interfaces.testing import LETTERS, ScriptedModel, hashed_logits
from localspec.running.models import catalogue
from localspec.running.pulling.listed_model import MISSING, TOO_LARGE
from localspec.running.runtime.runtime import Runtime
from tests.apps.server.library import ScriptedLibrary
from tests.apps.server.scripted import Server
from tests.apps.server.test_load import until

LONG = {"messages": [{"role": "user", "content": "word " * 100}], "stream": True}


def test_what_the_server_samples_by_is_told_with_its_bounds(server):
    about = server.client.get("/localspec/about").json()
    bounds = {parameter["name"]: parameter for parameter in about["parameters"]}
    usual = server.client.get("/props").json()["default_generation_settings"]["params"]
    assert bounds["temperature"]["low"] == 0
    assert bounds["top_k"]["whole"]
    assert bounds.keys() <= usual.keys()
    assert {texts["name"] for texts in about["lists"]} <= usual.keys()
    assert about["manage"] is True
    assert about["bench"] is False


def test_every_parameter_is_taken_by_the_name_that_is_told(server):
    about = server.client.get("/localspec/about").json()
    usual = server.client.get("/props").json()["default_generation_settings"]["params"]
    fields = {entry["name"]: usual[entry["name"]] for entry in about["parameters"]}
    body = {"messages": [{"role": "user", "content": "here"}], **fields}
    answer = server.client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200
    assert "x-localspec-ignored" not in answer.headers


def test_the_machine_is_shown_without_loading_a_model(server):
    machine = server.client.get("/localspec/machine").json()
    assert machine["model"] == "scripted"
    assert machine["plan"] is None
    assert machine["falls"] == machine["corpus"] == []
    assert machine["features"] == []
    assert "energy" in machine


def test_a_slot_tells_what_it_read_and_wrote():
    made = Server(pause=0.02)
    try:
        with made.client.stream("POST", "/v1/chat/completions", json=LONG) as stream:
            lines = stream.iter_lines()  # which is closed with what it reads when it goes
            next(line for line in lines if '"content": "Y' in line)
            [busy] = [s for s in made.client.get("/slots").json() if s["is_processing"]]
            assert busy["n_prompt_tokens"] == busy["n_prompt_tokens_processed"] > 500
            assert busy["n_decoded"] >= busy["n_rounds"] >= 1
            assert busy["n_accepted"] <= busy["n_drafted"]
        until(lambda: not any(slot["is_processing"] for slot in made.client.get("/slots").json()))
    finally:
        made.close()


def test_the_log_is_read_from_where_one_was(server, caplog):
    caplog.set_level(logging.INFO, "localspec.server")
    server.client.get("/props")
    first = server.client.get("/localspec/log").json()
    assert any("GET '/props' 200" in line for line in first["lines"])
    server.client.get("/v1/models")
    server.client.get("/slots")
    body = server.client.get("/localspec/log", params={"after": first["last"]}).json()
    assert not any("'/props'" in line for line in body["lines"])
    assert any("GET '/v1/models' 200" in line for line in body["lines"])
    assert not any("'/slots'" in line for line in body["lines"])  # asked every second


def test_the_log_that_is_shown_is_bounded():
    lines = RecentLines()
    for at in range(MAX_LINES + 7):
        lines.emit(logging.makeLogRecord({"msg": f"{at} " + "x" * 5_000}))
    page = lines.after(0)
    assert page["last"] == MAX_LINES + 7
    assert len(page["lines"]) == MAX_LINES
    assert max(map(len, page["lines"])) == 2_000


def test_models_to_pull_are_listed_beside_those_that_are_here():
    made = Server(
        policy=ServerPolicy(library=ScriptedLibrary({"small": 100, "large": 900}, here=["small"]))
    )
    try:
        listed = made.client.get("/localspec/catalogue").json()["models"]
        assert [(row["name"], row["here"], row["pullable"]) for row in listed] == [
            ("small", True, False),
            ("large", False, True),
        ]
    finally:
        made.close()


def test_what_does_not_fit_or_has_no_engine_is_listed_and_not_to_be_pulled():
    rows = PulledLibrary("auto", lambda name: None).everything()
    assert {row["name"] for row in rows} >= set(catalogue.entries())
    assert {row["state"] for row in rows if not row["pullable"]} <= {MISSING, TOO_LARGE}
    assert not {MISSING, TOO_LARGE} & {row["state"] for row in rows if row["pullable"]}


@pytest.mark.parametrize("path", ["/localspec/log", "/localspec/catalogue", "/localspec/bench"])
def test_only_who_may_manage_models_sees_the_log_the_disk_and_the_bench(path):
    made = Server(policy=ServerPolicy(manage=False))
    try:
        assert made.client.get(path).status_code == 403
        assert made.client.get("/localspec/about").json()["manage"] is False
    finally:
        made.close()


@pytest.mark.parametrize("path", ["/localspec/log", "/localspec/bench"])
def test_a_page_of_another_site_does_not_see_them(server, path):
    headers = {"origin": "https://other.example"}
    assert server.client.get(path, headers=headers).status_code == 403


class Waiting:
    """A run of bench that ends when a test says so."""

    def __init__(self, code: int = 0, report: str = "the report", errors: str = "") -> None:
        self.end = asyncio.Event()
        self.asked: list[str] = []
        self.outcome = (code, report, errors)

    async def __call__(self, arguments):
        self.asked = list(arguments)
        await self.end.wait()
        return self.outcome


def loads(tell):
    return Runtime(Engine(ScriptedModel(hashed_logits(1)), Silent()), ExitStack())


def hosted(**fields):
    offer = ServedOffer("tiny", loads, lambda: nullcontext(LETTERS), GREEDY, "any", "", **fields)
    return ModelHost(Offers({"tiny": offer}), lambda model, result: None)


def run(work):
    async def whole():
        return await asyncio.wait_for(work(), 30)

    return asyncio.run(whole())


async def settled(bench):
    while bench.state.state == "running":
        await asyncio.sleep(0.001)


def test_a_model_leaves_memory_while_it_is_measured_and_comes_back():
    async def work():
        host, waiting = hosted(bench=("tiny", "--threads", "2")), Waiting()
        bench = BenchRun(host, waiting)
        await host.preload("tiny")
        bench.begin("tiny")
        while not waiting.asked:
            await asyncio.sleep(0.001)
        assert "tiny" not in host.loaded
        request = asyncio.create_task(host.preload("tiny"))  # waits for the end
        with pytest.raises(Refused, match="is being measured"):
            bench.begin("tiny")
        assert not request.done()
        waiting.end.set()
        await request
        await settled(bench)
        assert waiting.asked == ["bench", "tiny", "--threads", "2"]
        assert bench.state.described() | {"started": 0, "seconds": 0} == {
            "state": "done",
            "model": "tiny",
            "started": 0,
            "seconds": 0,
            "report": "the report",
            "error": "",
        }
        assert "tiny" in host.loaded
        await host.close()

    run(work)


def test_the_first_model_is_measured_with_the_options_that_were_typed():
    offers = [hosted().offers["tiny"]] * 2
    noted = with_bench(offers, ["./a.gguf", "b"], ("--draft", "small"))
    assert [offer.bench for offer in noted] == [("./a.gguf", "--draft", "small"), ("b",)]


def test_a_measurement_that_fails_says_why():
    async def work():
        host, waiting = hosted(bench=("tiny",)), Waiting(1, "", "localspec: it is too large\n")
        bench = BenchRun(host, waiting)
        waiting.end.set()
        bench.begin("")
        await settled(bench)
        assert (bench.state.state, bench.state.error) == ("failed", "localspec: it is too large")
        await host.close()

    run(work)


def test_a_model_at_work_is_not_measured():
    async def work():
        host = hosted(bench=("tiny",))
        bench = BenchRun(host, Waiting())
        async with host.lease("tiny"):
            with pytest.raises(Refused, match="answers 1 requests: wait"):
                bench.begin("tiny")
        await host.close()

    run(work)


def test_a_model_that_the_server_was_not_started_with_is_not_measured():
    async def work():
        with pytest.raises(Refused, match="run localspec bench for it"):
            BenchRun(hosted(), Waiting()).begin("tiny")

    run(work)
