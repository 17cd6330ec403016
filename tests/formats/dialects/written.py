"""Small chat templates, each with a way to write calls that its family documents."""

from __future__ import annotations

START = "{% if tools %}<|system|>{{ tools | tojson }}<|end|>{% endif %}{% for m in messages %}"
SAID = "<|{{ m.role }}|>{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n"
SAID += "{% endif %}{{ m.content or '' }}"
END = "<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
EACH = "{% for c in m.tool_calls %}{% set f = c.function %}"
FIELDS = "{% for k, v in f.arguments.items() %}"
DONE = "{% endfor %}"
AS_TEXT = "{{ v if v is string else v | tojson }}"


def template(calls: str, before: str = "", said: str = SAID, end: str = END) -> str:
    return f"{before}{START}{said}{{% if m.tool_calls %}}{calls}{{% endif %}}{end}"


def fields(key: str, middle: str, end: str) -> str:
    return f"{FIELDS}{key}{{{{ k }}}}{middle}{AS_TEXT}{end}{DONE}"


GEMMA_VALUE = """
{%- macro value(v) -%}
{%- if v is string -%}<|"|>{{ v }}<|"|>
{%- elif v is boolean or v is none -%}{{ v | tojson }}
{%- elif v is mapping -%}{{ '{' }}{{ members(v) }}{{ '}' }}
{%- elif v is iterable -%}[{% for e in v %}{{ value(e) }}{{ ',' if not loop.last }}{% endfor %}]
{%- else -%}{{ v }}{%- endif -%}
{%- endmacro -%}
{%- macro members(v) -%}
{%- for k, e in v | dictsort %}{{ k }}:{{ value(e) }}{{ ',' if not loop.last }}{% endfor -%}
{%- endmacro -%}
"""
PYTHON_VALUE = "{% macro py(v) %}{% if v is string %}{{ v | tojson }}{% else %}{{ v }}"
PYTHON_VALUE += "{% endif %}{% endmacro %}"
ARGUMENTS = "{{ f.arguments | tojson }}"
ELEMENTS = """
{%- macro elements(v) -%}
{%- if v is mapping -%}
{% for k, e in v.items() %}]<]mark[>[<{{ k }}>{{ elements(e) }}]<]mark[>[</{{ k }}>{% endfor %}
{%- elif v is iterable and v is not string -%}
{% for e in v %}]<]mark[>[<item>{{ elements(e) }}]<]mark[>[</item>{% endfor %}
{%- else -%}{{ v if v is string else v | tojson }}{%- endif -%}
{%- endmacro -%}
"""

