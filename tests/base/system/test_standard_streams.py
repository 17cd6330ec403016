"""The command with its standard streams closed, full, or of an encoding that lacks characters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "localspec"]
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX closes the streams")


def in_shell(redirected, *arguments, **environment):
    command = ["sh", "-c", f'"$@" {redirected}', "sh", *COMMAND, *arguments]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, timeout=60, check=False
    )


@POSIX
@pytest.mark.parametrize("redirected", [">&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_crash(redirected):
    done = in_shell(redirected, "config")
    assert (done.returncode, done.stderr) == (0, b"")


@POSIX
def test_no_file_gets_the_number_of_a_closed_stream():
    script = "from localspec.base.system import standard_streams; standard_streams.make_usable(); "
    script += "import os; print(os.open(os.devnull, os.O_RDONLY))"
    command = ["sh", "-c", '"$@" <&- 2>&-', "sh", sys.executable, "-c", script]
    assert int(subprocess.check_output(command, timeout=60)) > 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is full")
def test_a_full_disk_under_the_output_is_told_in_a_line():
    done = in_shell("> /dev/full", "config")
    line = b"localspec: a file, or the output, cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, line)


@POSIX
def test_a_character_that_the_output_cannot_encode_is_written_as_its_number(tmp_path):
    home = str(tmp_path / "☃")
    done = in_shell("", "config", PYTHONIOENCODING="latin-1", HOME=home, XDG_CONFIG_HOME=home)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u2603" in done.stdout
