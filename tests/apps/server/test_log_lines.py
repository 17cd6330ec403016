"""The lines of the log have their time, and go on in a new file when the old one is moved."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from localspec.apps.server.monitoring.log_lines import begin_log
from localspec.base.errors import UsageError

LOGS = """
import logging, pathlib, sys
from localspec.apps.server.monitoring.log_lines import begin_log
file = pathlib.Path(sys.argv[1]) if sys.argv[1:] else None
begin_log(file)
log = logging.getLogger("localspec.server")
log.info("one")
if file:
    file.rename(file.with_suffix(".old"))
log.info("zwei ü")
logging.getLogger("uvicorn.error").info("chatter")
"""
LINE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d localspec: "


def logged(*arguments):
    command = [sys.executable, "-c", LOGS, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=True)
    return done.stderr.decode()


def test_a_line_has_its_time():
    assert re.fullmatch(f"{LINE}one\n{LINE}zwei .*\n", logged())


@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open cannot be moved")
def test_a_log_that_is_moved_away_is_begun_anew_and_one_that_is_there_is_kept(tmp_path):
    file = tmp_path / "log"
    file.write_text("before\n")
    assert logged(file) == ""
    assert re.fullmatch(f"before\n{LINE}one\n", file.with_suffix(".old").read_text())
    assert re.fullmatch(f"{LINE}zwei ü\n", file.read_text("utf-8"))


def test_a_log_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(UsageError, match=r"cannot be written to .*No such file.*--log-file"):
        begin_log(tmp_path / "nowhere" / "log")