TEMPLATES = {
    "gemma 4": template(
        EACH + "<|tool_call>call:{{ f.name }}{{ '{' }}{{ members(f.arguments) }}{{ '}' }}"
        "<tool_call|>" + DONE,
        before=GEMMA_VALUE,
    ),
    "glm": template(
        EACH
        + "\n<tool_call>{{ f.name }}\n"
        + fields("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n")
        + "</tool_call>"
        + DONE
    ),
    "kimi": template(
        "<|tool_calls_section_begin|>" + EACH + "<|tool_call_begin|>functions.{{ f.name }}:"
        "{{ loop.index0 }}<|tool_call_argument_begin|>"
        + ARGUMENTS
        + "<|tool_call_end|>"
        + DONE
        + "<|tool_calls_section_end|>"
    ),
    "lfm2": template(
        "<|tool_call_start|>["
        + EACH
        + "{{ f.name }}("
        + FIELDS
        + "{{ k }}={{ py(v) }}{{ ', ' if not loop.last }}"
        + DONE
        + "){{ ', ' if not loop.last }}"
        + DONE
        + "]<|tool_call_end|>",
        before=PYTHON_VALUE,
    ),
    "minimax": template(
        "\n<minimax:tool_call>\n"
        + EACH
        + '<invoke name="{{ f.name }}">\n'
        + fields('<parameter name="', '">', "</parameter>\n")
        + "</invoke>\n"
        + DONE
        + "</minimax:tool_call>"
    ),
    "deepseek, typed": template(
        "\n\n<\uff5cDSML\uff5cfunction_calls>\n"
        + EACH
        + '<\uff5cDSML\uff5cinvoke name="{{ f.name }}">\n'
        + fields(
            '<\uff5cDSML\uff5cparameter name="',
            "\" string=\"{{ 'true' if v is string else 'false' }}\">",
            "</\uff5cDSML\uff5cparameter>\n",
        )
        + "</\uff5cDSML\uff5cinvoke>\n"
        + DONE
        + "</\uff5cDSML\uff5cfunction_calls>"
    ),
    "kimi k3": template(
        "<|open|>tools<|sep|>"
        + EACH
        + '<|open|>call tool="{{ f.name }}" index="{{ loop.index }}"<|sep|>'
        + fields(
            '<|open|>argument key="',
            "\" type=\"{{ 'string' if v is string else 'other' }}\"<|sep|>",
            "<|close|>argument<|sep|>",
        )
        + "<|close|>call<|sep|>"
        + DONE
        + "<|close|>tools<|sep|>",
        said=SAID.replace(
            "{{ m.content or '' }}",
            "{% if m.role == 'assistant' %}<|open|>response<|sep|>{{ m.content or '' }}"
            "<|close|>response<|sep|>{% else %}{{ m.content }}{% endif %}",
        ),
    ),
    "apertus": template(
        "<|tools_prefix|>["
        + EACH
        + '{"{{ f.name }}": '
        + ARGUMENTS
        + "}{{ ', ' if not loop.last }}"
        + DONE
        + "]<|tools_suffix|>"
    ),
    "command": template(
        "<|START_ACTION|>[\n"
        + EACH
        + '    {"tool_call_id": "{{ loop.index0 }}", "tool_name": "{{ f.name }}", "parameters": '
        + ARGUMENTS
        + "}{{ ',' if not loop.last }}\n"
        + DONE
        + "]<|END_ACTION|>",
        said="<|{{ m.role }}|>{% if m.content %}<|START_RESPONSE|>{{ m.content }}"
        "<|END_RESPONSE|>{% endif %}",
    ),
    "mistral": template(
        EACH + "[TOOL_CALLS]{{ f.name }}[CALL_ID]{{ c.id }}[ARGS]" + ARGUMENTS + DONE
    ),
    "solar": template(
        "<|tool_calls|>"
        + EACH
        + "<|call:begin|>{{ c.id }}<|call:name|>{{ f.name }}<|call:args|>"
        + ARGUMENTS
        + "<|call:end|>"
        + DONE
    ),
    "functionary": template(EACH + "<function={{ f.name }}>" + ARGUMENTS + "</function>" + DONE),
    "functionary, prompted": template(
        EACH + ">>>{{ f.name }}\n" + ARGUMENTS + DONE,
        said="<|{{ m.role }}|>\n{% if m.role == 'assistant' and m.content %}>>>all\n{% endif %}"
        "{{ m.content or '' }}",
        end=END.replace("<|assistant|>", "<|assistant|>\n>>>"),
    ),
    "by recipients": template(
        "{% for c in m.tool_calls %}{% set f = c.function %}"
        "{% if m.content or not loop.first %}<|from|>assistant\n<|recipient|>{% endif %}"
        "{{ f.name }}<|content|>" + ARGUMENTS + DONE,
        said="<|from|>{{ m.role }}\n<|recipient|>{% if m.content or not m.tool_calls %}"
        "all<|content|>{{ m.content }}{% endif %}",
        end=END.replace("<|assistant|>", "<|from|>assistant\n<|recipient|>"),
    ),
    "by messages": template(
        "<|calls|>" + EACH + "<|name|>{{ f.name }}<|args|>" + ARGUMENTS + "<|done|>" + DONE,
        said="<|begin|>{{ m.role }}{% if m.reasoning_content %}<|think|>{{ m.reasoning_content }}"
        "<|next|><|begin|>{{ m.role }}{% endif %}"
        "{% if m.content %}<|content|>{{ m.content }}{% endif %}",
        end=END.replace("<|assistant|>", "<|begin|>assistant"),
    ),
    "qwen coder": template(
        EACH
        + "\n<tool_call>\n<function={{ f.name }}>\n"
        + fields("<parameter=", ">\n", "\n</parameter>\n")
        + "</function>\n</tool_call>"
        + DONE
    ),
    "hermes": template(
        EACH
        + '\n<tool_call>\n{"name": "{{ f.name }}", "arguments": '
        + ARGUMENTS
        + "}\n</tool_call>"
        + DONE
    ),
    "queued": template(
        "{% set ns = namespace(ids=[]) %}"
        + EACH
        + "{% set _ = ns.ids.append(f.name) %}<call>{{ ns.ids.pop() }}<args>"
        + ARGUMENTS
        + "</args></call>"
        + DONE
    ),
    "cdata": template(
        EACH
        + '<function name="{{ f.name }}">'
        + FIELDS
        + '<param name="{{ k }}">{% if v is string and "<" in v %}<![CDATA[{{ v }}]]>'
        + "{% else %}"
        + AS_TEXT
        + "{% endif %}</param>"
        + DONE
        + "</function>"
        + DONE
    ),
    "on lines": template(
        "<function_calls>\n"
        + EACH
        + "{{ f.name }}("
        + FIELDS
        + "{{ k }}={% if v is string %}'{{ v }}'{% else %}{{ v | tojson }}{% endif %}"
        + "{{ ', ' if not loop.last }}"
        + DONE
        + ")\n"
        + DONE
        + "</function_calls>"
    ),
    "elements": template(
        "]<]mark[>[<calls>\n"
        + EACH
        + ']<]mark[>[<call name="{{ f.name }}">'
        + "{{ elements(f.arguments) }}]<]mark[>[</call>\n"
        + DONE
        + "]<]mark[>[</calls>",
        before=ELEMENTS,
    ),
    "kimi, by identifiers": template(
        "<|tool_calls_section_begin|>"
        + EACH
        + "<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>"
        + ARGUMENTS
        + "<|tool_call_end|>"
        + DONE
        + "<|tool_calls_section_end|>"
    ),
    "llama 4": template(
        EACH + '{"name": "{{ f.name }}", "parameters": ' + ARGUMENTS + "}" + DONE,
        said="<|{{ m.role }}|>{% if m.tool_calls %}<|python_start|>{{ m.content or '' }}"
        "<|python_end|>{% else %}{{ m.content }}{% endif %}",
    ),
    "closed, then ended by the next turn": template(
        "<|START_ACTION|>["
        + EACH
        + '{"tool_name": "{{ f.name }}", "parameters": '
        + ARGUMENTS
        + "}{{ ', ' if not loop.last }}"
        + DONE
        + "]<|END_ACTION|>",
        said="{% if not loop.first %}<|end|>{% endif %}<|{{ m.role }}|>"
        "{% if m.role != 'assistant' %}{{ m.content }}{% elif m.content %}"
        "<|START_RESPONSE|>{{ m.content }}<|END_RESPONSE|>{% endif %}",
        end="{% endfor %}{% if add_generation_prompt %}<|end|><|assistant|>{% endif %}",
    ),
    "on several lines": template(
        "<|tool_call|>["
        + EACH
        + '{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson(indent=4) }}}'
        + "{{ ', ' if not loop.last }}"
        + DONE
        + "]"
    ),
    "bare": template(
        EACH
        + '{"name": "{{ f.name }}", "parameters": '
        + ARGUMENTS
        + "}{{ '; ' if not loop.last }}"
        + DONE
    ),
    "bare list": template(
        "["
        + EACH
        + '{"name": "{{ f.name }}", "arguments": '
        + ARGUMENTS
        + "}{{ ', ' if not loop.last }}"
        + DONE
        + "]"
    ),
    "bare python": template(
        "["
        + EACH
        + "{{ f.name }}("
        + FIELDS
        + "{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}"
        + DONE
        + "){{ ', ' if not loop.last }}"
        + DONE
        + "]"
    ),
    "python without commas": template(
        "["
        + EACH
        + "{{ f.name }}("
        + FIELDS
        + "{{ k }}={{ v | tojson }}"
        + DONE
        + "){{ ', ' if not loop.last }}"
        + DONE
        + "]"
    ),
    "python without escapes": template(
        "<|tool_call_start|>["
        + EACH
        + "{{ f.name }}("
        + FIELDS
        + "{{ k }}={% if v is string %}'{{ v }}'{% elif v is mapping %}{{ v | tojson }}"
        + "{% else %}{{ v }}{% endif %}{{ ', ' if not loop.last }}"
        + DONE
        + "){{ ', ' if not loop.last }}"
        + DONE
        + "]<|tool_call_end|>"
    ),
    "word in brackets": template(EACH + "\n[tool_call] {{ f.name }} " + ARGUMENTS + DONE),
    "name last": template(
        EACH
        + '<tool_call>\n{"arguments": '
        + ARGUMENTS
        + ', "name": "{{ f.name }}"}\n</tool_call>\n'
        + DONE
    ),
    "listed in an object": template(
        '{"thought": "", "tool_calls": ['
        + EACH
        + '{"name": "{{ f.name }}", "arguments": '
        + ARGUMENTS
        + "}{{ ', ' if not loop.last }}"
        + DONE
        + "]}"
    ),
    "json in elements": template(
        EACH
        + '<call name="{{ f.name }}">\n'
        + FIELDS
        + '<arg name="{{ k }}">{{ v | tojson }}</arg>\n'
        + DONE
        + "</call>\n"
        + DONE
    ),
    "ended by the next key": template(
        EACH + "<|call|>{{ f.name }}" + fields("<|arg|>", "<|value|>", "") + "<|/call|>" + DONE
    ),
    "no line without arguments": template(
        EACH
        + "<call>{{ f.name }}"
        + fields("\n<arg>", "=", "</arg>")
        + "{{ '\n' if f.arguments }}</call>"
        + DONE
    ),
    "closed by names": template(
        EACH + "<fn:{{ f.name }}>" + ARGUMENTS + "</fn:{{ f.name }}>\n" + DONE
    ),
    "named elements": template(
        "<calls>"
        + EACH
        + "\n<{{ f.name }}>\n"
        + fields("<", ">", "</{{ k }}>\n")
        + "</{{ f.name }}>"
        + DONE
        + "\n</calls>"
    ),
    "name in brackets": template(EACH + "[FN={{ f.name }}]" + ARGUMENTS + "[/FN]" + DONE),
    "requests in brackets": template(
        EACH
        + '[TOOL_REQUEST]\n{"name": "{{ f.name }}", "arguments": '
        + ARGUMENTS
        + "}\n[END_TOOL_REQUEST]\n"
        + DONE
    ),
    "compact": template(
        EACH
        + '<call>{"name":"{{ f.name }}","arguments":'
        + '{{ f.arguments | tojson(separators=(",", ":")) }}}</call>'
        + DONE
    ),
    "sorted": template(
        EACH + "<call>{{ f.name }}{{ f.arguments | tojson(sort_keys=true) }}</call>" + DONE
    ),
    "content that is ended": template(
        EACH
        + '<|sep|>\n\ncall<|role|>\n{"name": "{{ f.name }}", "arguments": '
        + ARGUMENTS
        + "}"
        + DONE,
        said="<|{{ m.role }}|>{{ m.content or '' }}",
        end="<|sep|>\n\n<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
    ),
}
