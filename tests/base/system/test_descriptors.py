"""The limit of open files, which libraries change."""

from __future__ import annotations

import sys

import pytest

from localspec.base.system.descriptors import limit_kept

resource = pytest.importorskip("resource")  # Windows has none

LOWERS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE))
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    (tmp_path / "lowers_the_limit.py").write_text(LOWERS)
    monkeypatch.syspath_prepend(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield limits
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    sys.modules.pop("lowers_the_limit", None)


def test_a_library_that_lowers_it_does_not_while_it_is_imported(library):
    set_limit = resource.setrlimit
    with limit_kept():
        import lowers_the_limit  # noqa: F401
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == library
    assert resource.setrlimit is set_limit


def test_the_function_is_put_back_where_an_import_fails():
    set_limit = resource.setrlimit
    with pytest.raises(ModuleNotFoundError), limit_kept():
        import no_such_library  # noqa: F401
    assert resource.setrlimit is set_limit
