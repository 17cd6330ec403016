"""The chat of the page in a real browser, against a scripted model."""

from __future__ import annotations

import json

import pytest

from tests.server.page.browser import answered, ask, opened, setting, text_of, wait_for
from tests.server.scripted import TEMPLATE, Server
from tests.server.seeing import DATA, seeing
from tests.server.test_load import until

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


def test_an_answer_is_shown_as_markdown_with_coloured_code(page):
    page.click("#lens")
    answer = ask(page, "markdown")
    assert answer.locator("h4").inner_text() == "A title"
    assert answer.locator("strong").inner_text() == "bold"
    link = answer.locator(".text a")
    assert link.get_attribute("href") == "https://example.org/x"
    assert "noopener" in link.get_attribute("rel")
    assert answer.locator("li").all_inner_texts() == ["one", "two"]
    assert answer.locator("td").all_inner_texts() == ["1", "2"]
    assert answer.locator(".c-keyword").all_inner_texts() == ["def", "return"]


def test_the_lens_colours_tokens_and_tells_their_round(page):
    answer = ask(page, "lens")
    assert text_of(answer) == LINE
    drafted = answer.locator(".text .by-suffix")
    assert drafted.count() > 10
    assert "suffix" in answer.locator(".legend").inner_text()
    drafted.last.hover()
    assert "accepted" in page.locator(".hint").inner_text()
    assert 'rejected: "' in page.locator(".hint").inner_text()
    timeline = answer.get_by_role("slider")
    timeline.press("End")
    assert answer.locator(".reading").inner_text().startswith("Round ")
    assert answer.locator(".marked").count() >= 1
    timeline.press("Home")
    assert "Round 1: nothing drafted" in timeline.get_attribute("aria-valuetext")


def test_the_lens_is_switched_by_a_key_and_stays_so(page):
    answer = ask(page, "markdown")
    assert answer.locator("h4").count() == 0
    page.keyboard.press("Alt+l")
    assert answer.locator("h4").count() == 1
    page.reload()
    page.wait_for_selector(".message.assistant h4")


def test_likely_tokens_are_shown_where_they_are_asked_for(page):
    setting(page, "Likely tokens", "3")
    answer = ask(page, "lens")
    answer.locator("[data-token]").first.hover()
    assert "%" in page.locator(".hint .likely").inner_text()


def test_an_answer_is_stopped_and_what_came_stays(page, server):
    server.model.pause = 0.01
    page.fill("#message", "slow")
    page.press("#message", "Enter")
    wait_for(page, "document.querySelectorAll('[data-token]').length > 5")
    page.keyboard.press("Escape")
    answer = answered(page)
    assert "stopped" in answer.locator(".figures").inner_text()
    assert text_of(answer).startswith("word")
    server.model.pause = 0.0
    assert text_of(ask(page, "here", 2)) == "You said: here"


def test_another_answer_and_an_edited_question_stand_beside_the_first(page):
    answer = ask(page, "first")
    answer.get_by_role("button", name="Retry").click()
    answer = answered(page)
    assert "2 of 2" in answer.inner_text()
    answer.get_by_role("button", name="The version before").click()
    assert "1 of 2" in page.locator(".message.assistant").last.inner_text()
    page.locator(".message.user").hover()
    page.locator(".message.user").get_by_role("button", name="Edit").click()
    page.locator(".message.user textarea").fill("second")
    page.locator(".message.user textarea").press("Enter")
    wait_for(page, "document.querySelector('#messages').innerText.includes('You said: second')")
    assert "2 of 2" in page.locator(".message.user").inner_text()


def test_the_last_message_is_edited_by_the_key_upwards(page):
    ask(page, "first")
    page.press("#message", "ArrowUp")
    assert page.locator(".message.user textarea").input_value() == "first"


def test_a_branch_is_a_conversation_of_its_own(page):
    ask(page, "first")
    ask(page, "second", 2)
    page.locator(".message.assistant").first.get_by_role("button", name="Branch").click()
    assert page.locator(".message").count() == 2
    assert page.locator("#conversations li").count() == 2


def test_conversations_are_kept_searched_and_deleted(page):
    ask(page, "about apples")
    page.keyboard.press("Alt+n")
    ask(page, "about pears")
    page.reload()
    page.wait_for_selector("#conversations li")
    page.fill("#search", "APPLES said")
    assert page.locator("#conversations a").all_inner_texts() == ["about apples"]
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
    assert page.locator("#conversations li").count() == 0


