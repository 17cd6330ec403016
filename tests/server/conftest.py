from __future__ import annotations

from collections.abc import Iterator

import pytest

from localspec.server.app import Terms
from tests.server.scripted import Server


@pytest.fixture(scope="session")
def strict() -> Iterator[Server]:
    """One that refuses what it would otherwise take and tell."""
    made = Server(terms=Terms(strict=True))
    yield made
    made.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One for all tests that only ask; put what it should say into `replies`."""
    made = Server()
    yield made
    made.close()
