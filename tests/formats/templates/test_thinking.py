"""Choices about thinking reach a template under the names that it reads."""

from __future__ import annotations

import pytest

from localspec.base.errors import UsageError
from localspec.formats.templates.chat_template import ChatTemplate
from localspec.interfaces.testing import Alphabet

ASKED = [{"role": "user", "content": "Why?"}]


def rendered(source, **extra):
    tokenizer = Alphabet([b"", b""], ends=[1])
    tokenizer.chat_template = source
    return ChatTemplate(tokenizer).render(ASKED, extra=extra)


@pytest.mark.parametrize(
    ("source", "on", "off"),
    [
        ("{{ enable_thinking }}", "True", "False"),
        ("{{ thinking }}", "True", "False"),
        ("{{ skip_thinking }}", "False", "True"),
        ("{{ thinking_mode }}", "enabled", "disabled"),
        ("{{ thinking_option }}", "on", "off"),
        ("{{ thinking_budget }}", "", "0"),
    ],
)
def test_a_switch_has_the_name_that_the_template_reads(source, on, off):
    assert rendered(source, enable_thinking=True) == on
    assert rendered(source, enable_thinking=False) == off
    assert rendered(source) == ""


def test_a_variable_that_was_given_by_its_name_stays_as_it_came():
    assert rendered("{{ thinking }}", enable_thinking=True, thinking="so") == "so"
    assert rendered("{{ thinking_effort }}", reasoning_effort="low", thinking_effort="max") == "max"


def refusing(known):
    return (
        f"{{% if reasoning_effort is defined and reasoning_effort not in {known} %}}"
        "{{ raise_exception('no such effort') }}{% endif %}{{ reasoning_effort }}"
    )


@pytest.mark.parametrize(
    ("known", "asked", "told"),
    [
        (["low", "high"], "high", "high"),
        (["low", "high"], "medium", "high"),
        (["low", "high"], "xhigh", "high"),
        (["no_think", "low", "high"], "none", "no_think"),
        (["low", "high"], "minimal", "low"),
        (["low", "high"], "some", ""),
    ],
)
def test_an_effort_that_a_template_refuses_becomes_the_nearest_it_takes(known, asked, told):
    assert rendered(refusing(known), reasoning_effort=asked) == told


def test_a_template_that_refuses_all_efforts_is_told_none():
    assert rendered(refusing([]), reasoning_effort="low") == ""
    with pytest.raises(UsageError, match="never"):
        rendered("{{ raise_exception('never') }}", reasoning_effort="low")
