"""A hub on loopback, and a user's home to pull into."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running.pulling.fake_hub import FakeHub
from tests.running.pulling.home import Home


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    made = FakeHub()
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory) -> Path:
    """Verdicts on files that were tried already."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def home(tmp_path, hub, shared_cache) -> Home:
    return Home(tmp_path, hub, shared_cache)
