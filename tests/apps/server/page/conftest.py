from __future__ import annotations

import pytest

from tests.apps.server.page.browser import chromium


@pytest.fixture(scope="module")
def browser():
    with chromium() as made:
        yield made
