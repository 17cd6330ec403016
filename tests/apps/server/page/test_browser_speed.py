"""Long answers in a real browser: no frame takes long, by the browser's own trace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.apps.server.page.browser import opened
from tests.apps.server.page.paced import PacedServer

pytestmark = pytest.mark.long

RATE = 1000.0  # tokens a second
COUNT = 10_000  # tokens
MAX_TASK_MS = 50.0  # of processor time in one task of the page's thread
MAX_HOSTILE_MS = 1000.0  # the same, of a text that is made to hold it up
# What takes so long on a quiet day, to tell how much slower another machine is.
LAYOUTS_MS = 60.0
LAYOUTS = """() => {
  for (let time = 0; time < 20; time++) {
    const box = document.createElement("div");
    for (let at = 0; at < 400; at++) {
      const word = document.createElement("span");
      word.textContent = `word ${at} `;
      box.append(word);
    }
    document.body.append(box);
    box.offsetHeight;
    box.remove();
  }
}"""
CODE = "".join(
    f"    value_{at} = compute({at}, 'text {at}')  # a comment of the line\n" for at in range(900)
)
PROSE = "".join(
    f"Paragraph {at} has **bold words**, `code` and [a link](https://example.org/{at}).\n\n"
    "- an item\n- one more\n\n"
    for at in range(400)
)
TEXTS = {
    "prose": PROSE,
    "code": f"```python\ndef work():\n{CODE}```\n",
    "a list": "".join(f"{at}. item number {at} with `code` in it\n" for at in range(1, 1400)),
    "a line": "word and word " * 5_000,
}


def tokens(text: str) -> list[str]:
    """Split a text as tokenizers of today do, roughly."""
    return re.findall(r" ?\w+|\s+|[^\w\s]", text)[:COUNT]


@pytest.mark.parametrize("lens", [True, False], ids=["lens", "markdown"])
@pytest.mark.parametrize("name", TEXTS)
def test_no_frame_of_a_long_answer_takes_long(browser, name, lens):
    longest, slowness = longest_task(browser, tokens(TEXTS[name]), lens)
    assert longest <= MAX_TASK_MS * slowness


@pytest.mark.parametrize("lens", [True, False], ids=["lens", "markdown"])
@pytest.mark.parametrize("mark", ["", "```\n", "- ", "> ", "|a|b|\n|-|-|\n|"], ids=repr)
def test_a_line_of_a_megabyte_does_not_hold_the_page_up(browser, mark, lens):
    longest, slowness = longest_task(browser, [mark + "x" * 4096, *["x" * 4096] * 255], lens)
    assert longest <= MAX_HOSTILE_MS * slowness


def longest_task(browser, written: Sequence[str], lens: bool) -> tuple[float, float]:
    """Have an answer written; return the milliseconds of the page's longest task.

    And how many times as long as on a quiet day its thread takes for the same work now.
    """
    made = PacedServer(written, RATE)
    try:
        with opened(browser, made.address) as page:
            if not lens:
                page.click("#lens")
            page.fill("#message", "write")
            with traced(browser, page) as measured:
                page.press("#message", "Enter")
                page.wait_for_selector(".message.assistant")
                page.wait_for_selector("#send:not([hidden])", timeout=120_000)
            with traced(browser, page) as layouts:
                page.evaluate(LAYOUTS)
            assert page.problems == []
            assert len(measured) > len(written) / 100  # else the trace has other names
            return max(measured), max(1.0, max(layouts) / LAYOUTS_MS)
    finally:
        made.close()


@contextmanager
def traced(browser, page) -> Iterator[list[float]]:
    """Fill a list with the processor time of each task of the page meanwhile."""
    measured: list[float] = []
    browser.start_tracing(page=page, categories=["toplevel"])
    yield measured
    measured += tasks(json.loads(browser.stop_tracing()))


def tasks(trace: dict) -> list[float]:
    """List the processor time of each task of the page's main thread, in milliseconds."""
    events = trace["traceEvents"]
    threads = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    return [
        event.get("tdur", event["dur"]) / 1000
        for event in events
        if event.get("ph") == "X"
        and event["name"] in ("RunTask", "ThreadControllerImpl::RunTask")
        and (event["pid"], event["tid"]) in threads
    ]
