"""Completion by TAB, in the shells that are here, set up as docs/cli.md says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shells of Unix")

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
# By shell: what completes the words `localspec` and $1, and prints what it offers.
SHELLS = {
    "bash": (
        ["bash", "--norc", "-c"],
        'eval "$(_LOCALSPEC_COMPLETE=bash_source localspec)"',
        "COMP_WORDS=(localspec $1) COMP_CWORD=1; _localspec_completion localspec; echo $COMPREPLY",
    ),
    "zsh": (
        ["zsh", "-f", "-c"],
        'eval "$(_LOCALSPEC_COMPLETE=zsh_source localspec)"',
        "_describe() { print -l ${(P)3} }; words=(localspec $1) CURRENT=2; _localspec_completion",
    ),
    "fish": (
        ["fish", "--no-config", "-c"],
        "_LOCALSPEC_COMPLETE=fish_source localspec | source",
        'complete -C "localspec $argv[1]"',
    ),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_the_name_of_a_command(shell):
    start, setting_up, complete = SHELLS[shell]
    assert setting_up in PAGE
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not here")
    if shell == "zsh":
        setting_up = f"autoload -Uz compinit; compinit -D; {setting_up}"
    words = ["pul"] if shell == "fish" else [shell, "pul"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*start, f"{setting_up}\n{complete}", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PATH": path},
    )
    assert done.stdout.replace(":", "\t").split("\t")[0].strip() == "pull", done.stderr
