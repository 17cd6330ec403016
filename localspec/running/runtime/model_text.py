"""The texts of a model: conversations and plain texts become its tokens, by its chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from localspec.base.errors import PromptTooLong
from localspec.base.tokenizer import Tokenizer
from localspec.formats.dialects import Dialect, dialect_of
from localspec.formats.templates.chat_template import ChatTemplate
from localspec.formats.templates.message import Json, Message, Tool, text_of
from localspec.formats.templates.thinking import EFFORT
from localspec.formats.templates.tools_in_words import add_instructions
from localspec.interfaces.media import Sight

ORDINARY_TOKEN_BYTES = 16  # bytes of a token, up to which a text needs no look at the vocabulary


class ModelText:
    """Any thread may call it.

    tokenizer: encodes texts, and knows the chat template
    sight: takes in pictures and sounds; None: the model reads text only
    context: tokens that one text can have
    """

    def __init__(self, tokenizer: Tokenizer, sight: Sight | None, context: int) -> None:
        self.tokenizer, self.sight, self.context = tokenizer, sight, context
        self._template: ChatTemplate | None = None
        self._control_tokens: dict[str, int | None] = {}  # a few texts, which dialects name

    @property
    def dialect(self) -> Dialect:
        """The dialect of the model, found out from its chat template once."""
        return dialect_of(self.tokenizer.chat_template)

    def encode(self, text: str) -> list[int]:
        """Tokenise a plain prompt, with the start token if the model wants one."""
        return self._tokenise(text, special=False)

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        extra: Mapping[str, Json] | None = None,
        *,
        continued: bool = False,
    ) -> str:
        """Render the prompt for the next reply, or for the rest of the last one if `continued`.

        Where a template knows no tools, the prompt describes them in words.
        """
        if self._template is None:
            self._template = ChatTemplate(self.tokenizer)
        self.check_length("".join(map(text_of, messages)))
        messages, tools = add_instructions(messages, tools, self._template.takes)
        return self._template.render(messages, tools, extra or {}, continued=continued)

    def read(self, text: str) -> list[int]:
        """Tokenise a rendered text, in which the texts of control tokens stand for them."""
        return self._tokenise(text, special=True)

    def control_token(self, text: str) -> int | None:
        """Find the control token that has this text, if one has."""
        if text not in self._control_tokens:
            tokens = self.tokenizer.encode(text, special=True).tolist()
            is_control = len(tokens) == 1 and not self.tokenizer.token_bytes(tokens[0])
            self._control_tokens[text] = tokens[0] if is_control else None
        return self._control_tokens[text]

    @cached_property
    def knows_efforts(self) -> bool:
        """Whether the chat template writes another prompt for another effort of reasoning."""
        question: Message = {"role": "user", "content": "?"}
        prompts = {self.render([question], extra={EFFORT: level}) for level in ("low", "high")}
        return len(prompts) > 1

    @cached_property
    def longest_token(self) -> int:
        """The bytes of the longest text that stands for one token."""
        tokenizer = self.tokenizer
        texts = (
            tokenizer.token_bytes(token) or tokenizer.token_text(token).encode("utf-8", "replace")
            for token in range(tokenizer.size)
        )
        return max(map(len, texts))

    def _tokenise(self, text: str, *, special: bool) -> list[int]:
        self.check_length(text)
        return self.started(self.tokenizer.encode(text, special=special).tolist())

    def check_length(self, text: str) -> None:
        """Refuse a text that cannot fit, before rendering and tokenising it takes long."""
        if len(text) <= self.context * ORDINARY_TOKEN_BYTES:
            return
        size, most = len(text.encode("utf-8", "replace")), self.context * self.longest_token
        if size > most:
            raise PromptTooLong(
                f"the prompt is too long: it has {size:,} bytes; this model was loaded for "
                f"{self.context:,} tokens, which hold {most:,} at most: load it with a larger "
                "context"
            )

    def started(self, tokens: list[int]) -> list[int]:
        """Put the start token first, if the model wants one."""
        bos = self.tokenizer.bos
        if bos is None or not self.tokenizer.starts or tokens[:1] == [bos]:
            return tokens
        return [bos, *tokens]
