"""A message that is still being written, read by the model meanwhile, in a real browser."""

from __future__ import annotations

import pytest

from tests.apps.server.page.browser import ask, opened
from tests.apps.server.scripted import Server
from tests.apps.server.test_load import until
from tests.apps.server.test_reading_ahead import holds

pytestmark = pytest.mark.long

TEXT = "a text that is pasted and then asked about " * 12


@pytest.fixture
def server():
    made = Server({TEXT + "why?": "So."})
    yield made
    made.close()


def test_a_long_message_is_read_before_it_is_sent(browser, server):
    with opened(browser, server.address) as page:
        page.fill("#message", TEXT)
        until(lambda: holds(server, TEXT + "<|im_end|>\n<|im_start|>assistant\n"))
        before = server.model.forwards
        ask(page, TEXT + "why?")
        few = len("why?<|im_end|>\n<|im_start|>assistant\nSo.")
        assert server.model.forwards - before <= few // 4
        assert page.problems == []


def test_a_short_message_is_not(browser, server):
    with opened(browser, server.address) as page:
        page.fill("#message", "why?")
        page.wait_for_timeout(1500)
        assert not server.model.held
