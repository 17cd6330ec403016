"""What a user is told while llama.cpp is built, and how long it is said to take."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from localspec_build import effort
from localspec_build.progress import BuildProgress


def test_files_are_counted_and_the_time_left_is_told_after_the_first_minute():
    progress = BuildProgress()
    progress.feed("  *** Configuring CMake...\n", 5)
    assert progress.line(5) == "0:05 *** Configuring CMake..."
    progress.feed("  [1/80] /usr/bin/g++ -DX one.cpp\n  [20/80] /usr/bin/g++ -DX", 20)
    assert progress.line(59) == "0:59 compiled 20 of 80 files"
    assert progress.line(80) == "1:20 compiled 20 of 80 files, about 3 minutes left"
    progress.feed(" two.cpp\nx.h:1: warning: [99/100] is no count\n", 81)
    assert progress.line(81).startswith("1:21 compiled 20 of 80 files, ")
    progress.feed("  [79/80] /usr/bin/g++", 100)
    assert progress.line(100).endswith("about 1 minute left")
    progress.feed("  [80/80] : && /usr/bin/g++ -shared\n  -- Installing: lib\n", 101)
    assert progress.line(101) == "1:41 -- Installing: lib"


def test_the_build_of_a_tool_inside_a_build_is_not_taken_for_the_whole():
    progress = BuildProgress()
    progress.feed("[5/200] x\n[1/2] Building CXX object vulkan-shaders-gen\n[2/2] Linking\n", 1)
    assert progress.line(1) == "0:01 compiled 5 of 200 files"


def test_make_counts_in_per_cent():
    progress = BuildProgress()
    progress.feed("[ 12%] Building CXX object a.o\n", 1)
    assert progress.line(1) == "0:01 compiled 12%"


def test_minutes_are_said_for_the_cores_of_this_machine():
    assert effort.duration_text("cpu", "", 1) == "3 to 10 minutes on one core"
    assert effort.duration_text("cpu", "", 2).endswith("so 2 to 5 on the 2 here if they are free")
    assert effort.duration_text("cuda", "4", 16).endswith(
        "so 6 to 18 on the 4 here if they are free"
    )
    assert effort.duration_text("custom", "64", 2) == effort.duration_text("cpu", "", 2)
    assert effort.cores() >= 1


@pytest.mark.skipif(sys.platform == "win32", reason="it has no pseudo-terminals")
def test_a_terminal_shows_one_line_that_changes(tmp_path):
    import pty

    script = "echo '[1/9] a'; sleep 1.2; echo Successfully built"
    code = (
        "from localspec_build import pip; from pathlib import Path\n"
        f"pip.run(['sh', '-c', {script!r}], log=Path('log'))"
    )
    screen, terminal = pty.openpty()
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, stderr=terminal, check=True)
    os.close(terminal)
    lines = os.read(screen, 4096).decode()
    os.close(screen)
    assert "0:01 compiled 1 of 9 files" in lines
    assert lines.count("\n") == 1
