"""The prompts of a proof: a few of many kinds, or the user's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from localspec.base.errors import UsageError
from localspec.base.tokenizer import Tokenizer
from localspec.base.tokens import Tokens, tokens_of
from localspec.console.options import prompt_file
from localspec.formats.templates.chat_template import ChatTemplate
from localspec.formats.templates.message import Message, text_of

BUILT_IN = (  # the first of them are tried where time is short
    "Why does the sea look blue on some days and grey on others? Answer in three sentences.",
    "Write a Python function `gcd(a, b)` with a docstring, and then `lcm(a, b)` that calls it.",
    "Repeat this line five times: the quick brown fox jumps over the lazy dog.",
    "List ten animals that live in a forest, one a line, each with what it eats.",
    'Give three people as a JSON array of objects with "name", "age" and "city". Only the JSON.',
    "Tell the beginning of a story about a lighthouse keeper who finds a letter.",
    "Translate into French: I would like a coffee, a glass of water and the bill, please.",
    "Correct the spelling and change nothing else: Teh train leavs at nine, and teh bus leavs "
    "at ten, but teh ferry leavs only on sundays.",
)


def built_in() -> list[list[Message]]:
    return [[{"role": "user", "content": text}] for text in BUILT_IN]


def read(path: Path) -> list[list[Message]]:
    return [prompt_file.messages(line) for line in prompt_file.read(path)]


def encode(tokenizer: Tokenizer, conversations: Sequence[Sequence[Message]]) -> list[Tokens]:
    """Tokenise conversations, as `generate` would."""
    template = ChatTemplate(tokenizer) if tokenizer.chat_template else None
    return [_encode(tokenizer, template, messages) for messages in conversations]


def _encode(
    tokenizer: Tokenizer, template: ChatTemplate | None, messages: Sequence[Message]
) -> Tokens:
    if template:
        tokens = tokenizer.encode(template.render(messages), special=True).tolist()
    elif len(messages) == 1:
        tokens = tokenizer.encode(text_of(messages[0])).tolist()
    else:
        raise UsageError('this model has no chat template: give a "prompt", not "messages"')
    if tokenizer.bos is not None and tokenizer.starts and tokens[:1] != [tokenizer.bos]:
        tokens.insert(0, tokenizer.bos)
    return tokens_of(tokens)
