"""Coding agents, set up for a server by variables, arguments and temporary files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from localspec.apps.clients.endpoint import Endpoint
from localspec.formats.templates.message import Json

PROVIDER = "localspec"


@dataclass(frozen=True, slots=True)
class Setup:
    """The start of a program: arguments and variables; a variable that is None is removed."""

    variables: Mapping[str, str | None]
    arguments: tuple[str, ...] = ()
    files: Mapping[Path, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Agent:
    program: str
    install: str  # the command that gets it
    setup: Callable[[Endpoint, Path], Setup]  # the folder is for its files


def claude(server: Endpoint, _: Path) -> Setup:
    names = ("OPUS", "SONNET", "HAIKU")
    models = {f"ANTHROPIC_DEFAULT_{name}_MODEL": server.model for name in names}
    others = ("ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX")
    return Setup(
        {
            "ANTHROPIC_BASE_URL": server.address,
            "ANTHROPIC_AUTH_TOKEN": server.token,
            "ANTHROPIC_MODEL": server.model,
            "ANTHROPIC_SMALL_FAST_MODEL": server.model,
            "CLAUDE_CODE_SUBAGENT_MODEL": server.model,
            "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(server.context),
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(server.longest_reply),
            # A header in the prompt that is another one each time: no prefix would be reused.
            "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            # After 300 s without a token, whatever pings come, it asks anew without a stream: its
            # first prompt takes longer on a slow machine.
            "CLAUDE_STREAM_IDLE_TIMEOUT_MS": "1800000",
        }
        | models
        | dict.fromkeys(others)
    )


def codex(server: Endpoint, _: Path) -> Setup:
    provider = {
        "name": "LocalSpec",
        "base_url": server.api,
        "wire_api": "responses",
        "env_key": "LOCALSPEC_API_KEY",
    }
    config = {
        "model": server.model,
        "model_provider": PROVIDER,
        **{f"model_providers.{PROVIDER}.{key}": value for key, value in provider.items()},
        "model_context_window": server.context,
        "features.view_image": server.sees,  # it thinks that models which it does not know see
        "check_for_update_on_startup": False,
        "analytics.enabled": False,
    }
    pairs = (f"{key}={json.dumps(value)}" for key, value in config.items())
    arguments = tuple(argument for pair in pairs for argument in ("-c", pair))
    return Setup({"LOCALSPEC_API_KEY": server.token}, arguments)


def opencode(server: Endpoint, _: Path) -> Setup:
    limit = {"context": server.context, "output": server.longest_reply}
    pictures: dict[str, Json] = {}
    if server.sees:
        modalities: Json = {"input": ["text", "image"], "output": ["text"]}
        pictures = {"attachment": True, "modalities": modalities}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "LocalSpec",
        "options": {"baseURL": server.api, "apiKey": server.token},
        "models": {server.model: {"name": server.model, "limit": limit, **pictures}},
    }
    model = f"{PROVIDER}/{server.model}"
    config = {
        "provider": {PROVIDER: provider},
        "model": model,
        "small_model": model,
        "autoupdate": False,
        "share": "disabled",
    }
    return Setup(
        {
            "OPENCODE_CONFIG_CONTENT": json.dumps(config),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        }
    )


def qwen(server: Endpoint, folder: Path) -> Setup:
    file = folder / "qwen-defaults.json"  # the user's own settings come before it
    settings = {
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        "model": {"generationConfig": {"contextWindowSize": server.context}},
    }
    return Setup(
        {
            "OPENAI_BASE_URL": server.api,
            "OPENAI_API_KEY": server.token,
            "OPENAI_MODEL": server.model,
            "QWEN_CODE_MAX_OUTPUT_TOKENS": str(server.longest_reply),
            "QWEN_CODE_SYSTEM_DEFAULTS_PATH": str(file),
        },
        ("--auth-type", "openai"),
        {file: json.dumps(settings, indent=2)},
    )


def aider(server: Endpoint, folder: Path) -> Setup:
    file, model = folder / "aider-models.json", f"openai/{server.model}"
    metadata = {
        "max_input_tokens": server.context,
        "max_output_tokens": server.longest_reply,
        "input_cost_per_token": 0,
        "output_cost_per_token": 0,
        "litellm_provider": "openai",
        "mode": "chat",
        "supports_vision": server.sees,
    }
    return Setup(
        {
            "AIDER_OPENAI_API_BASE": server.api,
            "AIDER_OPENAI_API_KEY": server.token,
            "AIDER_MODEL": model,
            "AIDER_WEAK_MODEL": model,
            "AIDER_MODEL_METADATA_FILE": str(file),
            "AIDER_ANALYTICS": "false",
            "AIDER_CHECK_UPDATE": "false",
            "AIDER_SHOW_RELEASE_NOTES": "false",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        files={file: json.dumps({model: metadata}, indent=2)},
    )


def goose(server: Endpoint, _: Path) -> Setup:
    return Setup(
        {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": server.model,
            "OPENAI_HOST": server.address,
            "OPENAI_BASE_PATH": "v1/chat/completions",
            "OPENAI_API_KEY": server.token,
            "GOOSE_CONTEXT_LIMIT": str(server.context),
            "GOOSE_MAX_TOKENS": str(server.longest_reply),
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_TELEMETRY_OFF": "1",
            "GOOSE_TELEMETRY_ENABLED": "false",
        }
    )


def crush(server: Endpoint, folder: Path) -> Setup:
    model = {
        "id": server.model,
        "name": server.model,
        "context_window": server.context,
        "default_max_tokens": server.longest_reply,
        "supports_attachments": server.sees,
    }
    provider = {
        "name": "LocalSpec",
        "type": "openai-compat",
        "base_url": server.api,
        "api_key": server.token,
        "models": [model],
    }
    chosen = {"provider": PROVIDER, "model": server.model}
    config = {
        "providers": {PROVIDER: provider},
        "models": {"large": chosen, "small": chosen},
        "options": {"disable_provider_auto_update": True, "disable_metrics": True},
    }
    # Crush keeps there which models were chosen last, which come before the user's file.
    return Setup(
        {"CRUSH_GLOBAL_DATA": str(folder), "CRUSH_DISABLE_METRICS": "1"},
        files={folder / "crush.json": json.dumps(config, indent=2)},
    )


AGENTS: Mapping[str, Agent] = {
    "claude": Agent("claude", "npm install -g @anthropic-ai/claude-code", claude),
    "codex": Agent("codex", "npm install -g @openai/codex", codex),
    "opencode": Agent("opencode", "npm install -g opencode-ai", opencode),
    "qwen": Agent("qwen", "npm install -g @qwen-code/qwen-code", qwen),
    "aider": Agent("aider", "uv tool install aider-chat", aider),
    "goose": Agent("goose", "brew install block-goose-cli", goose),
    "crush": Agent("crush", "npm install -g @charmland/crush", crush),
}
