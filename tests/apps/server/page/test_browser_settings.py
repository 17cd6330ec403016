"""The settings of the page in a real browser: few at first, and system prompts with names."""

from __future__ import annotations

import pytest

from tests.apps.server.page.browser import all_settings, ask, expect, open_settings, opened
from tests.apps.server.scripted import Server

pytestmark = pytest.mark.long

FIELDS = """() => [...document.querySelectorAll('#settings-fields label')]
  .filter(label => label.checkVisibility() && !label.closest('.prompts'))
  .map(label => label.innerText.split('\\n')[0])"""


@pytest.fixture(scope="module")
def server():
    made = Server()
    yield made
    made.close()


@pytest.fixture
def page(browser, server):
    with opened(browser, server.address) as made:
        yield made
        assert made.problems == []


def test_few_settings_are_shown_at_first_and_temperature_is_the_second(page):
    open_settings(page)
    assert page.evaluate(FIELDS) == [
        "System prompt",
        "Temperature",
        "Longest answer, in tokens",
        "Thinking",
        "Draft tokens ahead: faster, the same text",
    ]
    page.click("#settings-all")
    shown = page.evaluate(FIELDS)
    assert len(shown) > 30
    assert shown[:2] == ["System prompt", "Temperature"]
    assert len(set(shown)) == len(shown)
    page.click("#settings [data-close]")
    page.reload()
    open_settings(page)
    assert page.evaluate(FIELDS) == shown


def test_the_temperature_is_sent(page):
    sent = []
    page.on("request", lambda asked: "completions" in asked.url and sent.append(asked))
    open_settings(page).get_by_role("spinbutton", name="Temperature 0:").fill("0.5")
    page.click("#settings [data-close]")
    ask(page, "here")
    assert sent[-1].post_data_json["temperature"] == 0.5


def test_a_system_prompt_is_saved_under_a_name_and_chosen_in_another_conversation(page):
    settings = open_settings(page)
    settings.get_by_label("System prompt").fill("Answer like a pirate.")
    settings.get_by_role("button", name="Save").click()
    expect(settings.get_by_role("status")).to_have_text("Give it a name first.")
    settings.get_by_label("Name of this prompt").fill("Pirate")
    settings.get_by_label("Name of this prompt").press("Enter")
    expect(settings.get_by_role("status")).to_contain_text("saved in this browser")
    page.click("#settings-reset")
    expect(settings.get_by_label("System prompt")).to_have_value("")
    page.click("#settings [data-close]")
    page.reload()
    all_settings(page)
    settings.get_by_label("Saved prompts").select_option("Pirate")
    expect(settings.get_by_label("System prompt")).to_have_value("Answer like a pirate.")
    sent = []
    page.on("request", lambda asked: "completions" in asked.url and sent.append(asked))
    page.click("#settings [data-close]")
    ask(page, "here")
    assert sent[-1].post_data_json["messages"][0] == {
        "role": "system",
        "content": "Answer like a pirate.",
    }
    open_settings(page)
    settings.get_by_label("Saved prompts").select_option("Pirate")
    settings.get_by_role("button", name="Delete").click()
    expect(settings.get_by_label("Saved prompts").locator("option")).to_have_text(["none yet"])
    expect(settings.get_by_label("System prompt")).to_have_value("Answer like a pirate.")
    page.click("#settings [data-close]")


@pytest.mark.parametrize("kept", ['{"a": 5, "b": "text"}', "[1]", "no", '"x"', "null"])
def test_prompts_that_something_else_kept_do_not_break_the_settings(page, kept):
    page.evaluate("kept => localStorage.setItem('localspec.prompts', kept)", kept)
    open_settings(page)
    names = page.locator("#settings").get_by_label("Saved prompts").locator("option")
    expect(names.first).to_be_attached()
    assert "a" not in names.all_inner_texts()
    page.click("#settings [data-close]")


def test_the_name_of_a_prompt_is_text(page):
    settings = open_settings(page)
    settings.get_by_label("Name of this prompt").fill("<img src=x onerror=window.broken=1>")
    settings.get_by_role("button", name="Save").click()
    expect(settings.get_by_label("Saved prompts").locator("option")).to_have_count(2)
    assert page.evaluate("window.broken") is None
    expect(settings.locator("img")).to_have_count(0)
