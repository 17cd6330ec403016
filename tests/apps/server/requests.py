"""Requests that every path takes, as rich as it takes them: what attacks begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTION = {"name": "weather", "description": "Tells it.", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "here"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    {"role": "user", "content": "and?"},
]
DRAWN = {"temperature": 0, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "seed": 3}
SAMPLED = DRAWN | {
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "repetition_penalty": 1.1,
    "logit_bias": {"65": -3},
}
ASKED = SAMPLED | {
    "model": "scripted",
    "max_tokens": 3,
    "n": 2,
    "stop": ["zzz"],
    "prediction": {"type": "content", "content": "You said"},
    "localspec": {"proposer": "suffix,prediction", "depth": 2},
}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA}}
CHATS = [
    ASKED | {"messages": TALK, "tools": [TOOL], "tool_choice": "auto"},
    ASKED | {"messages": TALK, "response_format": FORMAT, "logprobs": True, "top_logprobs": 2},
    ASKED | {"messages": TALK, **USAGE, "reasoning_effort": "low"},
    {"messages": TALK, "tools": [TOOL], "tool_choice": TOOL | {"function": {"name": "weather"}}},
]
ITEMS = [
    {"role": "user", "content": [{"type": "input_text", "text": "here"}]},
    {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "well"}]},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "rain"},
]
CITED = {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}}
BLOCKS = [
    {"role": "user", "content": "here"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "well"}, CITED]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "rain"}]},
]
LETTER = {"messages": BLOCKS, "system": "Be brief.", "tool_choice": {"type": "auto"}} | {
    "tools": [{"name": "weather", "input_schema": SCHEMA}],
    "thinking": {"type": "enabled", "budget_tokens": 1024},
}
OPTIONS = DRAWN | {"num_predict": 3, "repeat_penalty": 1.1, "stop": ["zzz"], "num_ctx": 256}
OLD_CALL = {"function": {"name": "weather", "arguments": {"city": "Oslo"}}}
OLD_TALK = [
    {"role": "user", "content": "here"},
    {"role": "assistant", "content": "", "tool_calls": [OLD_CALL]},
    {"role": "tool", "tool_name": "weather", "content": "rain"},
]
OLD = {"model": "scripted", "options": OPTIONS, "keep_alive": "5m"}
WISHED = DRAWN | {"n_predict": 3, "stop": ["zzz"], "n_indent": 1, "samplers": ["top_k"]}

LINES = 'start: "begin" LF line+ "end"\nline: ("+" | "-") /.*/ LF -> line\n%import common.LF'
PATCH = {"type": "custom", "name": "patch"} | {
    "format": {"type": "grammar", "syntax": "lark", "definition": LINES}
}

ASKED_YES = {"type": "predicate", "name": "urgent", "instructions": "Is it urgent?"}
ASKED_WHICH = {"type": "choice", "name": "team", "instructions": "Which team?"} | {
    "choices": [{"value": "billing", "description": "charges"}, {"value": "other"}]
}
ASKED_LEVEL = {"type": "score", "name": "tone", "instructions": "How bad?"} | {
    "levels": [{"label": "calm"}, {"label": "upset"}]
}

REQUESTS: Mapping[str, Sequence[Mapping[str, object] | Sequence[object]]] = {
    "/v1/chat/completions": CHATS,
    "/v1/cache/warm": CHATS,
    "/v1/chat/completions/input_tokens": CHATS,
    "/v1/completions": [
        ASKED | {"prompt": ["one", [65, 66]], "echo": True},
        ASKED | {"prompt": "one", "logprobs": 2, **USAGE},
        {"prompt": "one", "suffix": "two", "max_tokens": 3},
    ],
    "/v1/fim/completions": [
        DRAWN | {"model": "codestral-latest", "prompt": "one", "suffix": "two", "max_tokens": 3},
        {"prompt": "one", "suffix": "", "max_tokens": 3, "min_tokens": 1, **USAGE},
    ],
    "/v1/responses": [
        {"input": ITEMS, "instructions": "Be brief.", "max_output_tokens": 3}
        | {"tools": [{"type": "function", **FUNCTION}], "tool_choice": "auto"},
        {"input": "here", "max_output_tokens": 3, "stream": True, "temperature": 0}
        | {"text": {"format": {"type": "json_schema", "name": "it", "schema": SCHEMA}}}
        | {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
        {"input": "here", "max_output_tokens": 3, "tools": [PATCH]},
    ],
    "/v1/responses/input_tokens": [{"input": ITEMS, "instructions": "Be brief."}],
    "/v1/responses/{id}/cancel": [{}],
    "/v1/messages": [
        LETTER | {"max_tokens": 3, "stop_sequences": ["zzz"]},
        {"messages": BLOCKS[:1], "max_tokens": 3, "stream": True}
        | {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    ],
    "/v1/messages/count_tokens": [LETTER],
    "/api/chat": [
        OLD | {"messages": OLD_TALK, "tools": [TOOL], "think": True},
        OLD | {"messages": OLD_TALK, "format": SCHEMA, "stream": False},
        OLD | {"messages": OLD_TALK, "logprobs": True, "top_logprobs": 2},
    ],
    "/api/generate": [
        OLD | {"prompt": "here", "system": "Be brief.", "format": "json"},
        OLD | {"prompt": "here", "raw": True, "stream": False},
    ],
    "/api/show": [{"model": "scripted", "verbose": True}],
    "/completion": [
        WISHED | {"prompt": [65, "here", 66], "response_fields": ["content", "timings/prompt_n"]},
        WISHED | {"prompt": "here", "json_schema": SCHEMA, "stream": True},
        WISHED
        | {"prompt": {"prompt_string": "here"}, "n_probs": 2, "return_tokens": True}
        | {"repeat_last_n": 8, "repeat_penalty": 1.2},
    ],
    "/infill": [
        WISHED
        | {"input_prefix": "def", "input_suffix": "end", "prompt": "a", "t_max_predict_ms": 50}
        | {"input_extra": [{"text": "more", "filename": "other.py"}]},
    ],
    "/api/pull": [{"model": "small", "stream": False}, {"name": "other", "insecure": True}],
    "/api/copy": [{"source": "small", "destination": "other"}],
    "/slots/{id}": [{"filename": "x"}],
    "/lora-adapters": [[{"id": 0, "scale": 0.5}]],
    "/localspec/bench": [{"model": "scripted"}],
    "/models/load": [{"model": "scripted"}],
    "/models/unload": [{"model": "other"}],
    "/tokenize": [
        {"content": "here <|im_end|>", "add_special": True, "with_pieces": True},
        {"content": ["here", 65], "parse_special": False},
    ],
    "/detokenize": [{"tokens": [65, 66, 257]}],
    "/apply-template": CHATS,
    "/v1/decisions": [
        {"model": "scripted", "input": TALK[:1], "questions": [ASKED_YES, ASKED_WHICH, ASKED_LEVEL]}
        | {"permutations": 2},
        {"input": "pay me", "questions": [ASKED_YES]},
    ],
    "/v1/systemone": [
        {"model": "scripted", "state": {"mail": "pay me"}}
        | {
            "questions": {"team": {"type": "choice", "criteria": {"billing": "charges", "b": None}}}
        },
        {"state": "pay me", "questions": {"urgent": {"type": "noul", "instructions": "Urgent?"}}},
    ],
    "/v1/embeddings": [
        {"model": "embedder", "input": ["here", [65, 66]], "encoding_format": "base64"}
        | {"dimensions": 2, "input_type": "query", "user": "u"},
        {"input": [65, 66], "truncate": "END", "truncate_prompt_tokens": 2},
    ],
    "/embeddings": [{"content": ["here", "there"], "embd_normalize": 2}],
    "/api/embed": [
        {"model": "embedder", "input": ["here"], "truncate": True, "options": {"num_ctx": 256}}
        | {"keep_alive": "5m"}
    ],
    "/api/embeddings": [{"model": "embedder", "prompt": "here"}],
    "/v1/rerank": [
        {"model": "ranker", "query": "q", "documents": ["here", {"text": "there"}], "top_n": 1}
        | {"return_documents": True, "truncation": True},
        {"query": "q", "texts": ["here"], "return_text": True, "raw_scores": True},
    ],
    "/v1/score": [{"model": "ranker", "text_1": "q", "text_2": ["here", "there"]}],
}
