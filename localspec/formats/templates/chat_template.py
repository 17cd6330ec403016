"""Render a conversation the way its model was trained to read it.

A chat template comes with the model file and is code from a stranger: see `renderer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Protocol

from localspec.base.errors import ModelFileError, UsageError
from localspec.formats.templates.adapt import conversation
from localspec.formats.templates.capabilities import Takes, learn_capabilities
from localspec.formats.templates.message import Json, Message, Tool, text_of
from localspec.formats.templates.renderer import SHARED, Meter, Renderer
from localspec.formats.templates.simpler import simpler
from localspec.formats.templates.thinking import variables
from localspec.formats.templates.tool_variables import simple_tool_variables, tool_variables

NOTHING: Mapping[str, Json] = MappingProxyType({})
END = "(the reply goes on here) "  # its space tells whether a template strips what it writes


class Templated(Protocol):
    """The part of a tokenizer that is needed to render a conversation."""

    @property
    def chat_template(self) -> str | None: ...

    @property
    def bos(self) -> int | None: ...

    @property
    def eos(self) -> int | None: ...

    def token_text(self, token: int) -> str: ...


class ChatTemplate:
    def __init__(self, tokenizer: Templated, renderer: Renderer = SHARED) -> None:
        if not tokenizer.chat_template:
            raise UsageError("this model has no chat template: use it with plain prompts")
        special = {"bos_token": tokenizer.bos, "eos_token": tokenizer.eos}
        self._special = {
            name: tokenizer.token_text(token)
            for name, token in special.items()
            if token is not None
        }
        self._source = tokenizer.chat_template
        self._renderer = renderer
        self._takes: Takes | None = None
        self._meter = Meter()
        for reason in renderer.ask(self._source, None, self._meter).values():
            raise ModelFileError(f"the model's chat template is broken: {reason}")

    @property
    def worked_seconds(self) -> float:
        """The work of all that was rendered so far."""
        return self._meter.seconds

    @property
    def takes(self) -> Takes:
        """The capabilities of the template, learned before the first conversation."""
        if self._takes is None:
            self._takes = self._learn()
        return self._takes

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        extra: Mapping[str, Json] = NOTHING,
        *,
        continued: bool = False,
    ) -> str:
        """Return the text that asks for the next reply, or for the rest of the last message.

        `extra` are variables that some templates read, as `enable_thinking` or `documents`. A
        conversation that the template refuses is put in simpler forms before that is an error.
        """
        if not messages:
            raise UsageError("a conversation needs a message")
        write = self._render_continued if continued else partial(self.written, asking=True)
        most, refusal = self.worked_seconds + self._renderer.seconds, None
        for form in chain([messages], simpler(messages, self.takes)):
            for template_variables in variables(extra):
                try:
                    return write(form, tools, template_variables)
                except UsageError as error:
                    refusal = refusal or error
                    if self.worked_seconds > most:
                        raise refusal from None
        assert refusal is not None
        raise refusal

    def _render_continued(
        self, messages: Sequence[Message], tools: Sequence[Tool], extra: Mapping[str, Json]
    ) -> str:
        *others, last = messages
        if last.get("role") != "assistant":
            raise UsageError("the last message is not the assistant's: it cannot go on with it")
        content = text_of(last)
        marked = [*others, {**last, "content": content + END}]
        text = self.written(marked, tools, extra, asking=False)
        start, mark, _ = text.rpartition(END.strip())
        if not mark or content.strip() not in start:
            raise UsageError("the model's chat template drops a part of the message to go on with")
        return start if text.startswith(END, len(start)) else start.rstrip()

    def written(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        extra: Mapping[str, Json],
        *,
        asking: bool,
    ) -> str:
        readable = conversation(messages, self.takes)
        match self._ask_renderer(readable, tools, {**extra, "add_generation_prompt": asking}):
            case {"text": text}:
                return text
            case reply:
                [(how, reason)] = reply.items()
                raise UsageError(f"the model's chat template {how}: {reason}")

    def _ask_renderer(
        self, messages: Sequence[Message], tools: Sequence[Tool], extra: Mapping[str, Json]
    ) -> dict[str, str]:
        conversation = {"messages": messages, "tools": tools or None}
        variables = {"documents": None, **self._special, **extra, **conversation}
        answer = self._renderer.ask(self._source, variables, self._meter)
        if "text" in answer:
            return answer
        for tool_forms in (tool_variables, simple_tool_variables):
            more = self._renderer.ask(self._source, {**variables, **tool_forms(tools)}, self._meter)
            if "text" in more:
                return more
        return answer

    def _learn(self) -> Takes:
        most = self._renderer.seconds
        end = self.worked_seconds + most

        def render(messages: Sequence[Message], tools: Sequence[Tool]) -> str:
            if self.worked_seconds > end:
                raise UsageError(
                    f"the model's chat template needs over {most:g} seconds for a few words"
                )
            reply = self._ask_renderer(messages, tools, {"add_generation_prompt": True})
            return reply.get("text", "")

        return learn_capabilities(render, self._source)
