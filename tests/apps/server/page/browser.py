"""A browser on the page, and what tests do with it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
# In a container, root has no sandbox for it; the page is the project's own.
FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
PATIENCE_MS = 20_000
LOOK_MS = 50


@contextmanager
def chromium() -> Iterator[object]:
    """Start the browser of this machine without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="there is no playwright")
    if BROWSER is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser, address: str, **options) -> Iterator[object]:
    """Open the page in a profile of its own; whatever the browser complains of fails the test."""
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("console", lambda said: said.type == "error" and page.problems.append(said.text))
    page.goto(address)
    try:
        yield page
    finally:
        context.close()


def wait_for(page, expression: str, argument: object = None) -> None:
    """Wait until an expression holds; the page's policy lets the browser's own way not run."""
    for _ in range(PATIENCE_MS // LOOK_MS):
        if page.evaluate(expression, argument):
            return
        page.wait_for_timeout(LOOK_MS)
    raise AssertionError(f"never: {expression}")


def ask(page, text: str, answers: int = 1) -> object:
    """Send a message, and wait for the answer; return its element."""
    page.fill("#message", text)
    page.press("#message", "Enter")
    return answered(page, answers)


def answered(page, answers: int = 1) -> object:
    """Wait until so many answers are there, and none is under way; return the last one."""
    wait_for(
        page,
        "count => document.querySelectorAll('.message.assistant').length >= count"
        " && document.querySelector('#stop').hidden",
        answers,
    )
    return page.locator(".message.assistant").last


def expect(locator) -> object:
    """Wait for what is said of an element: the page draws a moment after a click."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    return expect(locator)


def written(page, characters: int = 20) -> object:
    """Wait until an answer under way has so many characters; return it."""
    wait_for(
        page,
        "count => [...document.querySelectorAll('.text')].at(-1)?.innerText.length > count",
        characters,
    )
    return page.locator(".message.assistant").last


def text_of(answer) -> str:
    return answer.locator(".text").inner_text()


def expect_text(answer, text: str) -> None:
    expect(answer.locator(".text")).to_have_text(text, use_inner_text=True)


def open_settings(page) -> object:
    page.click("#open-settings")
    page.wait_for_selector("#settings[open]")
    return page.locator("#settings")


def all_settings(page) -> None:
    open_settings(page)
    page.click("#settings-all")


def setting(page, label: str, value: str) -> None:
    """Change a setting of the conversation."""
    all_settings(page)
    page.locator("#settings").get_by_label(label, exact=False).first.fill(value)
    page.click("#settings [data-close]")
