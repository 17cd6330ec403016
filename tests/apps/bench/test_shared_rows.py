"""The table of rows that strangers send: what it shows, and what it refuses."""

from __future__ import annotations

import json

import pytest

from localspec.apps.bench import share
from results import rows, table


@pytest.fixture(scope="module")
def sent():
    """A row of the folder, as somebody sent it."""
    file = min(table.FOLDER.glob("*.jsonl"))
    return json.loads(file.read_text(encoding="utf-8").splitlines()[0])


def changed(row, place, value):
    row = json.loads(json.dumps(row))
    *parts, last = place.split("/")
    within = row
    for part in parts:
        within = within[part]
    within[last] = value
    return row


def test_a_row_of_a_run_is_shown_with_its_kinds(sent, tmp_path):
    row = rows.row_of(json.dumps(sent))
    assert len(row.texts) == row.prompts
    (tmp_path / "a.jsonl").write_text(json.dumps(sent) + "\n\n" + json.dumps(sent))
    page = f"before\n{table.BEGIN}old{table.END}after\n"
    shown = table.replaced(page, tmp_path)
    assert shown.startswith("before\n")
    assert shown.endswith("after\n")
    assert shown.count("tokens/s") == 2
    assert "edit " in shown
    assert "old" not in shown


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        ("texts/edit 1", "another text", "its texts do not have the sum"),
        ("texts_sha256", "0" * 64, "its texts do not have the sum"),
        ("modes/auto/texts_sha256", "0" * 64, "has another sum"),
        ("modes/auto/high", 0.01, "not between"),
        ("modes/auto/texts_of_plain", 99, "99 equal texts"),
        ("modes/auto/more", 1, "modes.auto.more"),
        ("modes", {}, "modes"),
        ("prompts", 99, "do not have 99 prompts"),
        ("plain_tokens_per_second", 0.0, "plain_tokens_per_second"),
        ("plain_tokens_per_second", float("nan"), "plain_tokens_per_second"),
        ("prove", None, "prove"),
        ("prove/equal_texts", 999, "more texts"),
        ("format", share.FORMAT + 1, "format"),
        ("model/sha256", ["x"], "model.sha256.0"),
        ("texts", None, "texts"),
        ("host", "alice", "host"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(sent, place, value, why, tmp_path):
    (tmp_path / "b.jsonl").write_text("\n" + json.dumps(changed(sent, place, value)))
    with pytest.raises(ValueError, match=f"line 2 of b.jsonl: .*{why}"):
        list(rows.rows_in(tmp_path))


def test_a_row_writes_no_markdown_of_its_own(sent):
    evil = "x | [a](https://b.example) <script>`**y**"
    row = changed(changed(sent, "name", evil), "hardware/processor", evil)
    line = list(table.lines([rows.row_of(json.dumps(row))]))[-1]
    assert line.count("|") == len(table.HEAD) + 1
    assert not set("[]<>`*:(") & set("".join(line.split("|")[1:3]))


def test_the_table_shows_the_rows_of_its_folder():
    page = (table.FOLDER / "README.md").read_text(encoding="utf-8")
    assert table.replaced(page) == page, "run `python -m results.table` in scripts/"
