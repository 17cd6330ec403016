"""What models of each family write: the mark of their templates, replies, and what those mean."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.formats.dialects import Arguments, Call, Content, Part, Reasoning

BAR = "\uff5c"
BEGIN, END = f"<{BAR}tool▁calls▁begin{BAR}>", f"<{BAR}tool▁calls▁end{BAR}>"
ONE, ONE_END, SEP = (f"<{BAR}tool▁{word}{BAR}>" for word in ("call▁begin", "call▁end", "sep"))

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "units": {"enum": ["metric", "imperial"]},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
ADD = {
    "type": "object",
    "properties": {
        "terms": {"type": "array", "items": {"$ref": "#/$defs/term"}, "maxItems": 3},
        "exact": {"type": "boolean"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["terms"],
    "additionalProperties": False,
    "$defs": {"term": {"type": "integer"}},
}
SCHEMAS = {"weather": WEATHER, "add": ADD, "now": {"type": "object", "maxProperties": 0}}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema}}
    for name, schema in SCHEMAS.items()
]

CITY = '{"city": "Å \\"q\\"", "days": 3}'
TERMS = '{"terms": [1, -2], "note": null}'
CITY_CALL = (Call(0, "weather"), Arguments(0, CITY))
TERMS_CALL = (Call(1, "add"), Arguments(1, TERMS))


@dataclass(frozen=True)
class Family:
    """`two` makes both calls, as a grammar for calls alone takes it."""

    template: str
    two: str
    several: bool = True  # whether the family can make two calls in one reply


def tagged(city: str = "arguments") -> tuple[str, str]:
    return (
        f'{{"name": "weather", "{city}": {CITY}}}',
        f'{{"name": "add", "{city}": {TERMS}}}',
    )


FIRST, SECOND = tagged()
LLAMA, _ = tagged("parameters")
FAMILIES = {
    "hermes": Family(
        "{{ '<tool_call>' }}",
        f"<tool_call>\n{FIRST}\n</tool_call>\n<tool_call>\n{SECOND}\n</tool_call>",
    ),
    "qwen coder": Family(
        "{{ '<tool_call>\n<function=' + name }}",
        '<tool_call>\n<function=weather>\n<parameter=city>\nÅ "q"\n</parameter>\n'
        "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>\n"
        "<tool_call>\n<function=add>\n<parameter=terms>\n[1, -2]\n</parameter>\n"
        "<parameter=note>\nnull\n</parameter>\n</function>\n</tool_call>",
    ),
    "glm": Family(
        "<tool_call>{name}<arg_key>{key}</arg_key>",
        '<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Å "q"</arg_value>\n'
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n"
        "<tool_call>add\n<arg_key>terms</arg_key>\n<arg_value>[1, -2]</arg_value>\n"
        "<arg_key>note</arg_key>\n<arg_value>null</arg_value>\n</tool_call>",
    ),
    "llama": Family("{{ '<|python_tag|>' }}", LLAMA, several=False),
    "pythonic": Family(
        "for example [f(a=1)]",
        '[weather(city="Å \\"q\\"", days=3), add(terms=[1, -2], note=null)]',
    ),
    "lfm2": Family(
        "{{ '<|tool_call_start|>' }}",
        '<|tool_call_start|>[weather(city="Å \\"q\\"", days=3), '
        "add(terms=[1, -2], note=null)]<|tool_call_end|>",
    ),
    "mistral": Family("{{ '[TOOL_CALLS][' }}", f"[TOOL_CALLS][{FIRST}, {SECOND}]"),
    "mistral, named": Family(
        "{{ '[TOOL_CALLS]' + name + '[ARGS]' }}",
        f"[TOOL_CALLS]weather[ARGS]{CITY}[TOOL_CALLS]add[ARGS]{TERMS}",
    ),
    "granite": Family(
        "respond only with <|tool_call|>; <think></think> and <response></response>",
        f"<|tool_call|>[{FIRST}, {SECOND}]",
    ),
    "phi": Family("<|tool_call|><|/tool_call|>", f"<|tool_call|>[{FIRST}, {SECOND}]<|/tool_call|>"),
    "nemotron": Family("<TOOLCALL>[", f"<TOOLCALL>[{FIRST}, {SECOND}]</TOOLCALL>"),
    "harmony": Family(
        "<|start|>system<|message|> Valid channels: <|channel|>",
        "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" + CITY,
        several=False,
    ),
    "deepseek": Family(
        f"{BEGIN}{ONE}function{SEP}name\n```json",
        f"{BEGIN}{ONE}function{SEP}weather\n```json\n{CITY}\n```{ONE_END}\n"
        f"{ONE}function{SEP}add\n```json\n{TERMS}\n```{ONE_END}{END}",
    ),
    "deepseek, newer": Family(
        f"{BEGIN}{ONE}name{SEP}",
        f"{BEGIN}{ONE}weather{SEP}{CITY}{ONE_END}\n{ONE}add{SEP}{TERMS}{ONE_END}{END}",
    ),
    "generic": Family("{{ messages }}", FIRST, several=False),
}
THINKERS = {
    name: Family(family.template + "<think></think>", family.two, family.several)
    for name, family in FAMILIES.items()
    if name != "harmony"
}


def joined(parts: list[Part]) -> list[Part]:
    """Parts with neighbours of one kind put together, so that chunks do not show."""
    found: list[Part] = []
    for part in parts:
        match (found[-1] if found else None, part):
            case (Content(before), Content(text)):
                found[-1] = Content(before + text)
            case (Reasoning(before), Reasoning(text)):
                found[-1] = Reasoning(before + text)
            case (Arguments(at, before), Arguments(index, text)) if at == index:
                found[-1] = Arguments(index, before + text)
            case _:
                found.append(part)
    return found
