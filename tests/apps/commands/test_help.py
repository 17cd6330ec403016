"""The help of commands: what it shows, and what only on request."""

from __future__ import annotations

from localspec.apps.command_line import run


def test_samplers_stand_in_the_whole_help_alone(capsys):
    for command in ("chat", "generate"):
        assert run([command, "--help"]) == 0
        assert "--xtc-threshold" not in (short := capsys.readouterr().out)
        assert "--help-all" in short
        assert run([command, "--help-all"]) == 0
        assert "--xtc-threshold" in (whole := capsys.readouterr().out)
        assert "--context" in whole
    assert run(["serve", "--help"]) == 0
    assert "--help-all" not in capsys.readouterr().out
    assert run(["--man"]) == 0
    assert "xtc\\-threshold" in capsys.readouterr().out


def test_the_help_says_what_is_taken_where_nobody_chose(capsys):
    for command in ("chat", "generate"):
        assert run([command, "--help"]) == 0
        assert "0: greedy. [default: the model's]" in " ".join(capsys.readouterr().out.split())


def test_sizes_are_called_so_in_the_help(capsys):
    for command in ("plan", "serve", "worker"):
        assert run([command, "--help"]) == 0
        assert "SIZE" in (out := capsys.readouterr().out)
        assert "BYTES_IN" not in out
