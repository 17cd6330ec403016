"""Forms of replies that no client means: patterns, grammars and schemas that ask for much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def within(schema: object, times: int) -> object:
    for _ in range(times):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


PATTERNS = (
    "(a+)+$(",
    "(" * 3000,
    "(" * 500 + "a" + ")" * 500,
    "((a{1,1000}){1,1000}){1,1000}",
    ".{1,100000}",
    "(.*a.*b.*c.*){40}",
    "(a|aa)+(b|bb)+" * 300,
    "(?=a)b|(?<!c)d\\1",
    "[\\p{Greek}&&[^é]]+\\b\\B",
    "(?i)ß{0,}",
    "[z-a]",
    "\\ud800[\ud800]",
    "\0",
    "[^",
    "a" * 20_000,
    "$^",
)
GRAMMARS = (
    "root ::= root",
    "root ::= ",
    "root ::= missing",
    'root ::= (("a"*)*)*',
    "root ::= " + "(" * 3000,
    "root ::= " + "(" * 300 + '"a"' + ")" * 300,
    'root ::= "a"{1,999999999}',
    'root ::= "a"{5,1}',
    "root ::= [\\U0010ffff-\\x00]+",
    "root ::= [\\uD800-\\uDFFF]",
    'root ::= "\\x"',
    'root ::= "a" |',
    "\n".join(f"r{number} ::= r{number + 1} r{number + 1}" for number in range(60)),
    "root ::= " + " | ".join(f'"{number}"' for number in range(5000)),
    'start: "a" start',
    "%llguidance {}",
    'start: %json {"type": "\ud800"}',
    "start: /(a+)+$(/",
    'start: "a" ~ 1..999999999',
    "%import common.NOTHING\nstart: NOTHING",
    "\ud800 ::= \0",
)
SCHEMAS = (
    {"$ref": "#"},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    {"$ref": "#/$defs/" + "a/" * 2000},
    {"allOf": [{"$ref": "#"}, {"type": "object"}]},
    {"anyOf": [{"type": "string", "pattern": "(a+)+$("}] * 300},
    {"oneOf": [within({"type": "string"}, 3)] * 100},
    {"not": {}},
    {"enum": list(range(5000))},
    {"enum": ["\ud800", None, [[]], {"a": 1e308}]},
    {"const": "a" * 50_000},
    {"type": "object", "properties": {str(number): {} for number in range(2000)}},
    {"type": "object", "properties": {"\ud800": {}, "": {"type": []}}, "required": ["z" * 999]},
    {"type": "object", "patternProperties": {pattern: {} for pattern in PATTERNS[:6]}},
    {"type": "object", "minProperties": 1 << 40, "additionalProperties": {"$ref": "#"}},
    {"type": "array", "minItems": 1 << 30, "items": {"type": "array", "minItems": 1 << 30}},
    {"type": "array", "prefixItems": [{"$ref": "#"}] * 50, "maxItems": -1},
    {"type": "string", "minLength": 1 << 40, "maxLength": -5},
    {"type": "string", "maxLength": 1 << 62},
    {"type": "string", "format": "\ud800"},
    {"type": "number", "multipleOf": 0},
    {"type": "number", "multipleOf": 1e-300, "minimum": 1e308, "maximum": -1e308},
    {"type": "integer", "minimum": 1 << 200, "maximum": (1 << 200) + 1},
    {"type": "integer", "minimum": 0.5, "exclusiveMaximum": 0.6},
    {"type": ["string", "number", "x", None, 5]},
    {"if": {"$ref": "#"}, "then": {}, "else": False},
    {"$schema": "http://example.invalid/\0", "$id": "file:///etc/passwd", "$ref": "x"},
    {"$defs": {str(at): {"$ref": f"#/$defs/{at + 1}"} for at in range(500)}, "$ref": "#/$defs/0"},
    within({"type": "string"}, 60),
    within({}, 100),
    [],
    True,
    False,
    "\ud800",
    *({"type": "string", "pattern": pattern} for pattern in PATTERNS),
)


def tool(schema: object) -> object:
    return {"type": "function", "function": {"name": "weather", "parameters": schema}}


FIELDS: Mapping[str, Sequence[object]] = {  # as requests have them at their top
    "grammar": GRAMMARS,
    "json_schema": SCHEMAS,
    "format": (*SCHEMAS, "json", "yaml"),
    "guided_json": SCHEMAS,
    "guided_regex": PATTERNS,
    "guided_grammar": GRAMMARS,
    "guided_choice": ([], [""], ["a" * 9999] * 999, ["\ud800", "\0"], [5], "a"),
    "structured_outputs": (
        *({"json": schema} for schema in SCHEMAS),
        *({"regex": pattern} for pattern in PATTERNS),
        *({"grammar": grammar} for grammar in GRAMMARS),
        {"structural_tag": "{}"},
    ),
    "response_format": (
        *(
            {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}}
            for schema in SCHEMAS
        ),
        *({"type": "json_object", "schema": schema} for schema in SCHEMAS),
        *({"type": "regex", "pattern": pattern} for pattern in PATTERNS),
        *({"type": "grammar", "grammar": grammar} for grammar in GRAMMARS),
    ),
    "text": tuple(
        {"format": {"type": "json_schema", "name": "it", "schema": schema}} for schema in SCHEMAS
    ),
    "output_config": tuple(
        {"format": {"type": "json_schema", "schema": schema}} for schema in SCHEMAS
    ),
    "tools": (
        *([tool(schema)] for schema in SCHEMAS),
        *([{"type": "function", "name": "weather", "parameters": schema}] for schema in SCHEMAS),
        *([{"name": "weather", "input_schema": schema}] for schema in SCHEMAS),
        *(
            [{"type": "custom", "name": "patch"} | {"format": {"type": "grammar"} | given}]
            for grammar in (*GRAMMARS, *PATTERNS)
            for given in ({"syntax": "lark", "definition": grammar},)
        ),
        [tool({"type": "object"})] * 300,
    ),
    "tool_choice": ("required", "any", {"type": "tool", "name": "weather"}, "nothing"),
    "stop": (["a" * 5000] * 500, [""], ["\ud800"], [[]]),
    "logit_bias": ({str(token): -100 for token in range(300)}, {"\ud800": 1}, [[1 << 70, False]]),
    "chat_template_kwargs": (
        {"messages": None, "tools": 5, "add_generation_prompt": [], "bos_token": {}},
        {"\ud800": "\0", "enable_thinking": "{{ 7 }}"},
    ),
    "prompt": ("\ud800", [[]], [["a", []]], ["a"] * 300, [1 << 40], [-1], [0.5], {"a": 1}),
    "input": ("\ud800", [[]], [None], [{"type": "x"}] * 300, {"role": "user"}, [{"content": 5}]),
    "samplers": ("edkypmxti", ["top_k"] * 500, [None], ";;;", ["\ud800"]),
    "n": (0, -1, 1 << 70, 0.5, 129),
    "stream": (True, "yes", 1),
}
