"""The page in a real browser: hostile answers, keys, other origins, a server that restarts."""

from __future__ import annotations

import re

import pytest

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.safety import Rules
from tests.apps.server.page.browser import (
    ask,
    expect,
    expect_text,
    opened,
    text_of,
    wait_for,
    written,
)
from tests.apps.server.scripted import Server

pytestmark = pytest.mark.long

HOSTILE = {
    "script": "<script>window.broken = 1</script>\n\n<img src=x onerror='window.broken = 1'>",
    "style": "<style>body { display: none }</style><b style='position:fixed'>x</b>",
    "links": "[a](javascript:window.broken=1) [b](data:text/html,<script>window.broken=1</script>) "
    "<a href='javascript:window.broken=1'>c</a> ![d](https://tracker.example/x)",
    "handlers": "<svg onload='window.broken=1'><iframe srcdoc='<script>parent.broken=1</script>'>",
    "code": "```html\n<script>window.broken = 1</script>\n```\n`<img onerror=window.broken=1>`",
    "turned": "safe\u202egpj.exe\u202c and \u2066x\u2069",
    "table": "| <script>window.broken=1</script> | b |\n|---|---|\n"
    "| <img src=x onerror=window.broken=1> | [x](javascript:window.broken=1) |",
}


@pytest.fixture(scope="module")
def server():
    made = Server(dict(HOSTILE))
    made.model.context = 1 << 21
    yield made
    made.close()


@pytest.mark.parametrize("lens", [True, False], ids=["lens", "markdown"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_is_text(browser, server, name, lens):
    with opened(browser, server.address) as page:
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        if not lens:
            page.click("#lens")
        answer = ask(page, name)
        assert page.evaluate("window.broken") is None
        dangerous = answer.locator("script, style, img, svg:not(.chart), iframe, [style*=fixed]")
        expect(dangerous).to_have_count(0)
        links = answer.locator(".text a").evaluate_all("links => links.map(link => link.protocol)")
        assert set(links) <= {"https:"}
        assert all(url.startswith((server.address, "data:")) for url in asked), asked
        if name == "turned":
            assert "RLO" in text_of(answer)
            assert "\u202e" not in text_of(answer)
        assert page.problems == []


def test_html_that_is_put_in_by_force_is_refused_by_the_browser(browser, server):
    with opened(browser, server.address) as page:
        put = "document.body.insertAdjacentHTML('beforeend', '<img onerror=\"window.broken=1\">')"
        with pytest.raises(Exception, match="TrustedHTML"):
            page.evaluate(put)


def test_a_key_is_asked_for_and_goes_with_the_tab(browser):
    made = Server(policy=ServerPolicy(Rules(keys=("a-key",))))
    try:
        with opened(browser, made.address) as page:
            page.fill("#key-field", "wrong")
            page.press("#key-field", "Enter")
            wait_for(page, "document.querySelector('#key-problem').textContent.includes('refused')")
            page.fill("#key-field", "a-key")
            page.press("#key-field", "Enter")
            wait_for(page, "document.querySelector('#model').value === 'scripted'")
            expect_text(ask(page, "here"), "You said: here")
            assert page.evaluate("JSON.stringify(localStorage)").find("a-key") < 0
            assert page.evaluate("sessionStorage.getItem('localspec.key')") == "a-key"
            other = page.context.new_page()
            other.goto(made.address)
            other.wait_for_selector("#key[open]")
    finally:
        made.close()


READ = """async address => {
  try { return (await fetch(address + '/v1/models')).status; } catch { return 'refused'; }
}"""


def test_a_page_at_another_port_reads_only_where_its_origin_is_allowed(browser, server):
    allowing = Server(policy=ServerPolicy(origins=(server.address,)))
    try:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{server.address}/health")  # a page of that origin without a policy
        assert page.evaluate(READ, allowing.address) == 200
        page.goto(f"{allowing.address}/health")
        assert page.evaluate(READ, server.address) == "refused"
        context.close()
    finally:
        allowing.close()


def test_an_answer_that_the_end_of_the_server_cuts_stays_and_is_asked_for_anew(browser):
    made = Server({"slow": "word " * 400})
    made.model.pause = 0.01
    with opened(browser, made.address) as page:
        page.fill("#message", "slow")
        page.press("#message", "Enter")
        written(page)
        made.close()
        wait_for(page, "document.querySelector('#stop').hidden")
        answer = page.locator(".message.assistant").last
        assert text_of(answer).startswith("word")
        expect(answer.locator(".problem")).to_have_text(re.compile("shutting down|connection"))
        answer.get_by_role("button", name="Retry").click()
        wait_for(page, "document.querySelector('#messages').innerText.includes('does not answer')")
