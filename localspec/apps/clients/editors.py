"""The settings by which editors and other programs use a server."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click

from localspec.apps.clients.endpoint import Endpoint
from localspec.console.options.configuration import HIDDEN
from localspec.formats.templates.message import Json

NAME = "LocalSpec"
PORT = {"PORT": "3000"}  # its own default is the server's 8080


@dataclass(frozen=True, slots=True)
class Connection:
    """The way to connect a program: where the settings belong, and their text."""

    place: str
    text: str = ""  # to put there, or to run


def vscode(server: Endpoint) -> Connection:
    model: Json = {
        "id": server.model,
        "name": server.model,
        "url": f"{server.api}/chat/completions",
        "toolCalling": True,
        "vision": server.sees,
        "maxInputTokens": server.context - server.longest_reply,
        "maxOutputTokens": server.longest_reply,
    }
    group: Json = {
        "name": NAME,
        "vendor": "customendpoint",
        "apiKey": server.token,
        "apiType": "chat-completions",
        "models": [model],
    }
    path = application_folder() / "Code" / "User" / "chatLanguageModels.json"
    return Connection(f"a model of VS Code's chat (1.122 or newer), in {path}", as_json([group]))


def zed(server: Endpoint) -> Connection:
    model: Json = {
        "name": server.model,
        "display_name": f"{server.model} ({NAME})",
        "max_tokens": server.context,
        "max_output_tokens": server.longest_reply,
        "capabilities": {
            "tools": True,
            "images": server.sees,
            "parallel_tool_calls": True,
            "prompt_cache_key": False,
        },
    }
    provider: Json = {"api_url": server.api, "available_models": [model]}
    predictions = zed_predictions(server)
    path = zed_folder() / "settings.json"
    place = (
        f"a provider of Zed, in {path}; Zed reads the key from LOCALSPEC_API_KEY ({server.token})"
    )
    if predictions:
        place += "; it predicts edits, too, whose key Zed reads from its settings"
    settings: Json = {"language_models": {"openai_compatible": {NAME: provider}}, **predictions}
    return Connection(place, as_json(settings))


def zed_predictions(server: Endpoint) -> dict[str, Json]:
    """Write the settings of Zed's edit predictions, if the model can fill in the middle."""
    if not server.fill_in_format:
        return {}
    api: Json = {
        "api_url": f"{server.api}/completions",
        "model": server.model,
        "prompt_format": server.fill_in_format,
        "max_output_tokens": 64,
    }
    provider = "open_ai_compatible_api"
    return {"edit_predictions": {"provider": provider, provider: api}}


def continue_(server: Endpoint) -> Connection:
    common: dict[str, Json] = {
        "model": server.model,
        "apiBase": server.api,
        "apiKey": server.token,
        "contextLength": server.context,
    }
    chat: dict[str, Json] = {
        "name": NAME,
        "provider": "openai",
        **common,
        "roles": ["chat", "edit", "apply"],
        "capabilities": ["tool_use", *(["image_input"] if server.sees else [])],
    }
    # By the path of Mistral's API, which has the text before and after: the server knows the
    # model's tokens for that, and Continue only those of some models' names.
    completion: dict[str, Json] = {
        "name": f"{NAME} autocomplete",
        "provider": "mistral",
        **common,
        "roles": ["autocomplete"],
    }
    models = [chat, completion] if server.fills_in else [chat]
    header = "name: Local\nversion: 1.0.0\nschema: v1\nmodels:\n"
    path = Path.home() / ".continue" / "config.yaml"
    return Connection(f"a model of Continue, in {path}", header + "".join(map(yaml_item, models)))


def yaml_item(fields: Mapping[str, Json]) -> str:
    """Write an item of a YAML list, whose values are JSON, which is YAML too."""
    lines = [f"{name}: {json.dumps(value)}" for name, value in fields.items()]
    return "  - " + "\n    ".join(lines) + "\n"


def as_json(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def cline(server: Endpoint) -> Connection:
    place = (
        "Cline's settings: API Provider OpenAI Compatible, "
        f"Base URL {server.api}, API Key {server.token}, Model ID {server.model}, "
        f"Context Window Size {server.context}; or, for its command line:"
    )
    options = f"-k {server.token} -b {server.api} -m {server.model}"
    return Connection(place, f"cline auth -p openai-compatible {options}\n")


def jetbrains(server: Endpoint) -> Connection:
    return Connection(
        "Settings | Tools | AI Assistant | Providers & API keys, Third-party AI providers: "
        f"OpenAI-compatible, URL {server.api}, API Key {server.token}, tool calling on; "
        f"then choose {server.model} in the chat"
    )


def open_webui(server: Endpoint) -> Connection:
    variables = {
        "OPENAI_API_BASE_URL": server.api,
        "OPENAI_API_KEY": server.token,
        "ENABLE_OLLAMA_API": "false",
    }
    native = " ".join(f"{name}={value}" for name, value in variables.items())
    container = " ".join(f"-e {name}={value}" for name, value in (variables | PORT).items())
    return Connection(
        "Open WebUI reads its environment when it is first started; later its Admin Panel, "
        "Settings, Connections. With pip, or in a container on this machine's network:",
        f"{native} open-webui serve\n"
        f"docker run --network=host {container} ghcr.io/open-webui/open-webui:main\n",
    )


def zed_folder() -> Path:
    if sys.platform == "win32":
        return application_folder() / "Zed"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "zed"


def application_folder() -> Path:
    """The folder where programs of the desktop keep their settings."""
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


EDITORS: Mapping[str, Callable[[Endpoint], Connection]] = {
    "vscode": vscode,
    "continue": continue_,
    "zed": zed,
    "jetbrains": jetbrains,
    "open-webui": open_webui,
    "cline": cline,
}


def print_settings(program: str, server: Endpoint) -> None:
    """Print the settings of a program and where they belong, without the key."""
    connection = EDITORS[program](replace(server, key=server.key and HIDDEN))
    click.echo(f"# {connection.place}")
    if server.key:
        click.echo(f"# write the server's API key in place of {HIDDEN}")
    click.echo(connection.text, nl=False)
