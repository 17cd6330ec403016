"""System prompts under names: kept for this user alone, whatever the file holds."""

from __future__ import annotations

import pytest

from localspec.apps.chat import named_prompts
from localspec.apps.chat.commands import settings, table
from localspec.apps.chat.talk import Talk
from localspec.base.errors import UsageError


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_prompts_are_found_by_their_names_and_completed():
    named_prompts.save("two words", "Say two words.")
    named_prompts.save("brief", "Be brief.\nVery.\ud800")
    assert dict(named_prompts.everything()) == {
        "brief": "Be brief.\nVery.\ufffd",
        "two words": "Say two words.",
    }
    assert named_prompts.place().stat().st_mode & 0o077 == 0
    words = table.COMMANDS["/prompt"].values(Talk.__new__(Talk))
    assert words == ("brief", "two words", "save ", "forget brief", "forget two words")
    named_prompts.save("brief", "Be briefer.")
    named_prompts.forget("two words")
    assert dict(named_prompts.everything()) == {"brief": "Be briefer."}


@pytest.mark.parametrize("text", ["", "[", "[]", '{"a": 1}'])
def test_a_file_that_holds_no_prompts_does_no_harm(text):
    named_prompts.place().parent.mkdir(parents=True)
    named_prompts.place().write_text(text)
    if text.startswith("{"):
        assert named_prompts.everything() == {}
    else:
        with pytest.raises(UsageError, match="cannot be read"):
            named_prompts.save("brief", "Be brief.")
        assert named_prompts.place().read_text() == text
        assert settings.prompt_words(Talk.__new__(Talk)) == ("save ",)


@pytest.mark.parametrize("action", [settings.SAVE, settings.FORGET])
def test_what_has_no_name_is_refused(action):
    with pytest.raises(UsageError, match=f"name the prompt: /prompt {action} NAME"):
        settings.prompt(Talk.__new__(Talk), action)
