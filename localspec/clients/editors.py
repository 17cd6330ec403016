"""The settings by which editors and other programs use a server, and the files for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localspec.clients import jsonc, yaml_list
from localspec.clients.endpoint import Endpoint
from localspec.templates.message import Json

NAME = "LocalSpec"


@dataclass(frozen=True, slots=True)
class Change:
    """One of a program's files, and how its text is changed."""

    path: Path
    apply: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Connection:
    """The way to connect a program: by hand, or by a change of its file."""

    how: str
    text: str = ""  # to be put somewhere, or to be run
    change: Change | None = None


def vscode(server: Endpoint) -> Connection:
    model: Json = {
        "id": server.model,
        "name": server.model,
        "url": f"{server.api}/chat/completions",
        "toolCalling": True,
        "vision": False,
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
    change = in_json(path, [jsonc.Element("name", NAME)], group)
    how = f"a model of VS Code's chat (1.122 or newer), in {change.path}"
    return Connection(how, change.apply(""), change)


def zed(server: Endpoint) -> Connection:
    model: Json = {
        "name": server.model,
        "display_name": f"{server.model} ({NAME})",
        "max_tokens": server.context,
        "max_output_tokens": server.longest_reply,
        "capabilities": {
            "tools": True,
            "images": False,
            "parallel_tool_calls": True,
            "prompt_cache_key": False,
        },
    }
    provider: Json = {"api_url": server.api, "available_models": [model]}
    path = zed_folder() / "settings.json"
    predictions = zed_predictions(server)

    def apply(text: str) -> str:
        text = jsonc.put(text, ["language_models", "openai_compatible", NAME], provider)
        for way, value in predictions:
            text = jsonc.put(text, way, value)
        return text

    how = f"a provider of Zed, in {path}; Zed takes the key from LOCALSPEC_API_KEY ({server.token})"
    if predictions:
        how += "; it predicts edits, too, whose key Zed takes from its settings"
    return Connection(how, apply(""), Change(path, apply))


def zed_predictions(server: Endpoint) -> Sequence[tuple[Sequence[jsonc.Step], Json]]:
    """List the settings by which Zed completes as one types, if the model can do that."""
    if not server.fill_in_format:
        return ()
    api: Json = {
        "api_url": f"{server.api}/completions",
        "model": server.model,
        "prompt_format": server.fill_in_format,
        "max_output_tokens": 64,
    }
    chosen = "open_ai_compatible_api"
    return (
        (["edit_predictions", "provider"], chosen),
        (["edit_predictions", chosen], api),
    )


def continue_(server: Endpoint) -> Connection:
    path = Path.home() / ".continue" / "config.yaml"
    entry: yaml_list.Entry = {
        "name": NAME,
        "provider": "openai",
        "model": server.model,
        "apiBase": server.api,
        "apiKey": server.token,
        "contextLength": server.context,
        "roles": ["chat", "edit", "apply"],
        "capabilities": ["tool_use"],
    }
    # By the path of Mistral's API, which has the text before and behind: the server knows the
    # model's tokens for that, and Continue only those of some models' names.
    completing: yaml_list.Entry = {
        "name": f"{NAME} autocomplete",
        "provider": "mistral",
        "model": server.model,
        "apiBase": server.api,
        "apiKey": server.token,
        "contextLength": server.context,
        "roles": ["autocomplete"],
    }
    empty = "name: Local\nversion: 1.0.0\nschema: v1\nmodels:\n"

    def apply(text: str) -> str:
        text = yaml_list.put(text if text.strip() else empty, "models", entry)
        return yaml_list.put(text, "models", completing) if server.fills_in else text

    return Connection(f"a model of Continue, in {path}", apply(""), Change(path, apply))


def cline(server: Endpoint) -> Connection:
    how = (
        "Cline's settings: API Provider OpenAI Compatible, "
        f"Base URL {server.api}, API Key {server.token}, Model ID {server.model}, "
        f"Context Window Size {server.context}; or, for its command line:"
    )
    told = f"-k {server.token} -b {server.api} -m {server.model}"
    return Connection(how, f"cline auth -p openai-compatible {told}\n")


def jetbrains(server: Endpoint) -> Connection:
    return Connection(
        "Settings | Tools | AI Assistant | Providers & API keys, Third-party AI providers: "
        f"OpenAI-compatible, URL {server.api}, API Key {server.token}, tool calling on; "
        f"then choose {server.model} in the chat"
    )


def open_webui(server: Endpoint) -> Connection:
    told = {
        "OPENAI_API_BASE_URL": server.api,
        "OPENAI_API_KEY": server.token,
        "ENABLE_OLLAMA_API": "false",
    }
    here = " ".join(f"{key}={value}" for key, value in told.items())
    inside = " ".join(f"-e {key}={value}" for key, value in (told | {"PORT": "3000"}).items())
    return Connection(
        "Open WebUI is told by its environment when it is first started; later by its Admin "
        "Panel, Settings, Connections. With pip, or in a container on this machine's network:",
        f"{here} open-webui serve\n"
        f"docker run --network=host {inside} ghcr.io/open-webui/open-webui:main\n",
    )


def in_json(path: Path, way: Sequence[jsonc.Step], value: Json) -> Change:
    return Change(path, lambda text: jsonc.put(text, way, value))


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
