"""The page at `/`: who gets it, what its headers forbid, and what is in its files."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.command import policy_of
from localspec.apps.server.listening import bind, page_address
from localspec.apps.server.options import ServingOptions
from localspec.apps.server.page.routes import FOLDER, show_page, site_files
from localspec.apps.server.safety import Rules
from localspec.base.errors import UsageError
from tests.apps.server.scripted import Server
from tests.apps.server.test_load import until

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
MAX_BYTES = 300_000
# By these a text could become HTML or code.
WRITES_HTML = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|DOMParser|\beval\(|new Function"
    r"|createContextualFragment|setHTML|javascript:"
)


def files(suffix: str) -> list[Path]:
    return sorted(file for file in FOLDER.iterdir() if file.suffix == suffix)


@pytest.fixture(scope="module")
def guarded():
    made = Server(policy=ServerPolicy(Rules(keys=("a-key",)), prefix="/llm"))
    yield made
    made.close()


def test_a_browser_gets_the_page_and_a_client_of_ollama_its_greeting(server):
    for path in ("/", "/v1"):
        page = server.client.get(path, headers=BROWSER)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "<title>LocalSpec</title>" in page.text
    assert server.client.get("/").text == "Ollama is running"
    assert server.client.get("/props").json()["ui"] is True


def test_the_files_of_the_page_leave_no_lines_in_the_log(guarded, caplog):
    caplog.set_level(logging.INFO, "localspec.server")
    for path in ("/llm/page/app.js", "/llm/metrics", "/llm/nowhere"):
        guarded.client.get(path)
    until(lambda: "nowhere" in caplog.text)
    assert [record.args[1] for record in caplog.records] == ["/nowhere"]


def test_every_file_that_the_page_names_is_there(server):
    page = server.client.get("/", headers=BROWSER).text
    named = set(re.findall(r'(?:src|href)="(page/[^"]+)"', page))
    for script in files(".js"):
        named |= {f"page/{name}" for name in re.findall(r'from "\./([^"]+)"', script.read_text())}
    assert {f"/{name}" for name in named} == set(site_files()) - {"/"}
    for name in named:
        assert server.client.get(f"/{name}").status_code == 200, name


def test_the_page_runs_no_code_but_its_own_and_talks_to_no_other_server(server):
    answer = server.client.get("/", headers=BROWSER)
    policy = dict(
        rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_page_holds_no_inline_code_and_names_no_other_host():
    page = (FOLDER / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page)
    for file in FOLDER.iterdir():
        addresses = set(re.findall(r"https?://[\w.-]+", file.read_text()))
        assert addresses <= {"http://www.w3.org"}, file.name


def test_no_script_of_the_page_turns_a_text_into_html():
    for script in files(".js"):
        assert not WRITES_HTML.search(script.read_text()), script.name


def test_the_page_is_small():
    assert sum(len(file.content) for file in site_files().values()) < MAX_BYTES


def test_a_file_that_the_browser_has_is_not_sent_again(server):
    first = server.client.get("/page/app.js")
    again = server.client.get("/page/app.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == first.headers["content-security-policy"]


def test_the_page_needs_no_key_and_its_requests_do(guarded):
    for path in site_files():
        assert guarded.client.get(path, headers=BROWSER).status_code == 200, path
    for path in ("/localspec/about", "/v1/models", "/page/../v1/models", "/page//props", "/page"):
        assert guarded.client.get(path).status_code in (401, 404), path
    assert guarded.client.get("/").status_code == 401  # not by a browser
    assert guarded.client.post("/", headers=BROWSER).status_code == 401
    assert guarded.client.post("/page/app.js", headers=BROWSER).status_code == 401
    assert guarded.client.get("/localspec/about", headers={"x-api-key": "a-key"}).status_code == 200


@pytest.mark.parametrize("path", ["/page/../routes.py", "/page/%2e%2e/routes.py", "/page/none.js"])
def test_nothing_but_files_of_the_page_is_sent(server, path):
    assert server.client.get(path).status_code == 404


def test_the_page_under_a_prefix_finds_its_files(guarded):
    asked = guarded.client.get("/llm", headers=BROWSER)
    assert (asked.status_code, asked.headers["location"]) == (307, "/llm/")
    assert "<title>" in guarded.client.get("/llm/", headers=BROWSER).text
    assert guarded.client.get("/llm/page/app.js").status_code == 200


def test_another_name_of_the_host_gets_no_page(server):
    assert server.client.get("/", headers=BROWSER | {"host": "evil.example"}).status_code == 403


def test_a_server_without_a_page_greets_browsers_as_programs():
    made = Server(policy=ServerPolicy(Rules(keys=("a-key",)), page=False))
    try:
        assert made.client.get("/", headers=BROWSER).status_code == 401
        made.client.headers["x-api-key"] = "a-key"
        assert made.client.get("/", headers=BROWSER).text == "Ollama is running"
        assert made.client.get("/page/app.js").status_code == 404
        assert made.client.get("/props").json()["ui"] is False
    finally:
        made.close()


@pytest.mark.parametrize("options", [{"no_page": True}, {"unix": Path("socket")}])
def test_a_page_that_no_browser_can_reach_is_not_opened(options):
    with pytest.raises(UsageError, match="--open needs a page"):
        policy_of(ServingOptions(open=True, **options))


@pytest.mark.parametrize(
    ("host", "prefix", "shown"),
    [
        ("127.0.0.1", "", "http://127.0.0.1:PORT/"),
        ("0.0.0.0", "/llm", "http://127.0.0.1:PORT/llm/"),
        ("::", "", "http://[::1]:PORT/"),
    ],
)
def test_the_address_of_the_page_is_one_that_a_browser_here_reaches(host, prefix, shown):
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    address = page_address(ServingOptions(host=host, prefix=prefix), listener)
    listener.close()
    assert address == shown.replace("PORT", str(port))


def test_a_browser_that_cannot_be_opened_is_told(capsys):
    thread = show_page("http://here/", browse=True, open_browser=lambda _: False)
    assert thread is not None
    thread.join()
    err = capsys.readouterr().err
    assert "a page for browsers is at http://here/" in err
    assert "open that address yourself" in err


def test_no_browser_is_opened_unasked():
    def never(address: str) -> bool:
        raise AssertionError(address)

    assert show_page("http://here/", browse=False, open_browser=never) is None
