"""Columns of a list, in a terminal of any width."""

from __future__ import annotations

import pytest

from localspec.console.columns import fitting

HEAD = ("NAME", "ENGINE", "DRAFTER", "")
ROWS = [HEAD, ("qwen3-8b", "llamacpp", "model 611 MiB", "fits"), ("tiny", "mlx", "", "is here")]


@pytest.mark.parametrize(
    ("width", "head"),
    [
        (None, "NAME      ENGINE    DRAFTER"),
        (42, "NAME      ENGINE    DRAFTER"),
        (41, "NAME      DRAFTER"),
        (31, "NAME"),
        (5, "NAME"),
    ],
)
def test_what_does_not_fit_in_a_terminal_is_left_out_and_never_the_name_or_the_state(width, head):
    first, *lines = fitting(ROWS, width, ("ENGINE", "DRAFTER")).splitlines()
    assert first == head
    assert [line.split()[0] for line in lines] == ["qwen3-8b", "tiny"]
    assert lines[0].endswith("fits")
    assert lines[1].endswith("is here")
    assert width in (None, 5) or max(map(len, lines)) <= width
