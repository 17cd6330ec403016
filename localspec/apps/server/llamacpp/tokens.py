"""Texts turned into tokens, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import AliasChoices, Field, model_validator

from localspec.apps.server.faults import refused
from localspec.apps.server.requests.chat_request import ChatRequest
from localspec.apps.server.requests.fields import Id
from localspec.apps.server.requests.leniency import RequestPart
from localspec.base.interruption import check_patience
from localspec.base.tokenizer import Tokenizer
from localspec.running.runtime.runtime import Runtime

TOKENS_PER_PART = 10_000  # tokens, which are written in some milliseconds
MAX_LENGTH = 1 << 20  # letters or tokens; each takes hundreds of bytes of memory on its way


class TokenizeRequest(RequestPart):
    most_entries: ClassVar[Mapping[str, int]] = {**RequestPart.most_entries, "content": MAX_LENGTH}
    model: str = ""
    content: Annotated[
        str | Annotated[list[str | Id], Field(fail_fast=True)], Field(max_length=MAX_LENGTH)
    ] = ""
    prompt: str = Field("", max_length=MAX_LENGTH)  # as vLLM calls it
    chat: ChatRequest | None = None  # in place of a text, as vLLM has it
    add_special: bool = Field(  # the start token, where the model wants one; the latter is vLLM's
        default=False, validation_alias=AliasChoices("add_special", "add_special_tokens")
    )
    parse_special: bool = True  # whether texts of control tokens stand for those
    with_pieces: bool = False

    @model_validator(mode="before")
    @classmethod
    def of_chat(cls, body: object) -> object:
        return {"chat": body} if isinstance(body, dict) and body.get("messages") else body

    def answer(self, runtime: Runtime, prompt: Sequence[int] | None = None) -> bytes:
        """Write the tokens of a prompt, or of the text, a part at a time.

        In one call no other thread would run.
        """
        tokens = self._tokens(runtime) if prompt is None else prompt
        parts = []
        for at in range(0, len(tokens), TOKENS_PER_PART):
            check_patience()
            part = list(tokens[at : at + TOKENS_PER_PART])
            entries: Sequence[object] = part
            if self.with_pieces:
                entries = [{"id": token, "piece": piece(runtime, token)} for token in part]
            parts.append(json.dumps(entries)[1:-1])
        size = f'"count": {len(tokens)}, "max_model_len": {runtime.context}'  # vLLM's
        return f'{{"tokens": [{", ".join(parts)}], {size}}}'.encode()

    def _tokens(self, runtime: Runtime) -> list[int]:
        content = self.content or self.prompt
        parts = [content] if isinstance(content, str) else content
        if sum(len(part) for part in parts if isinstance(part, str)) > MAX_LENGTH:
            raise refused(f"there is room for {MAX_LENGTH:,} letters", "content")
        tokens: list[int] = []
        for at, part in enumerate(parts):
            if isinstance(part, int):
                tokens.append(part)
            else:
                piece = runtime.tokenizer.encode(part, special=self.parse_special).tolist()
                tokens += runtime.text.started(piece) if self.add_special and not at else piece
        return checked(runtime, tokens)


class DetokenizeRequest(RequestPart):
    model: str = ""
    tokens: Annotated[list[Id], Field(fail_fast=True)] = Field(
        default_factory=list, max_length=MAX_LENGTH
    )

    def answer(self, runtime: Runtime) -> bytes:
        checked(runtime, self.tokens)
        text = b"".join(spelled(runtime.tokenizer, token) for token in self.tokens)
        content = text.decode("utf-8", "replace")
        return json.dumps({"content": content, "prompt": content}).encode()  # the latter is vLLM's


def checked(runtime: Runtime, tokens: list[int]) -> list[int]:
    last = runtime.tokenizer.size - 1
    if any(token > last for token in tokens):
        raise refused(f"there are no tokens over {last}", "tokens")
    return tokens


def piece(runtime: Runtime, token: int) -> str | list[int]:
    """Decode a token to a text, or to bytes where it is only a part of a letter."""
    spelling = spelled(runtime.tokenizer, token)
    try:
        return spelling.decode()
    except UnicodeDecodeError:
        return list(spelling)


def spelled(tokenizer: Tokenizer, token: int) -> bytes:
    """Show a control token by its name."""
    return tokenizer.token_bytes(token) or tokenizer.token_text(token).encode("utf-8", "replace")
