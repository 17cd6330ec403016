"""APIs that other packages add by entry points, and the sample of docs/server.md among them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.apps.server.scripted import Server
from tests.packages import install

PAGE = Path(__file__).parents[3] / "docs" / "server.md"
SAME_PATHS = """
from starlette.responses import Response
from starlette.routing import Route
from localspec.apps.server.api import Api

def routes(handler):
    return [Route("/v1/models", lambda request: Response("mine"))]

ASK = Api(routes)
"""


@pytest.fixture
def serving(tmp_path, monkeypatch):
    """Start a server beside a package with an API, whose code is given."""
    started = []

    def serve(module, code):
        install(tmp_path, module, code, f"[localspec.apis]\nask = {module}:ASK\n")
        monkeypatch.syspath_prepend(tmp_path)
        started.append(Server())
        return started[-1].client

    yield serve
    for server in started:
        server.close()


def test_the_sample_api_answers_and_words_its_own_errors(serving):
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    client = serving("sample_api", code)
    answer = client.post("/ask", json={"question": "here", "colour": "red"})
    assert answer.json() == {"reply": "You said: here"}
    assert "colour" in answer.headers["x-localspec-ignored"]
    wrong = client.post("/ask", json={})
    assert (wrong.status_code, wrong.json()) == (400, {"wrong": "question: Field required"})
    assert client.get("/ask").json() == {"wrong": "/ask does not take GET"}
    assert client.get("/v1/nowhere").json()["error"]["message"] == "there is no /v1/nowhere here"


def test_of_two_apis_with_one_path_localspecs_own_answers(serving):
    client = serving("same_paths", SAME_PATHS)
    assert client.get("/v1/models").json()["object"] == "list"


@pytest.mark.parametrize(
    ("module", "code", "fault"),
    [
        ("not_to_import", "import nothing_of_the_kind", "No module named 'nothing_of_the_kind'"),
        ("without_api", "ASK = 3", "it is no Api of localspec.apps.server.api"),
        (
            "without_routes",
            "from localspec.apps.server.api import Api\nASK = Api(lambda handler: handler.routes)",
            "no attribute 'routes'",
        ),
    ],
)
def test_an_api_that_cannot_be_used_is_left_out_and_the_log_says_why(
    serving, caplog, module, code, fault
):
    client = serving(module, code)
    assert client.get("/v1/models").is_success
    [record] = [record for record in caplog.records if "left out" in record.message]
    assert record.message.startswith(f"the API ask is left out: {module}:ASK: ")
    assert fault in record.message
