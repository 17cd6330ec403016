from __future__ import annotations

from collections.abc import Iterator

import pytest

from localspec.apps.server.app import ServerPolicy
from tests.apps.server.coder import Coder
from tests.apps.server.scripted import Server


@pytest.fixture(scope="session")
def strict() -> Iterator[Server]:
    """One that refuses what it would otherwise take and tell."""
    made = Server(policy=ServerPolicy(strict=True))
    yield made
    made.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One for all tests that only ask; put what it should say into `replies`."""
    made = Server()
    yield made
    made.close()


@pytest.fixture(scope="module")
def out_of_time() -> Iterator[Coder]:
    """Gives a reply no more than a fifth of a second."""
    made = Coder({"long": "word " * 1500}, Server(policy=ServerPolicy(reply_seconds=0.2)))
    yield made
    made.server.close()
