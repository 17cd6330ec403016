"""The server through clients of JavaScript, each a script in `js` that is run by node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.apps.server.seeing import DATA, seeing

SCRIPTS = Path(__file__).parent / "js"
NODE = shutil.which("node")
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


@pytest.mark.skipif(NODE is None, reason="there is no node")
@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.mjs")), ids=lambda path: path.stem)
def test_a_client_of_javascript_is_served(server, script):
    server.replies |= {"rain today?": CALL, "who?": '{"name": "Ada", "age": 36}'}
    run(script, server.address)


@pytest.mark.skipif(NODE is None, reason="there is no node")
@pytest.mark.parametrize(
    "script", sorted((SCRIPTS / "pictures").glob("*.mjs")), ids=lambda path: path.stem
)
def test_a_client_of_javascript_shows_pictures(script):
    made = seeing()
    try:
        run(script, made.address, DATA["red"])
    finally:
        made.close()


def run(script: Path, *arguments: str) -> None:
    if not (SCRIPTS / "node_modules").is_dir():
        pytest.fail(f"its packages are missing: npm install --no-package-lock --prefix {SCRIPTS}")
    command = [str(NODE), "--test-reporter=tap", str(script), *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n# pass 0\n" not in done.stdout
