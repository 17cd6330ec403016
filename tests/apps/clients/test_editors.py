"""Editors, by the settings that the documentation has for them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from localspec.apps.clients.running import endpoint_at
from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.safety import Rules
from tests.apps.server.coder import Coder
from tests.apps.server.scripted import Server
from tests.apps.server.seeing import seeing

PAGE = Path(__file__).parents[3] / "docs" / "server" / "clients.md"
USUAL = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def editors():
    """The settings as the page has them: of Zed, VS Code and Continue."""
    _, text = PAGE.read_text(encoding="utf-8").split("## Editors\n")
    blocks = re.findall(r"```(json|yaml)\n(.*?)```", text, re.DOTALL)
    return [json.loads(block) if kind == "json" else block for kind, block in blocks]


def test_a_chat_of_an_editor_is_answered(editors):
    zed, vscode, continue_ = editors
    server = Server()
    try:
        bases = [
            zed["language_models"]["openai_compatible"]["LocalSpec"]["api_url"],
            vscode[0]["models"][0]["url"].removesuffix("/chat/completions"),
            *re.findall(r"apiBase: (\S+)", continue_),
        ]
        assert set(bases) == {f"{USUAL}/v1"}
        asked = {"model": "scripted", "messages": [{"role": "user", "content": "one"}]}
        [base] = set(bases)
        url = base.replace(USUAL, server.address)
        answer = server.client.post(f"{url}/chat/completions", json=asked).json()
        assert answer["choices"][0]["message"]["content"] == "You said: one"
    finally:
        server.close()


def test_a_middle_is_filled_in_by_the_paths_of_zed_and_continue(editors):
    """Continue goes by the path of Mistral's API: it knows the tokens of some models only."""
    zed, _, continue_ = editors
    prediction = zed["edit_predictions"]["open_ai_compatible_api"]
    assert "provider: mistral" in continue_
    coder = Coder()
    try:
        for url in (prediction["api_url"], f"{USUAL}/v1/fim/completions"):
            body = {"model": "scripted", "prompt": "def add(", "suffix": ")", "max_tokens": 4}
            answer = coder.server.client.post(url.replace(USUAL, coder.server.address), json=body)
            assert answer.status_code == 200
    finally:
        coder.server.close()


def test_a_server_is_asked_whether_its_model_sees():
    server = Server(policy=ServerPolicy(Rules(keys=("the-key",))))
    try:
        assert not endpoint_at(server.address, "the-key").sees
    finally:
        server.close()
    seer = seeing()
    try:
        assert endpoint_at(seer.address, "").sees
    finally:
        seer.close()
