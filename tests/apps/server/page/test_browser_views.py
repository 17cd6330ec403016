"""The machine and the models of the page in a real browser; its shape on every screen."""

from __future__ import annotations

import re
import threading
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.offers import ServedOffer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.sampling.parameters import GREEDY
from localspec.interfaces.testing import LETTERS, ScriptedModel, hashed_logits
from localspec.running.runtime.phases import Phase
from localspec.running.runtime.runtime import Runtime
from tests.apps.server.library import ScriptedLibrary
from tests.apps.server.page.browser import ask, expect, opened, wait_for
from tests.apps.server.scripted import Server
from tests.apps.server.test_load import until

pytestmark = pytest.mark.long

LINE = (
    "the line of the line of the line of the line of the line\n\n```python\nx = [1, 2]  # note\n```"
)
VIEWS = ("#/chat", "#/machine", "#/models")


@pytest.fixture(scope="module")
def server():
    sizes = {"vast": 1 << 40, "small": 100_000, "slow": 900_000, "other": 500_000}
    library = ScriptedLibrary(sizes, here=["other"])
    made = Server({"lens": LINE}, policy=ServerPolicy(library=library))
    made.library = library
    yield made
    made.close()


@pytest.fixture
def page(browser, server):
    with opened(browser, server.address) as made:
        yield made
        assert made.problems == []


def test_the_machine_shows_acceptance_slots_and_the_log(page):
    ask(page, "lens")
    page.keyboard.press("Alt+.")
    page.wait_for_selector("#positions:not([hidden])")
    expect(page.locator("#positions")).to_contain_text("earlier text")
    expect(page.locator("#slots tbody tr")).to_have_count(8)
    expect(page.locator("#figure-drafted")).to_contain_text("drafted")
    expect(page.locator("#plan")).to_contain_text("is not loaded, or was loaded without a plan")
    expect(page.locator("#bench-start")).to_be_disabled()
    wait_for(page, "document.querySelector('#resident').textContent.includes('iB')")


def test_a_running_answer_shows_in_the_figures(page, server):
    server.model.pause = 0.01
    page.fill("#message", "word " * 60)
    page.press("#message", "Enter")
    page.click("nav a[href='#/machine']")
    wait_for(page, "document.querySelector('#figure-slots').textContent.startsWith('1 of')")
    wait_for(page, "parseFloat(document.querySelector('#figure-speed').textContent) > 0")
    server.model.pause = 0.0


def test_models_are_pulled_cancelled_and_removed(page, server):
    page.click("nav a[href='#/models']")
    row, other = (
        page.locator("#library tr", has=page.get_by_role("rowheader", name=name))
        for name in ("slow", "small")
    )
    server.library.piece_seconds = 0.01
    row.get_by_role("button", name="Pull slow").click()
    row.get_by_role("progressbar").wait_for()
    row.get_by_role("button", name="Cancel slow").click()
    wait_for(page, "document.querySelector('#told').textContent.includes('was not downloaded')")
    other.get_by_role("button", name="Pull small").click()
    wait_for(page, "document.querySelector('#told').textContent.includes('is here now')")
    assert "small" in server.library.here
    other.get_by_role("button", name="Remove small").click()
    page.click("#confirm-yes")
    other.get_by_role("button", name="Pull small").wait_for()
    assert "small" not in server.library.here


NAMES = "[...document.querySelectorAll('#library tbody th')].map(name => name.innerText)"


def test_models_that_are_here_come_first_and_those_that_cannot_run_are_hidden(page):
    page.click("nav a[href='#/models']")
    wait_for(page, f"{NAMES}.length > 3")
    assert page.evaluate(NAMES) == ["scripted", "other", "small", "slow"]
    page.get_by_label("Also the 1 that cannot run here").check()
    assert page.evaluate(NAMES) == ["scripted", "other", "small", "slow", "vast"]
    page.fill("#library-filter", "vas")
    assert page.evaluate(NAMES) == ["vast"]
    page.get_by_label("Also the 1 that cannot run here").press("Space")
    assert page.evaluate(NAMES) == []


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_of_a_model_is_cut_off(browser, server, width):
    with opened(browser, server.address, viewport={"width": width, "height": 800}) as page:
        page.click("nav a[href='#/models']")
        wait_for(page, f"{NAMES}.length > 3")
        table = page.locator("#library").evaluate(
            "table => [table.scrollWidth, table.parentElement.clientWidth]"
        )
        assert table[0] <= table[1]
        row = page.locator("#library tr", has=page.get_by_role("rowheader", name="slow"))
        name = row.get_by_role("rowheader").bounding_box()
        pull = row.get_by_role("button", name="Pull slow").bounding_box()
        assert pull["x"] + pull["width"] <= width
        assert (pull["y"] >= name["y"] + name["height"]) == (width == 390)
        expect(row).to_contain_text("fits")


def test_the_header_tells_when_the_server_goes_and_when_it_is_back(browser, server):
    made = Server()
    with opened(browser, made.address) as page:
        wait_for(page, f"{STATUS} === 'loaded' || {STATUS} === 'unloaded'")
        made.close()
        wait_for(page, f"{STATUS} === 'no server'")
        there = made.address, server.address
        page.route(
            f"{made.address}/**",
            lambda route: route.continue_(url=route.request.url.replace(*there)),
        )
        wait_for(page, f"{STATUS} === 'loaded' || {STATUS} === 'unloaded'")


STATUS = "document.querySelector('#model-status').textContent"
# Words that only those know who know the code.
JARGON = re.compile(r"\b(suffix|forced|ngram|target|pairs?|ledger|fell|concessions?|held)\b", re.I)


