"""The chat of the page in a real browser, against a scripted model."""

from __future__ import annotations

import json
import re

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
from tests.apps.server.scripted import TEMPLATE, Server
from tests.apps.server.seeing import DATA, seeing
from tests.apps.server.test_load import until

pytestmark = pytest.mark.long

LINE = "the line of the line of the line of the line of the line"
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
MARKDOWN = f"""## A title

Some **bold** and `code`, and [a link](https://example.org/x).

- one
- two

| a | b |
|---|--:|
| 1 | 2 |

```python
def add(a, b):
    return a + b  # {LINE}
```
"""
EDIT = "Rename a.\n\n```\nalpha = 1\nprint(alpha)\n```"
FILE = "notes.txt\n```\nwords of a file\n```\n\nSee it."
REPLIES = {
    "markdown": MARKDOWN,
    "lens": LINE,
    "slow": "word " * 400,
    "why?": f"<think>{'x' * 30}</think>So.",
    "weather?": CALL,
    "an object": '{"name": "Ada"}',
    EDIT: "```\nbeta = 1\nprint(beta)\n```",
    FILE: "It has words.",
}
WEATHER = json.dumps(
    [
        {
            "name": "weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        }
    ]
)


@pytest.fixture(scope="module")
def server():
    made = Server(dict(REPLIES), template="{# <think> </think> #}" + TEMPLATE)
    yield made
    made.close()


@pytest.fixture
def page(browser, server):
    server.model.pause = 0.0
    with opened(browser, server.address) as made:
        yield made
        assert made.problems == []


@pytest.mark.parametrize("lens", [True, False], ids=["lens", "plain"])
def test_an_answer_is_shown_as_markdown_with_coloured_code(page, lens):
    if not lens:
        page.click("#lens")
    answer = ask(page, "markdown")
    expect(answer.locator("h4")).to_have_text("A title")
    expect(answer.locator("strong")).to_have_text("bold")
    link = answer.locator(".text a")
    expect(link).to_have_attribute("href", "https://example.org/x")
    expect(link).to_have_attribute("rel", re.compile("noopener"))
    expect(answer.locator(".text li")).to_have_text(["one", "two"])
    expect(answer.locator("td")).to_have_text(["1", "2"])
    expect(answer.locator(".c-keyword")).to_have_text(["def", "return"])


def test_the_lens_colours_tokens_and_tells_their_round(page):
    answer = ask(page, "lens")
    expect_text(answer, LINE)
    drafted = answer.locator(".text .by-suffix")
    expect(drafted.nth(1)).to_be_attached()
    expect(answer.locator(".legend")).to_contain_text("earlier text")
    drafted.last.hover()
    expect(page.locator(".hint")).to_contain_text("accepted")
    expect(page.locator(".hint")).to_contain_text('rejected: "')
    timeline = answer.get_by_role("slider")
    timeline.press("End")
    expect(answer.locator(".reading")).to_contain_text("Round ")
    expect(answer.locator(".marked").first).to_be_attached()
    timeline.press("Home")
    expect(timeline).to_have_attribute("aria-valuetext", re.compile("Round 1: nothing drafted"))


def test_the_lens_is_switched_by_a_key_and_stays_so(page):
    answer = ask(page, "markdown")
    expect(answer.locator("[data-token]").first).to_be_attached()
    page.keyboard.press("Alt+l")
    expect(answer.locator("[data-token]")).to_have_count(0)
    page.reload()
    page.wait_for_selector(".message.assistant h4")
    expect(page.locator("[data-token]")).to_have_count(0)


def test_likely_tokens_are_shown_where_they_are_asked_for(page):
    setting(page, "Likely tokens", "3")
    answer = ask(page, "lens")
    answer.locator("[data-token]").first.hover()
    expect(page.locator(".hint .likely")).to_contain_text("%")


def test_an_answer_is_stopped_and_what_came_stays(page, server):
    server.model.pause = 0.01
    page.fill("#message", "slow")
    page.press("#message", "Enter")
    written(page)
    page.keyboard.press("Escape")
    answer = answered(page)
    expect(answer.locator(".figures")).to_contain_text("stopped")
    assert text_of(answer).startswith("word")
    server.model.pause = 0.0
    expect_text(ask(page, "here", 2), "You said: here")


def test_another_answer_and_an_edited_question_stand_beside_the_first(page):
    answer = ask(page, "first")
    answer.get_by_role("button", name="Retry").click()
    answer = answered(page)
    expect(answer).to_contain_text("2 of 2")
    answer.get_by_role("button", name="The version before").click()
    expect(page.locator(".message.assistant").last).to_contain_text("1 of 2")
    page.locator(".message.user").hover()
    page.locator(".message.user").get_by_role("button", name="Edit").click()
    page.locator(".message.user textarea").fill("second")
    page.locator(".message.user textarea").press("Enter")
    wait_for(page, "document.querySelector('#messages').innerText.includes('You said: second')")
    expect(page.locator(".message.user")).to_contain_text("2 of 2")


def test_the_last_message_is_edited_by_the_key_upwards(page):
    ask(page, "first")
    page.press("#message", "ArrowUp")
    expect(page.locator(".message.user textarea")).to_have_value("first")


def test_a_branch_is_a_conversation_of_its_own(page):
    ask(page, "first")
    ask(page, "second", 2)
    page.locator(".message.assistant").first.get_by_role("button", name="Branch").click()
    expect(page.locator(".message")).to_have_count(2)
    expect(page.locator("#conversations li")).to_have_count(2)


def test_conversations_are_kept_searched_and_deleted(page):
    ask(page, "about apples")
    page.keyboard.press("Alt+n")
    ask(page, "about pears")
    page.reload()
    page.wait_for_selector("#conversations li")
    page.fill("#search", "APPLES said")
    expect(page.locator("#conversations a")).to_have_text(["about apples"])
    page.press("#search", "Enter")
    wait_for(
        page, "document.querySelector('#messages').innerText.includes('You said: about apples')"
    )
    page.fill("#search", "")
    page.get_by_role("button", name="Delete about pears").click()
    page.click("#confirm-yes")
    wait_for(page, "document.querySelectorAll('#conversations li').length === 1")
    page.click("#delete-all")
    page.click("#confirm-yes")
    wait_for(page, "document.querySelectorAll('#conversations li').length === 0")
    page.reload()
    page.wait_for_selector("#welcome:not([hidden])")
    expect(page.locator("#conversations li")).to_have_count(0)


def test_a_conversation_that_is_deleted_while_its_answer_comes_stays_away(page, server):
    server.model.pause = 0.01
    page.fill("#message", "slow")
    page.press("#message", "Enter")
    written(page)
    page.click("#delete-all")
    page.click("#confirm-yes")
    server.model.pause = 0.0
    until(lambda: server.idle)
    page.reload()
    page.wait_for_selector("#welcome:not([hidden])")
    expect(page.locator("#conversations li")).to_have_count(0)


def test_conversations_are_exported_and_imported(page, browser, server, tmp_path):
    ask(page, "to be kept")
    with page.expect_download() as download:
        page.click("#export")
    file = tmp_path / "kept.json"
    download.value.save_as(file)
    with opened(browser, server.address) as other:
        other.set_input_files("#import-file", file)
        other.get_by_role("link", name="to be kept").click()
        wait_for(
            other, "document.querySelector('#messages').innerText.includes('You said: to be kept')"
        )
        expect(other.locator(".by-suffix, .by-target").first).to_be_attached()
        other.set_input_files(
            "#import-file", {"name": "x.json", "mimeType": "application/json", "buffer": b"[]"}
        )
        wait_for(
            other,
            "document.querySelector('#told').textContent.includes('choose one that Export wrote')",
        )
        assert other.problems == []


def test_a_thought_is_folded_and_held_to_its_budget(page):
    setting(page, "Longest thought", "7")
    answer = ask(page, "why?")
    expect(answer.locator("details.thought:not([open])")).to_be_attached()
    expect(answer.locator("summary")).to_contain_text("of 7 tokens, cut at its budget")
    answer.locator("summary").click()
    expect(answer.locator(".thought-text")).to_have_text("x" * 7)
    assert text_of(answer).startswith("x") or text_of(answer).startswith("So")


def test_a_call_is_shown_and_its_result_is_typed(page):
    setting(page, "Tools", WEATHER)
    answer = ask(page, "weather?")
    expect(answer.locator(".call")).to_contain_text("Call of weather")
    expect(answer.locator(".call pre")).to_contain_text('"city": "Oslo"')
    answer.get_by_label("Result of weather").fill("rain")
    answer.get_by_role("button", name="Send results").click()
    expect_text(answered(page, 2), "You said: rain")
    expect(page.locator(".message.tool")).to_contain_text("Result of weather")


def test_an_answer_follows_a_schema_and_a_wrong_one_is_told(page):
    all_settings(page)
    area = page.locator("#settings").get_by_label("JSON schema")
    area.fill("{")
    expect(area).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#settings")).to_contain_text("is no JSON")
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    area.fill(json.dumps(schema))
    expect(area).to_have_attribute("aria-invalid", "false")
    page.click("#settings [data-close]")
    assert json.loads(text_of(ask(page, "an object"))) == {"name": "Ada"}


def test_samplers_are_sent_and_told_by_their_bounds(page):
    sent = []
    page.on(
        "request",
        lambda request: (
            sent.append(request.post_data_json) if "completions" in request.url else None
        ),
    )
    setting(page, "top_k", "3")
    ask(page, "here")
    assert sent[-1]["top_k"] == 3
    assert "temperature" not in sent[-1]
    all_settings(page)
    page.locator("#settings").get_by_label("min_p").fill("7")
    page.click("#settings [data-close]")
    ask(page, "again", 2)
    assert "min_p" not in sent[-1]


def test_a_text_to_be_edited_is_predicted(page):
    page.click("#edit-toggle")
    page.fill("#edit", "alpha = 1\nprint(alpha)\n")
    answer = ask(page, "Rename a.")
    expect(answer.locator(".text")).to_contain_text("beta = 1")
    expect(answer.locator(".by-prediction").first).to_be_attached()
    expect(page.locator(".message.user summary")).to_contain_text("Text to edit")


def test_files_are_dropped_and_pictures_only_where_the_model_sees(page):
    page.set_input_files(
        "#file", {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"words of a file"}
    )
    page.wait_for_selector("#attached .file")
    expect_text(ask(page, "See it."), "It has words.")
    page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": b"\x89PNG"})
    wait_for(page, "document.querySelector('#told').textContent.includes('sees no pictures')")
    page.set_input_files("#file", {"name": "a.bin", "mimeType": "", "buffer": b"\xff\x00"})
    wait_for(page, "document.querySelector('#told').textContent.includes('no text in UTF-8')")


DROPPED = """([kind, bytes, name, type]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([Uint8Array.from(atob(bytes), c => c.charCodeAt(0))], name, {type}));
  const target = document.querySelector(kind === 'drop' ? '#chat' : '#message');
  const data = kind === 'drop' ? {dataTransfer: transfer} : {clipboardData: transfer};
  const event = kind === 'drop' ? DragEvent : ClipboardEvent;
  target.dispatchEvent(new event(kind, {bubbles: true, cancelable: true, ...data}));
}"""


@pytest.mark.parametrize("way", ["drop", "paste"])
def test_a_picture_is_seen(browser, way):
    made = seeing()
    try:
        with opened(browser, made.address) as page:
            page.wait_for_selector("#model option", state="attached")
            page.evaluate(DROPPED, [way, DATA["red"], "red.png", "image/png"])
            page.wait_for_selector("#attached img")
            answer = ask(page, "What is it?")
            expect_text(answer, "You said: [red]What is it?")
            expect(page.locator(".message.user img")).to_have_attribute("alt", "red.png")
            page.reload()  # the picture is kept, and is seen again
            answer = page.locator(".message.assistant")
            answer.get_by_role("button", name="Retry").click()
            wait_for(page, "document.querySelector('#messages').innerText.includes('2 of 2')")
            expect_text(answered(page), "You said: [red]What is it?")
            assert page.problems == []
    finally:
        made.close()


def test_drafts_are_switched_off_for_a_conversation(page):
    page.click("#open-settings")
    page.locator("#settings").get_by_label("Draft tokens ahead").uncheck()
    page.click("#settings [data-close]")
    answer = ask(page, "lens")
    expect(answer.locator(".by-target").first).to_be_attached()
    expect(answer.locator(".by-suffix")).to_have_count(0)
    expect(answer.locator(".instruments")).to_be_hidden()  # nothing was drafted


def test_the_theme_is_chosen_and_stays(page):
    page.select_option("#theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
