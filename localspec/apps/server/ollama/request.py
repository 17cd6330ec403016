"""The requests of /api/chat and /api/generate."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from localspec.apps.server.conversation.entries import Call, Entry, Result, Speech, references
from localspec.apps.server.conversation.items import groups
from localspec.apps.server.conversation.messages import Message
from localspec.apps.server.conversation.transcript import messages_of
from localspec.apps.server.faults import refused
from localspec.apps.server.ollama.options import OllamaOptions
from localspec.apps.server.requests.fields import Id, Logprobs, Object
from localspec.apps.server.requests.forms import grammar_of_schema, is_loose
from localspec.apps.server.requests.keep_alive import KeepAlive
from localspec.apps.server.requests.media_parts import Images, MediaReference, image_references
from localspec.apps.server.requests.prepared import (
    Prepared,
    prepare_conversation,
    prepare_text,
    with_infill_ends,
)
from localspec.apps.server.requests.thinking import ThoughtFields, reasoning
from localspec.apps.server.requests.tools import ToolsField, function_tools
from localspec.apps.server.requests.validators import as_object
from localspec.apps.server.served import Served
from localspec.base.errors import PromptTooLong
from localspec.core.requests.settings import Settings
from localspec.formats.grammar.grammar import Grammar
from localspec.formats.templates.fill_in_middle import middle
from localspec.interfaces.media import Medium
from localspec.running.runtime.media_text import MediaText
from localspec.running.runtime.prompting import Conversation

MAX_CALLS = 128  # of a message, for which results are looked for
FORMS = {"": "", "text": "", "json": "json", "json_object": "json"}
PROMPT = ("{{ .Prompt }}", "{{.Prompt}}")  # templates that add nothing to a prompt


def as_form(value: object) -> object:
    """Read a format: a schema, also as text, or a word or object of other servers."""
    if isinstance(value, str) and not value.startswith("{"):
        return FORMS.get(value.lower(), value)
    form = as_object(value)
    kind = form.get("type") if isinstance(form, dict) else None
    if isinstance(form, dict) and kind == "json_schema":
        schema = form.get("json_schema")
        return schema.get("schema", schema) if isinstance(schema, dict) else "json"
    return FORMS[kind] if isinstance(kind, str) and kind in FORMS else form


class OllamaRequest(ThoughtFields):
    model: str = Field(min_length=1)
    stream: bool = True
    format: Annotated[Literal["", "json"] | Object | None, BeforeValidator(as_form)] = None
    options: OllamaOptions = OllamaOptions()
    think: bool | str | None = None  # a text is how much
    keep_alive: KeepAlive = None
    logprobs: bool = False
    top_logprobs: Logprobs = 0

    @property
    def unloads(self) -> bool:
        """Return whether the request unloads the model."""
        return self.keep_alive == 0

    @property
    def grammar(self) -> Grammar | None:
        if isinstance(self.format, dict):
            return grammar_of_schema(self.format)
        return Grammar("json_object") if self.format else None

    def references(self) -> list[MediaReference]:
        """List the pictures in the order in which they stand in the prompt."""
        return []

    @property
    def extra(self) -> dict[str, JsonValue]:
        """Set the variable by which chat templates turn thinking on or off."""
        if self.think is None or self.think == "":
            return {}
        if isinstance(self.think, bool):
            return {"enable_thinking": self.think}
        return reasoning(self.think)

    def settings(self, served: Served, grammar: Grammar | None = None) -> Settings:
        settings = self.options.settings(served, grammar)
        settings = replace(settings, adapters=self.options.adapters_of(served, self.model))
        return replace(settings, logprobs=self.top_logprobs) if self.logprobs else settings

    def prepared_conversation(self, served: Served, conversation: Conversation) -> list[Prepared]:
        settings = self.with_own_budget(self.settings(served))
        return [prepare_conversation(served, conversation, settings)]

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if self.top_logprobs and not self.logprobs:
            yield "top_logprobs"
        if isinstance(self.format, dict) and is_loose(self.format):
            yield "format"


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """The entries of a message, and its pictures."""

    role: str
    entries: Sequence[Entry]
    media: Sequence[Medium]


class OllamaChatRequest(OllamaRequest):
    messages: list[Message] = Field(default_factory=list)
    tools: ToolsField = None
    truncate: bool = True

    @property
    def loads(self) -> bool:
        """Return whether the request only loads the model."""
        return not self.messages

    def references(self) -> list[MediaReference]:
        return references(groups(self.messages))

    def prepare(self, served: Served, media: Sequence[Medium]) -> list[Prepared]:
        """Prepare the conversation, or as much of its end as there is room for."""
        messages = self._with_media(media)
        if not self.truncate:
            return self._prepared(served, messages)
        if whole := self._fitting(served, messages):
            return [whole]
        starts = turns(messages)
        at = bisect_left(
            starts, True, key=lambda at: self._fitting(served, end(messages, at)) is not None
        )
        if at == len(starts):
            return self._prepared(served, messages)  # which is refused with the numbers
        [prompt] = self._prepared(served, end(messages, starts[at]))
        return [replace(prompt, left_out=("messages",))]

    def _with_media(self, media: Sequence[Medium]) -> list[ReadMessage]:
        left = iter(media)
        return [
            ReadMessage(message.role, entries, list(islice(left, len(references([entries])))))
            for message, entries in zip(self.messages, paired(groups(self.messages)), strict=True)
        ]

    def _fitting(self, served: Served, messages: Sequence[ReadMessage]) -> Prepared | None:
        """Prepare a conversation, if there is room for it."""
        try:
            [prompt] = self._prepared(served, messages)
        except PromptTooLong:
            return None
        return prompt if len(prompt.tokens) < served.runtime.context else None

    def _prepared(self, served: Served, messages: Sequence[ReadMessage]) -> list[Prepared]:
        conversation = Conversation(
            messages=messages_of(message.entries for message in messages),
            tools=function_tools(self.tools),
            format=self.grammar,
            extra=self.extra,
            media=[medium for message in messages for medium in message.media],
        )
        return self.prepared_conversation(served, conversation)


def turns(messages: Sequence[ReadMessage]) -> list[int]:
    """Find the messages of users, but the first."""
    return [at for at, message in enumerate(messages) if message.role == "user"][1:]


def end(messages: Sequence[ReadMessage], start: int) -> list[ReadMessage]:
    """List the messages from there on, after the system messages before them."""
    rules = [message for message in messages[:start] if message.role == "system"]
    return [*rules, *messages[start:]]


def paired(grouped: Iterable[Iterable[Entry]]) -> Iterator[list[Entry]]:
    """Give calls identifiers, and results those of the calls that they name, or of the first."""
    waiting: list[Call] = []  # without results
    for number, group in enumerate(grouped):
        entries: list[Entry] = []
        calls: list[Call] = []
        for entry in group:
            match entry:
                case Call(id):
                    entry = replace(entry, id=id or f"call_{number}_{len(calls)}")
                    calls.append(entry)
                case Result():
                    entry = with_call(entry, waiting)
            entries.append(entry)
        waiting = calls[:MAX_CALLS] or waiting
        yield entries


def with_call(result: Result, waiting: list[Call]) -> Result:
    """Find the call of a result: the one it names, else the first without a result."""
    same = [call for call in waiting if call.id == result.call_id]
    named = [call for call in waiting if call.name == result.name]
    call = next(iter(same or named or waiting), None)
    if call is None:
        return replace(result, call_id=result.call_id or "", name=result.name or "")
    waiting.remove(call)
    return replace(result, call_id=result.call_id or call.id, name=result.name or call.name)


class GenerateRequest(OllamaRequest):
    prompt: str = ""
    suffix: str = ""
    system: str = ""
    raw: bool = False
    images: Images | None = None  # before the prompt
    template: str = ""
    # The conversation, as the last answer had it.
    context: Annotated[list[Id], Field(fail_fast=True)] = Field(default_factory=list)

    @property
    def loads(self) -> bool:
        return not self.prompt and not self.suffix and not self.images

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if self.template and self.template not in PROMPT:
            yield "template"
        if self.suffix and self.system:
            yield "system"

    def references(self) -> list[MediaReference]:
        return image_references(self.images)

    def prepare(self, served: Served, media: Sequence[Medium]) -> list[Prepared]:
        if self.suffix and media:
            raise refused("a middle is filled in between texts: leave the pictures out", "images")
        if self.suffix:
            return [self._filling(served)]
        return [self._behind(prompt) for prompt in self._prompted(served, media)]

    def _behind(self, prompt: Prepared) -> Prepared:
        """Put a prompt after the conversation so far, which begins with any start token."""
        if not self.context:
            return prompt
        start = [token for token in [prompt.served.runtime.tokenizer.bos] if token is not None]
        tokens = prompt.tokens[1:] if list(prompt.tokens[:1]) == start else prompt.tokens
        return replace(prompt, tokens=[*self.context, *tokens])

    def _prompted(self, served: Served, media: Sequence[Medium]) -> list[Prepared]:
        if self.raw or self.template in PROMPT or not served.runtime.tokenizer.chat_template:
            return [self._raw(served, media)]
        prompt = [*self.references(), *([self.prompt] if self.prompt else ())]
        entries = [Speech("system", [self.system] if self.system else []), Speech("user", prompt)]
        messages = messages_of([entry] for entry in entries if entry.content)
        conversation = Conversation(messages, format=self.grammar, extra=self.extra, media=media)
        return self.prepared_conversation(served, conversation)

    def _raw(self, served: Served, media: Sequence[Medium]) -> Prepared:
        if self.system:
            raise refused("a raw prompt has no system message: write it into the prompt", "system")
        settings = self.settings(served, self.grammar)
        texts = [*("" for _ in media), self.prompt]
        tokens, runs = MediaText(texts, media).read(served.runtime.text)
        return prepare_text(served, tokens, replace(settings, media=runs))

    def _filling(self, served: Served) -> Prepared:
        settings = self.settings(served, self.grammar)
        context = served.runtime.context
        reply_tokens = min(settings.max_tokens or context, context // 2)
        tokens = middle(
            served.runtime.tokenizer, self.prompt, self.suffix, limit=context - reply_tokens
        )
        return prepare_text(served, tokens, with_infill_ends(served, settings))
