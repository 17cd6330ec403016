"""Messages of a conversation, as they come in and as templates read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None
Message = Mapping[str, Json]  # `role` and `content`, and what else a role has
Tool = Mapping[str, Json]  # `type` and `function`: its name, description and parameters


def text_of(message: Message) -> str:
    """Return the text of a message, without its parts of other kinds."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "".join(piece for piece in texts if isinstance(piece, str))


def rewrite_objects(value: Json, rewrite: Callable[[dict[str, Json]], Json]) -> Json:
    """Return a value with each object, the innermost ones first, as `rewrite` returns it."""
    match value:
        case dict():
            return rewrite({key: rewrite_objects(member, rewrite) for key, member in value.items()})
        case list():
            return [rewrite_objects(item, rewrite) for item in value]
    return value
