"""A library that loads is tried: one that was built for another processor dies in a product."""

from __future__ import annotations

import sys
from pathlib import Path

from localspec_build.target import Target
from localspec_build.trial import trial


def test_the_library_that_is_installed_loads_computes_and_names_its_backends():
    tried = trial(Target(sys.executable, Path(sys.prefix), ""))
    assert "CPU" in tried.names
    assert tried.fault == ""


def test_instructions_that_the_processor_lacks_are_the_fault_and_not_a_number(site):
    dying = site.fake.tool("dying", "kill -ILL $$")
    tried = trial(site.target._replace(python=str(dying)))
    assert tried == ((), "it has instructions that this processor lacks")
