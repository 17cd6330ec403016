"""The scripts of a checkout, which a Python of any age may be asked to run."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import environment
from localspec_build import kernels, records, wheels
from localspec_build.failure import SetupFailed
from localspec_build.records import BuildRequest, Installed

ROOT = Path(__file__).parents[2]


def test_an_old_python_reads_the_scripts_as_far_as_the_version_test():
    for name in ("environment.py", "start", "test", "check"):
        ast.parse((ROOT / "scripts" / name).read_text(), feature_version=(3, 6))


def test_the_set_up_needs_nothing_that_has_to_be_installed():
    code = "import environment; print(environment.build())"
    alone = subprocess.run(
        [sys.executable, "-S", "-c", code],  # without site-packages
        cwd=ROOT / "scripts",
        capture_output=True,
        text=True,
        check=True,
    )
    assert alone.stdout.startswith("build ")


def test_another_choice_is_another_set_up(site):
    before = environment.build()
    records.remember(BuildRequest("cpu"))
    processor = environment.build()
    records.remember(BuildRequest("cpu", asked=True))
    assert environment.build() == processor
    records.remember(BuildRequest("cuda"))
    assert len({before, processor, environment.build()}) == 3
    assert environment.build() in environment.facts(["dev"])


def test_an_environment_behind_a_link_is_not_cleared(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kept").touch()
    (tmp_path / ".venv").symlink_to(tmp_path / "other")
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    with pytest.raises(SetupFailed, match="remove it"):
        environment.create()
    assert (tmp_path / "other" / "kept").exists()


def test_a_build_for_many_processors_is_enough_to_start_and_not_to_test(site, monkeypatch):
    monkeypatch.setattr(environment, "VENV", site.root)
    assert environment.own_build()
    records.note(site.root, Installed("cpu", "x86_64", "cpu"))
    site.fake.tool("c++")
    assert not environment.own_build()
    monkeypatch.setenv("PATH", str(site.root / "empty"))
    assert environment.own_build()  # as far as can be had here
    records.note(site.root, Installed("cpu", "x86_64", "built here", products=kernels.current()))
    assert environment.own_build()


def test_a_build_with_other_products_starts_at_once_unless_a_better_one_was_kept(site, monkeypatch):
    monkeypatch.setattr(environment, "VENV", site.root)
    site.fake.tool("c++")
    records.note(site.root, Installed("cpu", "x86_64", "built here", products="0123456789ab"))
    assert not environment.own_build()
    assert environment.own_build(quick=True)
    kept = wheels.place("cpu", ())
    kept.mkdir(parents=True)
    (kept / "llama_cpp_python-1.whl").touch()
    assert not environment.own_build(quick=True)  # to install it takes seconds


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("bench", "engine  "),
        ("bench peers", "--max-tokens     of a reply"),
        ("bench engine", "a bare loop of llama_decode"),
        ("soak", "--folder"),
        ("zoo", "make|check|keep"),
        ("simulate", "depth controller"),
        ("check-catalog", "--catalogue"),
        ("test", "--vulkan"),
        ("check", "static check"),
        ("start", "a prompt"),
    ],
)
def test_help_of_a_script_comes_without_an_installation(tmp_path, script, words):
    for name in ("scripts", "backends/localspec_build"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    name, *rest = script.split()
    command = [sys.executable, "-S", str(tmp_path / "scripts" / name), *rest, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert words in done.stdout
    assert done.stderr == ""
    assert not (tmp_path / ".venv").exists()
