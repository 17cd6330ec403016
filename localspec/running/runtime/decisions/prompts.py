"""The prompts of questions: a state once, and behind it each question, by the chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from localspec.base.errors import UsageError
from localspec.base.tokens import NONE
from localspec.core.decoding.growing_text import sendable
from localspec.core.requests.request import spelling
from localspec.core.requests.settings import Settings
from localspec.formats.templates.message import Json
from localspec.formats.templates.thinking import SWITCH
from localspec.formats.thought.budget import ThoughtBudget
from localspec.interfaces.media import Medium, Run
from localspec.running.runtime import prompting
from localspec.running.runtime.decisions.wording import AFTER, BEFORE
from localspec.running.runtime.media_text import SECRET, split_at_marks
from localspec.running.runtime.model_text import ModelText
from localspec.running.runtime.prompting import Conversation, encode_in_reply

State = Sequence[str | Medium]  # texts, and the pictures and sounds between them

# Marks hold places in a rendered prompt; what is put there is plain text, whatever is in it.
PLACE = re.compile(f"place{SECRET}n([0-9]+)e")
QUESTION, REPLY = f"question{SECRET}e", f"reply{SECRET}e"
NO_THOUGHT = Settings(max_tokens=1, reasoning_budget=0)


def as_state(value: object) -> State:
    """Take a text as it is, and other values as JSON."""
    if isinstance(value, str):
        return [value]
    try:
        return [json.dumps(value, ensure_ascii=False)]
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the state is no text, and nothing that JSON holds: {error}") from error


@dataclass(frozen=True, slots=True)
class Frame:
    """A prompt with a place for a question."""

    state: list[int]  # all that comes before it
    runs: tuple[Run, ...]  # of the pictures and sounds in that
    ending: list[int]  # what comes after it, up to the first token of an answer

    def after(self, model: ModelText, question: str) -> list[int]:
        """Return the tokens of the rest of a prompt, with a question in it."""
        model.check_length(question)
        return [*encode_in_reply(model.tokenizer, sendable(question)), *self.ending]


def frame(model: ModelText, state: State) -> Frame:
    """Render and tokenise a prompt for questions about a state; slow for a long one."""
    texts = [sendable(part) for part in state if isinstance(part, str)]
    model.check_length("".join(texts))
    conversation = conversation_about(state)
    text = prompting.render_prompt(model, conversation, NO_THOUGHT)
    before, _, after = text.partition(QUESTION)

    def encode(piece: str) -> list[int]:
        """Tokenise a piece, in which the places of the state's texts stand."""
        tokens: list[int] = []
        for at, part in enumerate(PLACE.split(piece)):
            is_text = at % 2 == 1
            plain = texts[int(part)] if is_text else part
            tokens += encode_in_reply(model.tokenizer, plain, special=not is_text)
        return tokens

    tokens, runs = split_at_marks(before, conversation.media).read(model, encode)
    begun = opening(model, conversation, after)
    ending = encode_in_reply(model.tokenizer, after + begun, special=True)
    return Frame(tokens, runs, [*ending, *closing(model, conversation, after + begun)])


def conversation_about(state: State) -> Conversation:
    """Return a conversation with marks in place of a state's parts and of a question."""
    media = [part for part in state if isinstance(part, Medium)]
    places = iter(range(len(state)))
    parts: list[Json] = [{"type": "text", "text": BEFORE}]
    for part in state:
        if isinstance(part, Medium):
            parts.append({"type": part.kind})
        else:
            parts.append({"type": "text", "text": f"place{SECRET}n{next(places)}e"})
    parts.append({"type": "text", "text": AFTER + QUESTION})
    texts = [str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part]
    content: Json = parts if media else "".join(texts)
    message = {"role": "user", "content": content}
    return Conversation([message], extra={SWITCH: False}, media=media)


def opening(model: ModelText, conversation: Conversation, after: str) -> str:
    """Return what the template writes between the end of a prompt and an answer.

    Harmony names a channel there, for one.
    """
    messages = [*conversation.messages, {"role": "assistant", "content": REPLY}]
    if conversation.media:
        return ""
    text = model.render(messages, (), conversation.extra, continued=True)
    written = text.partition(QUESTION)[2].removesuffix(REPLY)
    return written.removeprefix(after) if written.startswith(after) else ""


def closing(model: ModelText, conversation: Conversation, ending: str) -> list[int]:
    """Return the tokens that end a thought which the end of a prompt has begun."""
    thoughts = prompting.thoughts(model, conversation, NO_THOUGHT, ending)
    if thoughts is None or not thoughts.closing:
        return []
    marks = (model.control_token(mark) for mark in model.dialect.marks)
    shown = frozenset(mark for mark in marks if mark is not None)
    budget = ThoughtBudget(thoughts, 0, spelling(model.tokenizer, shown))
    forced: list[int] = budget.forced(NONE).tolist()
    return forced
