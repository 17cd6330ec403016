from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.scripted import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One for all tests that only ask; put what it should say into `replies`."""
    made = Server()
    yield made
    made.close()
