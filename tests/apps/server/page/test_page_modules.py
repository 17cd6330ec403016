"""The modules of the page that need no browser, each by a script in `js` that is run by node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from localspec.apps.server.page.routes import FOLDER

SCRIPTS = Path(__file__).parent / "js"
NODE = shutil.which("node")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The page's files where node takes them for modules."""
    copy = tmp_path_factory.mktemp("site")
    shutil.copytree(FOLDER, copy, dirs_exist_ok=True)
    (copy / "package.json").write_text('{"type": "module"}')
    return copy


@pytest.mark.skipif(NODE is None, reason="there is no node")
@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.mjs")), ids=lambda path: path.stem)
def test_modules_of_the_page_work(site, script):
    command = [str(NODE), "--test-reporter=tap", str(script), str(site)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n# pass 0\n" not in done.stdout