def test_no_view_speaks_as_the_code_does(browser, server):
    with opened(browser, server.address) as page:
        ask(page, "lens")
        expect(page.locator(".legend")).to_contain_text("earlier text")
        page.click("#open-settings")
        page.click("#settings-all")
        assert said(page) == []
        page.click("#settings [data-close]")
        for view in VIEWS[1:]:
            page.evaluate("view => { location.hash = view; }", view)
            page.wait_for_timeout(500)
            assert said(page) == [], view


def said(page) -> list[str]:
    log = "document.querySelector('#log').innerText"
    return JARGON.findall(page.evaluate(f"document.body.innerText.replace({log} || 0, '')"))


# Fills a table, and returns how many pixels it is wider than its place.
FULL = """table => {
  for (const cell of table.querySelectorAll('td')) cell.textContent = '100%';
  return table.scrollWidth - table.parentElement.clientWidth;
}"""


def test_the_machine_is_readable_at_1280_pixels(browser, server):
    with opened(browser, server.address, viewport={"width": 1280, "height": 900}) as page:
        ask(page, "lens")
        page.keyboard.press("Alt+.")
        page.wait_for_selector("#positions:not([hidden])")
        assert page.locator("#positions").evaluate(FULL) <= 0
        boxes = [panel.bounding_box() for panel in page.locator("#machine .panel").all()]
        log = boxes.pop()
        assert log["y"] - max(box["y"] + box["height"] for box in boxes) >= 8
        expect(page.locator("#updates")).to_have_text("Nothing became slower by an update.")
        assert page.problems == []


def test_a_table_that_goes_on_has_a_shadow_at_its_side(browser, server):
    with opened(browser, server.address, viewport={"width": 380, "height": 800}) as page:
        ask(page, "lens")
        page.evaluate("location.hash = '#/machine'")
        page.wait_for_selector("#positions:not([hidden])")
        assert page.locator("#positions").evaluate(FULL) > 0
        table = page.locator(".table", has=page.locator("#positions"))
        attached = "table => getComputedStyle(table).backgroundAttachment"
        assert table.evaluate(attached) == "local, local, scroll, scroll"


def test_a_model_is_loaded_and_unloaded(page):
    page.click("nav a[href='#/models']")
    row = page.locator("#library tr", has=page.get_by_role("rowheader", name="scripted"))
    page.wait_for_selector("#library tbody tr")
    if row.get_by_role("button", name="Unload scripted").count():
        row.get_by_role("button", name="Unload scripted").click()
    row.get_by_role("button", name="Load scripted", exact=True).click()
    row.get_by_role("button", name="Unload scripted").wait_for()


def test_the_picker_shows_how_far_a_model_is_loaded(browser):
    go_on = threading.Event()

    def load(tell):
        tell(Phase("reading", "large.gguf", 0.5))
        assert go_on.wait(60)
        return Runtime(Engine(ScriptedModel(hashed_logits(1)), Silent()), ExitStack())

    large = ServedOffer("large", load, lambda: nullcontext(LETTERS), GREEDY, "any", "")
    made = Server(beside=(large,))
    try:
        with opened(browser, made.address) as page:
            page.wait_for_selector("#model option", state="attached")
            until(lambda: len(made.app.state.host.events._queues))
            page.select_option("#model", "large")
            wait_for(page, "document.querySelector('#model-status').textContent.includes('50%')")
            go_on.set()
            wait_for(page, "document.querySelector('#model-status').textContent === 'loaded'")
            assert page.problems == []
    finally:
        go_on.set()
        made.close()


def test_who_may_not_manage_sees_why(browser):
    made = Server(policy=ServerPolicy(manage=False))
    try:
        with opened(browser, made.address) as page:
            page.click("nav a[href='#/models']")
            expect(page.locator("#library-note")).to_contain_text("--manage yes")
            expect(page.locator("#pull")).to_be_hidden()
            page.click("nav a[href='#/machine']")
            wait_for(page, "document.querySelector('#log').textContent.includes('--manage yes')")
            assert page.problems == []
    finally:
        made.close()


@pytest.mark.parametrize("width", [380, 1000, 1900])
def test_no_view_is_wider_than_the_screen(browser, server, width):
    with opened(browser, server.address, viewport={"width": width, "height": 800}) as page:
        ask(page, "lens")
        for view in VIEWS:
            page.goto(f"{server.address}/{view}")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (view, wide)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1400])
def test_no_view_has_a_fault_that_axe_finds(browser, server, width, scheme):
    axe = Path(__file__).parent.parent / "js" / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.exists():
        pytest.fail(
            "axe-core is missing: npm install --no-package-lock --prefix tests/apps/server/js"
        )
    source = axe.read_text()
    options = {
        "viewport": {"width": width, "height": 800},
        "color_scheme": scheme,
        "bypass_csp": True,
    }
    with opened(browser, server.address, **options) as page:
        ask(page, "lens")
        page.evaluate(source)
        problems = [*faults(page, "lens")]
        page.click("#lens")
        problems += faults(page, "markdown")
        page.click("#open-settings")
        problems += faults(page, "simple settings")
        page.click("#settings-all")
        problems += faults(page, "settings")
        page.click("#settings [data-close]")
        for view in VIEWS[1:]:
            page.evaluate("view => { location.hash = view; }", view)
            page.wait_for_timeout(300)
            problems += faults(page, view)
        assert problems == []


def faults(page, where: str) -> list[str]:
    run = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{where}: {fault['id']}, {node['html'][:160]}: {node['failureSummary']}"
        for fault in run["violations"]
        for node in fault["nodes"][:1]
    ]
