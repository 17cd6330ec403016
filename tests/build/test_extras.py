"""What LocalSpec needs without its server and chat, and the message where a library is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest

from localspec.apps.command_line.extras import LIBRARIES
from tests import engines

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NEEDED = {"numpy", "jinja2", "llguidance", "huggingface-hub", "filelock", "platformdirs", "psutil"}
NEEDED |= {"pillow"}
ENGINE, OTHER_ENGINES = "llama-cpp-python", {"mlx", "mlx-lm"}

BLOCKING = """
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

blocked = set(sys.argv.pop(1).split(","))
sys.meta_path.insert(0, Blocked())
"""
EMBEDDED = """
import localspec

schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
loading = localspec.Loading(localspec.Options(context=256))
with localspec.load(sys.argv[1], loading=loading) as model:
    print(model.generate("the", max_tokens=4).finish_reason)
    print(model.generate("the", max_tokens=40, json_schema=schema).text[:1])
"""
COMMAND = """
from localspec.apps.command_line import run

sys.exit(run(sys.argv[1:]))
"""


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def with_what_they_need(names):
    """Add what the distributions need themselves, without extras."""
    closure, new = set(), set(names)
    while new:
        closure |= new
        needed = set()
        for name in new:
            try:
                needed |= {name_of(line) for line in requires(name) or () if "extra ==" not in line}
            except PackageNotFoundError:  # of another system
                continue
        new = needed - closure
    return closure


def blocked_modules():
    allowed = with_what_they_need(NEEDED | {ENGINE}) | {"localspec"}
    return [
        module
        for module, owners in packages_distributions().items()
        if not {name_of(owner) for owner in owners} & allowed
    ]


def run_without(modules, script, *arguments):
    command = [sys.executable, "-c", BLOCKING + script, ",".join(modules), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_model_is_loaded_and_answers_with_the_libraries_of_the_core_alone():
    modules = blocked_modules()
    assert {"rich", "starlette", "pydantic_core", "httpx", "prompt_toolkit"} <= set(modules)
    done = run_without(modules, EMBEDDED, str(engines.tiny("llama")))
    assert (done.stdout, done.stderr) == ("length\n{\n", "")


@pytest.mark.parametrize("extra", LIBRARIES)
def test_a_command_answers_without_the_libraries_of_the_server_and_of_the_chat(extra):
    model = str(engines.tiny("llama"))
    done = run_without(LIBRARIES[extra], COMMAND, "generate", model, "the", "--max-tokens", "4")
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [("chat", ("chat", "MODEL", "What?")), ("server", ("serve", "MODEL", "--port", "0"))],
)
def test_a_missing_library_names_the_command_that_installs_it(extra, arguments):
    model = str(engines.tiny("llama"))
    typed = [model if word == "MODEL" else word for word in arguments]
    done = run_without(LIBRARIES[extra], COMMAND, *typed)
    [line] = done.stderr.splitlines()
    assert re.fullmatch(
        rf'localspec: \w+ is not installed: pip install "localspec\[{extra}\]"', line
    )
    assert done.returncode == 1


def test_another_missing_module_is_a_defect_and_shown_as_such():
    done = run_without(["localspec_nowhere", "psutil"], COMMAND, "doctor")
    assert "ModuleNotFoundError" in done.stderr


@pytest.mark.parametrize("extra", LIBRARIES)
def test_an_extra_has_what_comes_with_localspec_anyway(extra):
    packages = PROJECT["optional-dependencies"][extra]
    assert set(packages) <= set(PROJECT["dependencies"])
    brought = with_what_they_need(map(name_of, packages))
    owners = packages_distributions()
    for library in LIBRARIES[extra]:
        assert {name_of(owner) for owner in owners[library]} & brought


def test_what_is_not_needed_is_in_an_extra_or_belongs_to_the_command_line():
    extras = {name_of(line) for e in LIBRARIES for line in PROJECT["optional-dependencies"][e]}
    others = {name_of(line) for line in PROJECT["dependencies"]} - NEEDED - OTHER_ENGINES
    assert others == extras | {ENGINE, "click"}
