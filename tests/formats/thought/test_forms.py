"""What a budget takes for a thought is what a reader takes for reasoning, after every byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec.formats.dialects import Reasoning, dialect_of
from localspec.formats.thought.form import Place, ThoughtCourse, ends_within_character
from tests.formats.dialects.samples import FAMILIES, THINKERS, TOOLS, joined
from tests.formats.dialects.written import TEMPLATES

REAL = sorted((Path(__file__).parents[4] / "shared/data/templates").glob("*.jinja"))
SOURCES = {
    **{f"{name}, by signs": family.template for name, family in THINKERS.items()},
    "harmony": FAMILIES["harmony"].template,
    **TEMPLATES,
    **{path.stem: path.read_text() for path in REAL},
}
THINKING = {name: source for name, source in SOURCES.items() if dialect_of(source).reasons}
PROBE = "zq"  # belongs to a thought if what stands before it has begun one


def replies_of(name, source, prompt_end):
    """Replies that think, and replies that only look so."""
    dialect = dialect_of(source)
    if name.startswith(("harmony", "openai")):
        return [
            "<|channel|>analysis<|message|>Hm: é <|end|><|start|>assistant<|channel|>final"
            "<|message|>So.<|end|>",
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary "
            "to=functions.weather <|constrain|>json<|message|>{}<|call|><|start|>assistant"
            "<|channel|>analysis<|message|>b<|end|>",
            "<|start|>assistant<|channel|> analysis<|message|>c<|channel|>final<|message|>d",
            "<|channel|>analysis to=weather<|message|>{}<|end|>analysis<|message|>",
            "analysis<|message|>e",
        ]
    thought = dialect.thought
    opening = "" if thought.opened_by(prompt_end) else thought.open
    call = (dialect.form.openings or ("{",))[0]
    return [
        f"{opening}\nHm: é <{thought.close}\n\nSo {thought.open}no{thought.close}",
        f" \n{opening}{thought.close[:-1]} {thought.close}",
        f"{call}{opening}Hm{thought.close}",
        f"{opening}Hm {call} more{thought.close}",
        f"Hi {thought.open}hm",
        f"{thought.close}Hi",
        thought.open[:-1] + "x",
    ]


def reads_as_thought(dialect, tools, prompt_end, text):
    reader = dialect.reader(tools, prompt_end)
    parts = joined([*reader.read(text + PROBE), *reader.close()])
    return any(isinstance(part, Reasoning) and part.text.endswith(PROBE) for part in parts[-1:])


@pytest.mark.parametrize("name", THINKING)
@pytest.mark.parametrize("tools", [(), TOOLS], ids=["no tools", "tools"])
def test_a_form_follows_a_reply_as_its_reader_reads_it(name, tools):
    source = THINKING[name]
    dialect = dialect_of(source)
    ends = ["", "<|start|>assistant", "<|start|>assistant<|channel|>analysis<|message|>"]
    if not name.startswith(("harmony", "openai")):
        ends = ["", dialect.thought.open, dialect.thought.open + "\n"]
    for prompt_end in ends:
        form = dialect.thoughts(tools, prompt_end).form
        for reply in replies_of(name, source, prompt_end):
            place = form.start
            for at, letter in enumerate(reply, 1):
                for byte in letter.encode():
                    place = form.read(place, bytes([byte]))
                expected = reads_as_thought(dialect, tools, prompt_end, reply[:at])
                assert place.thinks == expected, (prompt_end, reply[:at])


@pytest.mark.parametrize("name", THINKING)
@pytest.mark.parametrize("tools", [(), TOOLS], ids=["no tools", "tools"])
def test_the_closing_text_ends_a_thought_wherever_it_comes(name, tools):
    dialect = dialect_of(THINKING[name])
    for begun in ("", "Hm", "Hm <", "Hm\n", "é <|"):
        opening, marks = opened(dialect)
        form, closing, _ = dialect.thoughts(tools, opening)
        course = ThoughtCourse(form.start)
        for byte in begun.encode():
            course = course.after(form, bytes([byte]))
        assert course.place.thinks
        course = course.after(form, closing.encode())
        assert not course.place.thinks
        reader = dialect.reader(tools, opening)
        parts = joined([*reader.read(begun + closing + "zqsaid"), *reader.close()])
        assert [part for part in parts if "zqsaid" in getattr(part, "text", "")] == parts[-1:]
        assert not any(mark in str(parts) for mark in marks)


def opened(dialect):
    """Return a prompt's end that has begun a thought, and the marks that nobody is to see."""
    if getattr(dialect, "thought", None):
        return dialect.thought.open, (dialect.thought.close,)
    return "<|start|>assistant<|channel|>analysis<|message|>", ("<|end|>",)


def test_a_closing_is_learnt_with_the_blanks_that_the_template_writes():
    assert dialect_of(TEMPLATES["hermes"]).thoughts((), "").closing == "\n</think>\n"
    assert dialect_of("{# </think> #}").thoughts((), "").closing == "\n</think>\n\n"
    assert dialect_of("{# [THINK] #}").thoughts((), "").closing == "[/THINK]"
    harmony = dialect_of(FAMILIES["harmony"].template)
    assert harmony.thoughts((), "").closing.endswith("<|channel|>final<|message|>")
    assert harmony.thoughts(TOOLS, "").closing == "<|end|><|start|>assistant"
    assert dialect_of("{{ messages }}").thoughts((), "") is None


def test_gpt_oss_chooses_its_channel_behind_the_mark():
    form = dialect_of(FAMILIES["harmony"].template).thoughts((), "<|start|>assistant").form
    for text, chooses in (("", False), ("<|channel|>", True), ("<|channel|>a", False)):
        assert form.read(form.start, text.encode()).chooses == chooses


@pytest.mark.parametrize("letter", ["a", "é", "€", "😀"])
def test_a_text_ends_within_a_character_until_its_last_byte(letter):
    written = letter.encode()
    for length in range(len(written) + 1):
        for before in (b"", b"x", "😀".encode()):
            ends = ends_within_character(before + written[:length])
            assert ends == (0 < length < len(written))


def test_bytes_that_are_no_text_keep_no_thought_open():
    assert not ends_within_character(b"\x80\x80\x80\x80")
    assert not ends_within_character(b"\xf0\x80\x80\x80")
    assert ThoughtCourse(Place(thinks=True)).tokens == 0
