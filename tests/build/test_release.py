"""A release: one version, changes that are cut from a log, workflows whose actions are pinned."""

from __future__ import annotations

import hashlib
import re
import runpy
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RELEASE = runpy.run_path(str(ROOT / "scripts" / "release"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
OLD = "## [1.0.0] - 2020-01-01\n\n- Legs.\n"
CHANGES = f"# Changelog\n\n## [Unreleased]\n\n### Added\n\n- Wings.\n\n{OLD}"
PIN = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*")


def steps(workflow):
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job.get("steps", ())]


def test_the_version_stands_in_one_place():
    own = RELEASE["version"](PROJECT)
    assert version("localspec") == own
    spelt = re.compile(rf"(?<![\w.=]){re.escape(own)}(?![\w.])")
    folders = ("localspec", "backends", "scripts", ".github")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.is_file()]
    sources = [file for file in files if file.suffix in (".py", ".rb", ".yml", ".yaml", "")]
    assert not [file for file in sources if spelt.search(file.read_text("utf-8", "replace"))]


def test_a_release_is_cut_from_what_is_unreleased():
    project, changes = RELEASE["cut"](PROJECT, CHANGES, "9.8.7", "2030-02-03")
    assert RELEASE["version"](project) == "9.8.7"
    assert RELEASE["notes"](changes, "[Unreleased]") == ""
    assert RELEASE["notes"](changes, "[9.8.7]") == "### Added\n\n- Wings."
    assert RELEASE["fault"](project, changes, "v9.8.7") == ""
    with pytest.raises(SystemExit, match="nothing below"):
        RELEASE["cut"](project, changes, "9.8.8", "2030-02-04")
    with pytest.raises(SystemExit, match=r"has 1\.0\.0 already"):
        RELEASE["cut"](PROJECT, CHANGES, "1.0.0", "2030-02-03")
    with pytest.raises(SystemExit, match="no version"):
        RELEASE["cut"](PROJECT, CHANGES, "v2", "2030-02-03")


def test_a_tag_that_the_files_do_not_name_is_refused():
    assert "tag v" in RELEASE["fault"](PROJECT, CHANGES, "v0.0.1")
    own = RELEASE["version"](PROJECT)
    assert "no section" in RELEASE["fault"](PROJECT, CHANGES, f"v{own}")


def test_there_are_changes_to_release():
    assert RELEASE["notes"]((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), "[")


def test_the_formula_of_a_tap_names_the_published_package_by_its_sum(tmp_path):
    sdist = tmp_path / "localspec-9.8.7.tar.gz"
    sdist.write_bytes(b"sources")
    text = (ROOT / "scripts" / "packaging" / "localspec.rb").read_text(encoding="utf-8")
    formula = RELEASE["formula"](text, sdist)
    assert f'sha256 "{hashlib.sha256(b"sources").hexdigest()}"' in formula
    assert '/localspec-9.8.7.tar.gz"' in formula
    assert "file:" not in formula
    assert "pyproject" not in formula


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_of_others_are_pinned_by_the_sums_of_their_commits(workflow):
    text = workflow.read_text(encoding="utf-8")
    used = [line.partition("uses: ")[2] for line in text.splitlines() if "uses: " in line]
    assert not [action for action in used if not (PIN.fullmatch(action) or action.startswith("./"))]


def test_an_action_has_one_sum_in_all_workflows():
    used = {step["uses"] for workflow in WORKFLOWS for step in steps(workflow) if "uses" in step}
    names = [action.partition("@")[0] for action in used]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_read_and_each_job_names_what_else_it_may(workflow):
    plan = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert plan["permissions"] == {"contents": "read"}
    writers = {name for name, job in plan["jobs"].items() if "permissions" in job}
    assert writers <= {"bill-of-materials", "pypi", "images", "page"}
    for step in steps(workflow):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}
        assert "${{" not in step.get("run", "")  # whose words a shell would run


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_script_that_a_workflow_runs_is_there(workflow):
    for step in steps(workflow):
        for script in re.findall(r"scripts/[\w-]+(?:/[\w.-]+)?", step.get("run", "")):
            assert (ROOT / script).is_file(), script


def test_the_readme_of_a_package_leads_nowhere_but_to_the_repository():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    absolute = RELEASE["absolute"](text, "https://example.com/a/b", "v9")
    links = re.findall(r'\]\(([^)\s]+)|\bsrc(?:set)?="([^"]+)', absolute)
    addresses = [link or picture for link, picture in links]
    assert "https://example.com/a/b/blob/v9/docs/exactness.md" in addresses
    assert "https://example.com/a/b/raw/v9/docs/pictures/chat.svg" in addresses
    assert not [address for address in addresses if not address.startswith(("https://", "#"))]
