"""Templates that refuse tools as they are get them in another way."""

from __future__ import annotations

import json

from localspec.formats.dialects.probe import Untokenized
from localspec.formats.templates.chat_template import ChatTemplate

PLACES = {"type": "object", "properties": {"near": {"type": "object"}, "tags": {"type": "array"}}}
TOOL = {"type": "function", "function": {"name": "find", "parameters": PLACES}}
ASKED = [{"role": "user", "content": "Where?"}]


def rendered(source, tools=(TOOL,)):
    return ChatTemplate(Untokenized(source)).render(ASKED, tools)


def test_a_template_that_reads_functions_as_a_text_gets_them():
    source = "{{ 'You may call: ' + functions + datetime[:2] }}{{ messages[0].content }}"
    assert rendered(source).startswith("You may call: [")
    assert '"name": "find"' in rendered(source)
    assert rendered(source, ()).startswith("You may call: []20")


def test_schemas_are_told_in_full_where_a_template_wants_that():
    source = (
        "{% for each in tools %}{% for name, e in each.function.parameters.properties.items() %}"
        "{% set within = 'items' if e.type == 'array' else 'additionalProperties' %}"
        "{{ name + ':' + (e[within].type | tojson) }}"
        "{{ e.description + ';' }}"
        "{% endfor %}{% endfor %}{{ messages[0].content }}"
    )
    simple = json.dumps(["string", "number", "boolean"])
    assert rendered(source) == f"near:{simple};tags:{simple};Where?"


def test_a_tool_needs_no_description_and_no_parameters():
    """The templates of gpt-oss and Hermes 3 add to the description without asking for it."""
    source = (
        "{% for each in tools %}{{ '// ' + each.function.description + each.function.name }}"
        "{{ each.function.parameters.properties | length }}{% endfor %}{{ messages[0].content }}"
    )
    bare = {"type": "function", "function": {"name": "stop"}}
    fields = {"type": "function", "function": {"name": "go", "description": "on "}}
    assert rendered(source, [bare, fields]) == "// stop0// on go0Where?"


def test_types_are_told_simply_where_a_template_knows_no_others():
    source = (
        "{% macro kind(type) %}{% if type is string and type != 'null' %}{{ type }}"
        "{% elif type %}{{ raise_exception('of many types') }}"
        "{% else %}{{ raise_exception('of no type') }}{% endif %}{% endmacro %}"
        "{% for name, e in tools[0].function.parameters.properties.items() %}"
        "{{ name + ':' + kind(e.type) + ';' }}{% endfor %}{{ messages[0].content }}"
    )
    members = {
        "note": {"type": ["string", "null"]},
        "any": {},
        "none": {"type": "null"},
        "all": True,
    }
    schema = {"type": "object", "properties": members}
    tool = {"type": "function", "function": {"name": "find", "parameters": schema}}
    assert rendered(source, [tool]) == "note:string;any:string;none:string;all:string;Where?"


def test_a_list_that_a_template_makes_of_a_list_is_json():
    source = "{{ tools | map(attribute='function') | tojson }}{{ messages[0].content }}"
    assert json.loads(rendered(source).removesuffix("Where?")) == [TOOL["function"]]
