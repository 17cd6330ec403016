"""Bodies within the limit of bytes that ask for as much work as a stranger may think of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "x"}
TURNS = [USER, {"role": "assistant", "content": "y"}]
PROSE = "the quick brown fox "
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}

Body = tuple[str, object]  # a path, and what is sent there


def chat(**fields: object) -> Body:
    return CHAT, {"messages": [USER], "max_tokens": 1, **fields}


def tools(count: int) -> list[object]:
    names = (f"f{number}" for number in range(count))
    return [{"type": "function", "function": {"name": n, "parameters": SCHEMA}} for n in names]


# The last of each kind is within the bounds of what is asked for, and is done.
HEAVY: Mapping[str, Callable[[], Body]] = {
    "24 MB of small objects in a field that is not used": lambda: chat(
        metadata=[{"a": []}] * 2_400_000
    ),
    "all the small objects that there may be": lambda: chat(metadata=[[[]] * 9] * 9_900),
    "a bias of 1,000,000 tokens": lambda: chat(logit_bias={str(n): 1 for n in range(10**6)}),
    "a bias of 100,000 texts": lambda: chat(logit_bias={f"word {n}": 1 for n in range(10**5)}),
    "a bias of 8,000 texts": lambda: chat(logit_bias={f"word {n}": 1 for n in range(8000)}),
    "1,000,000 unknown fields": lambda: chat(**{f"f{n}": 1 for n in range(10**6)}),
    "10,000 messages with 17 unknown fields each": lambda: chat(
        messages=[USER | {f"{n}_{m}": 1 for m in range(17)} for n in range(10_000)]
    ),
    "all the small objects that a response may repeat": lambda: (
        "/v1/responses",
        {"input": "x", "stream": True, "max_output_tokens": 1, "metadata": [[[]] * 9] * 9_900},
    ),
    "40,000 messages": lambda: chat(messages=TURNS * 20_000),
    "10,000 messages": lambda: chat(messages=TURNS * 5_000),
    "10,000 messages for Anthropic's API": lambda: (
        "/v1/messages",
        {"max_tokens": 1, "messages": TURNS * 5_000},
    ),
    "10,000 messages for Ollama's API": lambda: (
        "/api/chat",
        {"model": "x", "messages": TURNS * 5_000, "options": {"num_predict": 1}},
    ),
    "10,000 items": lambda: ("/v1/responses", {"input": TURNS * 5_000}),
    "10,000 tools": lambda: chat(tools=tools(10_000)),
    "2,000 tools": lambda: chat(tools=tools(2_000)),
    "24 MB of text": lambda: chat(messages=[{"role": "user", "content": PROSE * 1_200_000}]),
    "24 MB of instructions": lambda: (
        "/v1/responses",
        {"input": "x", "instructions": PROSE * 1_200_000},
    ),
    "24 MB of a prediction": lambda: chat(prediction={"content": PROSE * 1_200_000}),
    "24 MB of escaped text": lambda: chat(stop=["\n" * 12_000_000]),
    "a prompt of 1,000,000 tokens": lambda: ("/v1/completions", {"prompt": [5] * 10**6}),
    "a text of 1,000,000 letters to tokenise": lambda: (
        "/tokenize",
        {"content": PROSE * 50_000, "with_pieces": True},
    ),
    "1,000,000 tokens to read": lambda: ("/detokenize", {"tokens": [5] * 10**6}),
}
