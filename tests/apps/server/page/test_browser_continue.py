"""Answers that end before their time, in a real browser: kept over a reload, and continued."""

from __future__ import annotations

import pytest

from tests.apps.server.page.browser import (
    all_settings,
    answered,
    ask,
    expect,
    expect_text,
    opened,
    setting,
    text_of,
    wait_for,
    written,
)
from tests.apps.server.scripted import Server

pytestmark = pytest.mark.long

TALE = " ".join(f"word{at}" for at in range(60)) + " and the end."


@pytest.fixture(scope="module")
def server():
    made = Server({"tale": TALE})
    yield made
    made.close()


@pytest.fixture
def page(browser, server):
    server.model.pause = 0.0
    with opened(browser, server.address) as made:
        yield made
        assert made.problems == []


def begin(page, server):
    """Have an answer come slowly; return it while it comes."""
    server.model.pause = 0.02
    page.fill("#message", "tale")
    page.press("#message", "Enter")
    return written(page, 30)


def go_on(page, server):
    server.model.pause = 0.0
    page.locator(".message.assistant").last.get_by_role("button", name="Continue").press("Enter")
    return answered(page)


def test_an_answer_that_a_reload_cuts_off_stays_and_goes_on(page, server):
    begin(page, server)
    page.wait_for_timeout(1200)
    page.reload()
    page.wait_for_selector(".message.assistant")
    answer = page.locator(".message.assistant").last
    expect(answer.locator(".figures")).to_contain_text("cut off by a reload")
    cut = text_of(answer)
    assert len(cut) > 20
    assert TALE.startswith(cut.rstrip())
    expect(answer.locator("[data-token]").first).to_be_attached()
    expect_text(go_on(page, server), TALE)
    expect(page.locator(".message")).to_have_count(2)
    page.reload()
    page.wait_for_selector(".message.assistant")
    expect_text(page.locator(".message.assistant"), TALE)
    expect(page.locator(".figures")).not_to_contain_text("reload")


def test_an_answer_that_was_stopped_goes_on(page, server):
    answer = begin(page, server)
    page.keyboard.press("Escape")
    expect(answer.locator(".figures")).to_contain_text("stopped")
    expect_text(go_on(page, server), TALE)
    expect(answer.get_by_role("button", name="Continue")).to_be_hidden()
    expect(page.locator("#message")).to_be_focused()


def test_an_answer_at_its_limit_goes_on_until_its_end(page, server):
    setting(page, "Longest answer", "150")
    answer = ask(page, "tale")
    expect(answer.locator(".figures")).to_contain_text("length limit reached")
    first = text_of(answer)
    expect(go_on(page, server).locator(".figures")).to_contain_text("length limit reached")
    second = text_of(answer)
    assert len(first) < len(second) < len(TALE)
    assert TALE.startswith(second.rstrip())
    setting(page, "Longest answer", "")
    expect_text(go_on(page, server), TALE)


def test_only_the_last_answer_goes_on_and_none_that_is_complete(page, server):
    setting(page, "Longest answer", "20")
    answer = ask(page, "tale")
    expect(answer.get_by_role("button", name="Continue")).to_be_visible()
    setting(page, "Longest answer", "")
    ask(page, "here", 2)
    expect(page.get_by_role("button", name="Continue")).to_have_count(0)


def test_an_answer_in_a_form_does_not_go_on(page, server):
    all_settings(page)
    page.locator("#settings").get_by_label("JSON schema").fill('{"type": "string"}')
    page.locator("#settings").get_by_label("Longest answer").fill("3")
    page.click("#settings [data-close]")
    answer = ask(page, "tale")
    expect(answer.locator(".figures")).to_contain_text("length limit reached")
    expect(answer.get_by_role("button", name="Continue")).to_be_hidden()


def test_another_tab_takes_no_answer_that_still_comes_for_cut_off(page, server):
    begin(page, server)
    other = page.context.new_page()
    other.goto(server.address)
    other.click("#conversations a")
    other.wait_for_selector(".message.assistant")
    assert "reload" not in other.locator(".figures").inner_text()
    server.model.pause = 0.0
    expect_text(answered(page), TALE)


def test_a_conversation_that_was_deleted_leaves_nothing_behind(page, server):
    begin(page, server)
    page.click("#delete-all")
    page.click("#confirm-yes")
    wait_for(page, KEPT + ".then(kept => kept === 0)")


KEPT = """new Promise(resolve => {
  const opened = indexedDB.open('localspec');
  opened.onsuccess = () => {
    const count = opened.result.transaction('running').objectStore('running').count();
    count.onsuccess = () => { opened.result.close(); resolve(count.result); };
  };
})"""
