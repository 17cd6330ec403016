"""The requests for vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field, JsonValue

from localspec.apps.server.requests.keep_alive import KeepAlive
from localspec.apps.server.requests.leniency import MAX_PROMPT_TOKENS, RequestPart
from localspec.apps.server.requests.prompts import One, PromptField, is_one
from localspec.apps.server.vectors.cutting import CutFields
from localspec.apps.server.vectors.reading import require_few
from localspec.base.tokens import Tokens, Vectors
from localspec.core.vectors.rows import AS_THEY_ARE, EUCLIDEAN, MAX_NORM, normalise, shorten
from localspec.running.runtime.vector_runtime import VectorRuntime

QUERY, DOCUMENT = "query", "document"
# What a text is, as Cohere, Voyage, Jina, Google and sentence-transformers call it.
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("query", "search_query", "retrieval.query", "retrieval_query"), QUERY),
    **dict.fromkeys(("document", "search_document", "passage"), DOCUMENT),
    **dict.fromkeys(("retrieval.passage", "retrieval_document"), DOCUMENT),
}


class TextsRequest(CutFields):
    """The fields of every request for vectors."""

    most_entries: ClassVar[Mapping[str, int]] = {
        **RequestPart.most_entries,
        **dict.fromkeys(("input", "content"), MAX_PROMPT_TOKENS),
    }
    input: PromptField = ""
    dimensions: int | None = Field(None, ge=1)
    input_type: str = ""  # what the texts are; `task` and `prompt_name` elsewhere
    task: str = ""
    prompt_name: str = ""

    @property
    def listed(self) -> Sequence[One]:
        """List the texts; a list that has a number is one text, by its tokens."""
        return texts_of(self.input)

    @property
    def _kinds(self) -> dict[str, str]:
        """Return what is said of the texts, by the field that says it."""
        fields = {"input_type": self.input_type, "task": self.task, "prompt_name": self.prompt_name}
        return {name: value.lower() for name, value in fields.items() if value}

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        yield from (name for name, value in self._kinds.items() if value not in KINDS)

    def tokens(self, runtime: VectorRuntime) -> list[Tokens]:
        """Tokenise each text, with the model's prefix for its kind."""
        listed = self.listed
        require_few(len(listed), "input")
        kinds = [KINDS[value] for value in self._kinds.values() if value in KINDS]
        prefix = runtime.prefixes.get(kinds[0], "") if kinds else ""
        most = self.most_tokens(runtime.context)
        names = ["input"] if len(listed) == 1 else [f"input.{at}" for at in range(len(listed))]
        return [
            runtime.tokens(as_text(one, runtime), prefix, most, name)
            for one, name in zip(listed, names, strict=True)
        ]

    def vectors(self, rows: Vectors) -> Vectors:
        return normalise(shorten(rows, self.dimensions))


class EmbeddingsRequest(TextsRequest):
    """The request of /v1/embeddings, and of llama.cpp's own paths."""

    content: PromptField = ""  # the texts, as llama.cpp calls them
    encoding_format: Literal["float", "base64"] = "float"
    embd_normalize: int = Field(EUCLIDEAN, ge=AS_THEY_ARE, le=MAX_NORM)  # as llama.cpp has it

    @property
    def listed(self) -> Sequence[One]:
        return texts_of(self.input or self.content)

    def vectors(self, rows: Vectors) -> Vectors:
        return normalise(shorten(rows, self.dimensions), self.embd_normalize)


class OllamaEmbedRequest(TextsRequest):
    """The request of /api/embed: texts are cut unless it says otherwise."""

    cut_by_default: ClassVar[bool] = True
    keep_alive: KeepAlive = None
    options: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def loads(self) -> bool:
        """Return whether the request only loads the model."""
        return not self.input

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        yield from (f"options.{name}" for name, value in self.options.items() if value is not None)


class OllamaEmbeddingsRequest(OllamaEmbedRequest):
    """The request of /api/embeddings, for one text; its vector is as the model gives it."""

    prompt: str = ""

    @property
    def listed(self) -> Sequence[One]:
        return [self.prompt]

    @property
    def loads(self) -> bool:
        return not self.prompt

    def vectors(self, rows: Vectors) -> Vectors:
        return rows


def texts_of(value: One | list[One]) -> list[One]:
    """List texts, each as text or as tokens; a list that has a number is one text."""
    if isinstance(value, str):
        return [value]
    return [pieces(value)] if is_one(value) else [one for one in value if not isinstance(one, int)]


def pieces(value: Sequence[One | int]) -> list[int | str]:
    return [piece for piece in value if not isinstance(piece, list)]


def as_text(one: One, runtime: VectorRuntime) -> str | list[int]:
    """Return a text, or the tokens of what is given by tokens with texts between them."""
    if isinstance(one, str):
        return one
    tokens: list[int] = []
    for piece in one:
        if isinstance(piece, int):
            tokens.append(piece)
        else:
            tokens += runtime.tokenizer.encode(piece, special=True).tolist()
    return tokens
