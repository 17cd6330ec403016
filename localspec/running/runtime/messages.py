"""Messages of a conversation, as callers from Python give them, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TypeGuard

from localspec.base.errors import UsageError

GivenMessage = Mapping[str, object]  # `role` and `content`, and `images` and others beside these
ROLES = ("system", "developer", "user", "assistant", "tool")
MAX_SHOWN = 60  # characters of what was given in place of a message
FORM = "{'role': 'user', 'content': '...'}"


def as_messages(conversation: object) -> Sequence[GivenMessage]:
    """Take a text for one message of the user, and check a list of messages."""
    if isinstance(conversation, str):
        return [{"role": "user", "content": conversation}]
    if isinstance(conversation, Mapping):
        return [require_message(1, conversation)]
    if not isinstance(conversation, Sequence) or not conversation:
        fault = f"a conversation is {shorten(conversation)}"
        raise UsageError(f"{fault}; it must be a text, or messages like {FORM}")
    return [require_message(number, message) for number, message in enumerate(conversation, 1)]


def require_roles(messages: Sequence[GivenMessage], template: str) -> Sequence[GivenMessage]:
    """Require roles that are common, or that a chat template names: others are left out of it."""
    for number, message in enumerate(messages, 1):
        role = str(message["role"])
        if role not in ROLES and not re.search(f"[\"']{re.escape(role)}[\"']", template):
            raise UsageError(
                f"message {number} has the role {shorten(role)}, which this model's chat template "
                f"does not know; there are: {', '.join(ROLES)}"
            )
    return messages


def require_message(number: int, message: object) -> GivenMessage:
    """Require a role and a content; a call of tools, or a picture, needs no content."""
    if not isinstance(message, Mapping):
        raise UsageError(f"message {number} is {shorten(message)}; it must be like {FORM}")
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or not role:
        raise UsageError(
            f"message {number} has no role: {shorten(message)}; it must be like {FORM}"
        )
    if content is None and not (message.get("tool_calls") or message.get("images")):
        raise UsageError(
            f"message {number} has no content: {shorten(message)}; it must be like {FORM}"
        )
    if content is not None and not isinstance(content, str | Sequence):
        fault = f"the content of message {number} is {shorten(content)}"
        raise UsageError(f"{fault}; it must be a text, or a list of parts")
    return message


def are_tokens(prompt: object) -> TypeGuard[Sequence[int]]:
    """Whether a prompt is tokens, and no text or messages."""
    if isinstance(prompt, str | Mapping):
        return False
    return not isinstance(prompt, Sequence) or not prompt or isinstance(prompt[0], Integral)


def shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