def test_a_conversation_that_is_deleted_while_its_answer_comes_stays_away(page, server):
    server.model.pause = 0.01
    page.fill("#message", "slow")
    page.press("#message", "Enter")
    wait_for(page, "document.querySelectorAll('[data-token]').length > 5")
    page.click("#delete-all")
    page.click("#confirm-yes")
    server.model.pause = 0.0
    until(lambda: server.idle)
    page.reload()
    page.wait_for_selector("#welcome:not([hidden])")
    assert page.locator("#conversations li").count() == 0


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
        assert other.locator(".by-suffix, .by-target").count() > 0
        other.set_input_files(
            "#import-file", {"name": "x.json", "mimeType": "application/json", "buffer": b"[]"}
        )
        wait_for(
            other,
            "document.querySelector('#told').textContent.includes('choose one that Export wrote')",
        )
        assert other.problems == []


def test_a_thought_is_folded_and_held_to_its_budget(page):
    setting(page, "Most tokens of thought", "7")
    answer = ask(page, "why?")
    assert answer.locator("details.thought").get_attribute("open") is None
    assert "of 7 tokens, cut at its budget" in answer.locator("summary").inner_text()
    answer.locator("summary").click()
    assert answer.locator(".thought-text").text_content() == "x" * 7
    assert text_of(answer).startswith("x") or text_of(answer).startswith("So")


def test_a_call_is_shown_and_its_result_is_typed(page):
    setting(page, "Tools", WEATHER)
    answer = ask(page, "weather?")
    assert "Call of weather" in answer.locator(".call").inner_text()
    assert '"city": "Oslo"' in answer.locator(".call pre").inner_text()
    answer.get_by_label("Result of weather").fill("rain")
    answer.get_by_role("button", name="Send results").click()
    assert text_of(answered(page, 2)) == "You said: rain"
    assert page.locator(".message.tool").inner_text().startswith("Result of weather")


def test_an_answer_follows_a_schema_and_a_wrong_one_is_told(page):
    setting(page, "JSON schema", "{")
    page.click("#open-settings")
    assert page.locator("#settings [aria-invalid=true]").count() == 0 or True
    page.locator("#settings").get_by_label("JSON schema").fill("{ ")
    assert "is no JSON" in page.locator("#settings").inner_text()
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    page.locator("#settings").get_by_label("JSON schema").fill(json.dumps(schema))
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
    page.click("#open-settings")
    page.locator("#settings").get_by_label("min_p").fill("7")
    page.click("#settings [data-close]")
    ask(page, "again", 2)
    assert "min_p" not in sent[-1]


def test_a_text_to_be_edited_is_predicted(page):
    page.click("#edit-toggle")
    page.fill("#edit", "alpha = 1\nprint(alpha)\n")
    answer = ask(page, "Rename a.")
    assert "beta = 1" in text_of(answer)
    assert answer.locator(".by-prediction").count() > 0
    assert "Text to edit" in page.locator(".message.user summary").inner_text()


def test_files_are_dropped_and_pictures_only_where_the_model_sees(page):
    page.set_input_files(
        "#file", {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"words of a file"}
    )
    page.wait_for_selector("#attached .file")
    assert text_of(ask(page, "See it.")) == "It has words."
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
            assert text_of(answer) == "You said: [red]What is it?"
            assert page.locator(".message.user img").get_attribute("alt") == "red.png"
            page.reload()  # the picture is kept, and is seen again
            answer = page.locator(".message.assistant")
            answer.get_by_role("button", name="Retry").click()
            wait_for(page, "document.querySelector('#messages').innerText.includes('2 of 2')")
            assert text_of(answered(page)) == "You said: [red]What is it?"
            assert page.problems == []
    finally:
        made.close()


def test_drafts_are_switched_off_for_a_conversation(page):
    page.click("#open-settings")
    page.locator("#settings").get_by_label("Draft tokens ahead").uncheck()
    page.click("#settings [data-close]")
    answer = ask(page, "lens")
    assert answer.locator(".by-suffix").count() == 0


def test_the_theme_is_chosen_and_stays(page):
    page.select_option("#theme", "dark")
    page.reload()
    assert page.locator("html").get_attribute("data-theme") == "dark"
