"""The server under the command `llm`, as its documentation says to put one there."""

from __future__ import annotations

import gc
import json

import pytest
from click.testing import CliRunner
from llm.cli import cli

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
WEATHER = 'def weather(city: str) -> str:\n    "Tell the weather."\n    return f"rain in {city}"'


@pytest.fixture
def llm(server, tmp_path):
    """Runs the command with a home of its own, where it finds three ways to ask."""
    shared = {"model_name": "scripted", "api_base": f"{server.address}/v1"}
    able = shared | {"supports_schema": True, "supports_tools": True}
    models = [
        {"model_id": "local", **able},
        {"model_id": "items", "responses": True, **able},
        {"model_id": "text", "completion": True, **shared},
    ]
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps(models))  # which is YAML too
    home = {"LLM_USER_PATH": str(tmp_path)}

    def run(*arguments: str, given: str = "") -> str:
        done = CliRunner().invoke(cli, arguments, given, home)
        assert done.exit_code == 0, done.output
        return done.output.strip()

    yield run
    gc.collect()  # it leaves its connections open


def test_a_prompt_is_answered(llm):
    assert llm("-m", "local", "größe?") == "You said: größe?"
    assert llm("-m", "local", "--no-stream", "-o", "max_tokens", "3", "here") == "You"


def test_a_conversation_goes_on(llm):
    assert llm("-m", "local", "first") == "You said: first"
    assert llm("-m", "local", "-c", "second", "-s", "Be brief.") == "You said: second"


def test_a_tool_of_the_users_is_called(server, llm):
    server.replies["rain today?"] = CALL
    asked = ("--functions", WEATHER, "rain today?")
    assert llm("-m", "local", *asked) == "You said: rain in Oslo"
    assert llm("-m", "local", "--no-stream", *asked) == "You said: rain in Oslo"


def test_a_reply_follows_a_schema(server, llm):
    server.replies["who?"] = '{"name": "Ada", "age": 36}'
    output = llm("-m", "local", "--schema", "name, age int", "who?")
    assert json.loads(output) == {"name": "Ada", "age": 36}


def test_a_text_is_gone_on_with(llm):
    assert llm("-m", "text", "-o", "max_tokens", "5", given="a text") == "YYYYY"


def test_the_api_of_items_is_spoken_too(llm):
    assert llm("-m", "items", "here") == "You said: here"
