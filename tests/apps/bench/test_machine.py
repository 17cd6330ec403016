"""The facts beside the figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from localspec.apps.bench import machine
from localspec.interfaces.backend import Device


def test_versions_are_of_what_is_installed():
    shown = machine.versions(("no-such-package", "numpy"))
    assert shown.startswith("Python 3.")
    assert shown.endswith(f", numpy {np.__version__}")
    assert "no-such-package" not in shown


def test_a_machine_is_its_processor_and_what_else_can_compute():
    devices = [Device("some CPU", "cpu", 1, 1), Device("some GPU", "gpu", 1, 1)]
    shown = machine.machine(devices)
    assert shown.startswith(machine.processor())
    assert shown.endswith(", some GPU")
    assert "some CPU" not in shown


def test_an_installed_package_does_not_give_the_revision_of_a_folder_around_it():
    assert machine.revision(Path(__file__).parent).startswith("localspec ")


def test_a_command_can_be_repeated():
    assert machine.command("localspec", ["bench", "a model", "--limit", "1"]) == (
        "localspec bench 'a model' --limit 1"
    )
