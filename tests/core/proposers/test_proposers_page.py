"""The sample proposer of docs/proposers.md, run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from tests.runs import Want, replies, said, scripted

PAGE = Path(__file__).parents[3] / "docs" / "proposers.md"
WANTS = [Want([1, 2, 1, 2, 3], Settings(max_tokens=80, ignore_end=True))]


def sample():
    """Run the page's Python; return its class, and the method that the page adds to it."""
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    return names["make"], names["quiet"]


def test_the_sample_proposer_drafts_and_changes_no_text():
    make, _ = sample()
    [reply] = replies(scripted(), make(None), WANTS)
    assert said([reply]) == said(replies(scripted(), Silent(), WANTS))
    assert reply.speculation.tokens_by_source["echo"] > 0


def test_the_sample_proposer_is_quiet_where_it_has_no_draft():
    make, quiet = sample()
    echo = make(None)
    [asked] = replies(scripted(), echo, WANTS)
    type(echo).quiet = quiet
    [quieter] = replies(scripted(), make(None), WANTS)
    assert said([quieter]) == said([asked])
    assert quieter.speculation.drafted == asked.speculation.drafted
