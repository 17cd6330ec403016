"""Replies that small models gave to requests with these tools, and the calls in them.

Qwen2.5-Coder 1.5B and 0.5B (Q4_K_M), greedy; their template asks for `<tool_call>`.
"""

from __future__ import annotations


def function(name, required, **properties):
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
OFFERED = [
    function("get_weather", ["city"], city=STRING, unit={"enum": ["celsius", "fahrenheit"]}),
    function("search_web", ["query"], query=STRING, max_results={**INTEGER, "maximum": 20}),
    function(
        "create_event",
        ["title", "date"],
        title=STRING,
        date=STRING,
        attendees={"type": "array", "items": STRING},
    ),
    function("read_file", ["path"], path=STRING, first_line=INTEGER, last_line=INTEGER),
    function("list_files", ["folder"], folder=STRING),
]
REPLIES = [
    (
        '```json\n{\n  "name": "get_weather",\n  "arguments": {\n    "city": "Oslo",\n'
        '    "unit": "celsius"\n  }\n}\n```',
        [("get_weather", {"city": "Oslo", "unit": "celsius"})],
    ),
    (
        '```json\n{\n  "name": "create_event",\n  "arguments": {\n    "title": "Planning",\n'
        '    "date": "2026-12-03",\n    "attendees": ["Ana", "Bo"]\n  }\n}\n```',
        [
            (
                "create_event",
                {"title": "Planning", "date": "2026-12-03", "attendees": ["Ana", "Bo"]},
            )
        ],
    ),
    (
        '```json\n{\n  "name": "read_file",\n  "arguments": {\n    "path": "README.md",\n'
        '    "first_line": 10,\n    "last_line": 20\n  }\n}\n```',
        [("read_file", {"path": "README.md", "first_line": 10, "last_line": 20})],
    ),
    (
        '{"name": "list_files", "arguments": {"folder": "tests"}}',
        [("list_files", {"folder": "tests"})],
    ),
    ('```json\n{\n  "name": "add",\n  "arguments": {\n    "a": 2,\n    "b": 2\n  }\n}\n```', []),
    ('```json\n{\n  "name": "Ana",\n  "arguments": {\n    "age": 30\n  }\n}\n```', []),
    (
        '```json\n{\n  "name": " speculative decoding",\n  "arguments": {\n'
        '    "title": "Exploring speculative decoding in the context of artificial '
        'intelligence",\n'
        '    "date": "2023-04-15",\n    "attendees": ["Alice", "Bob", "Charlie"]\n  }\n}\n```',
        [],
    ),
    (  # cut off at its limit
        '```json\n{\n  "name": "README.md",\n  "arguments": {\n    "lines": [\n      "## Tools",\n'
        '      "You may call one or more functions to assist with the user query.",\n'
        '      {"type": "function", "function": {"name": "get_weather"}},\n',
        [],
    ),
]
