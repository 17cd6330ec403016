"""Render a conversation the way its model was trained to read it.

A chat template comes with the model file and is code from a stranger: it runs in a sandbox.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from localspec.errors import ModelFileError, UsageError
from localspec.tokenizer import Tokenizer

Message = Mapping[str, str]  # role and content


class ChatTemplate:
    def __init__(self, tokenizer: Tokenizer) -> None:
        if not tokenizer.chat_template:
            raise UsageError("this model has no chat template: use it with plain prompts")
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
        bos, eos = tokenizer.bos, tokenizer.eos
        self._special = {
            "bos_token": "" if bos is None else tokenizer.token_text(bos),
            "eos_token": "" if eos is None else tokenizer.token_text(eos),
        }
        try:
            self._template = environment.from_string(tokenizer.chat_template)
        except jinja2.TemplateError as error:
            raise ModelFileError(f"the model's chat template is broken: {error}") from error

    def render(self, messages: Sequence[Message]) -> str:
        """The text that asks for the next reply."""
        try:
            return self._template.render(
                messages=list(messages), add_generation_prompt=True, **self._special
            )
        except jinja2.TemplateError as error:
            raise UsageError(f"the model's chat template refused: {error}") from error
        except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
            raise UsageError(f"the model's chat template failed: {error}") from error


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)
