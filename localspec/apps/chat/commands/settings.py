"""Commands that choose the model, and how it answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

from localspec.apps.chat import files, named_prompts, named_settings
from localspec.apps.chat.commands.command import OFF, ON, add, columns, read_switch
from localspec.apps.chat.talk import Talk
from localspec.base.errors import UsageError
from localspec.formats.grammar.grammar import Grammar

BUDGET = "reasoning-budget"
SAVE, FORGET = "save", "forget"


def model(talk: Talk, name: str) -> None:
    if name:
        talk.change(name)
        return
    present, names = talk.speaker.name, talk.source.names()
    marked = [name for name in names if present in (name, name.partition(":")[0])] or [present]
    rows = columns()
    for name in dict.fromkeys((*marked, *names)):
        add(rows, "*" if name in marked else "", name, talk.source.about(name))
    talk.screen.show(rows)


def system(talk: Talk, text: str) -> None:
    if not text:
        talk.screen.say(talk.session.system or "there is no system prompt")
        return
    talk.session.system = "" if text == OFF else text
    talk.screen.faint("the system prompt is set" if text != OFF else "no system prompt any more")


def prompt(talk: Talk, text: str) -> None:
    """Use, save or forget a system prompt by its name; without one, list all."""
    action, _, name = text.partition(" ")
    if action not in (SAVE, FORGET):
        use_prompt(talk, text)
    elif not (name := name.strip()):
        raise UsageError(f"name the prompt: /prompt {action} NAME")
    elif action == FORGET:
        named_prompts.forget(name)
        talk.screen.faint(f"forgotten: {name}")
    elif not talk.session.system:
        raise UsageError("there is no system prompt to save: /system TEXT sets one")
    else:
        named_prompts.save(name, talk.session.system)
        talk.screen.faint(f"saved: /prompt {name} uses it in any conversation")


def use_prompt(talk: Talk, name: str) -> None:
    if name:
        system(talk, named_prompts.named(name))
        return
    prompts = named_prompts.everything()
    if not prompts:
        raise UsageError("no prompt is kept yet: /prompt save NAME keeps the present one")
    rows = columns()
    for label, text in prompts.items():
        first, _, _ = text.strip().partition("\n")
        add(rows, "*" if text == talk.session.system else "", label, first[:60])
    talk.screen.show(rows)


def prompt_words(_: Talk) -> Sequence[str]:
    """List what can follow /prompt; no names where they cannot be read."""
    names: Sequence[str] = ()
    with suppress(UsageError):
        names = tuple(named_prompts.everything())
    return *names, f"{SAVE} ", *(f"{FORGET} {name}" for name in names)


def set_(talk: Talk, text: str) -> None:
    if not text:
        show(talk)
        return
    name, equals, value = text.partition("=")
    if not equals or not value.strip():
        raise UsageError(
            f"write it as /set temperature=0.7, or /set temperature={named_settings.DEFAULT}; "
            "/set alone shows all"
        )
    changes = named_settings.with_change(talk.session.wishes, name, value.strip())
    named_settings.apply(talk.usual, changes)  # which refuses what cannot be
    talk.session.wishes = changes
    setting = named_settings.find(name)
    default = "" if setting.name in changes else ", the default"
    talk.screen.faint(f"{setting.name} is {setting.text(talk.settings)}{default}")


def show(talk: Talk) -> None:
    """Show all settings; an asterisk marks those that are not default."""
    settings, rows, others = talk.settings, columns(), list[str]()
    for setting in named_settings.SETTINGS:
        text = setting.text(settings)
        mark = "*" if text != setting.text(talk.usual) else ""
        if mark or not setting.is_rare:
            add(rows, mark, setting.name, text, setting.about)
        else:
            others.append(setting.name)
    thinking = {None: "auto", True: ON, False: OFF}[talk.think]
    add(rows, "*" if talk.think is not None else "", "thinking", thinking, "Set by /think.")
    context = f"{talk.speaker.context:,}" if talk.speaker.context else "unknown"
    add(rows, "", "context", context, "Set by --context when a model is loaded.")
    talk.screen.show(rows)
    talk.screen.faint(f"default too: {', '.join(others)}")
    default = named_settings.DEFAULT
    talk.screen.faint(f"/set NAME=VALUE changes one, /set NAME={default} takes that back (*)")


def plain(talk: Talk, text: str) -> None:
    talk.plain = read_switch(text, talk.plain)
    nothing = talk.settings.depth == 0  # which may have been set otherwise too
    talk.screen.faint("nothing is drafted" if nothing else "tokens are drafted where it pays")


def think(talk: Talk, text: str) -> None:
    """Choose whether the model thinks before it answers, and for how many tokens at most."""
    is_budget, budget = text.isdecimal(), named_settings.DEFAULT
    if text == named_settings.AUTO:
        talk.think, state = None, "thinks before it answers as its makers meant it to"
    else:
        think = int(text) > 0 if is_budget else read_switch(text, talk.think is not False)
        if talk.speaker.thinks is False:
            raise UsageError(f"{talk.speaker.name} knows no thinking before an answer")
        talk.think, state = think, "thinks" if think else "does not think"
        most = f" for {int(text):,} tokens at most" if is_budget and think else ""
        state += f"{most} before it answers, if its chat template has that choice"
        if is_budget:
            budget = text
        elif think and talk.usual.reasoning_budget == 0:
            budget = "-1"
    talk.session.wishes = named_settings.with_change(talk.session.wishes, BUDGET, budget)
    talk.screen.faint(f"the model {state}")


def json_(talk: Talk, text: str) -> None:
    if not text:
        raise UsageError(f'give a schema: a file, JSON, e.g. {{"type": "object"}}, or {OFF}')
    if text == OFF:
        talk.schema = None
        talk.screen.faint("answers are free")
        return
    written = text if text.startswith("{") else files.text_of(text)
    try:
        schema = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the schema is no JSON: {error}") from error
    if not isinstance(schema, dict):
        raise UsageError("the schema is no JSON object")
    talk.schema = Grammar("json_schema", json.dumps(schema))
    talk.screen.faint("answers follow the schema")


def prediction(talk: Talk, path: str) -> None:
    if not path:
        raise UsageError(f"name a file that answers are likely to repeat, or {OFF}")
    talk.prediction = "" if path == OFF else files.text_of(path)
    talk.screen.faint("nothing is predicted" if path == OFF else f"{path} is used for drafts")
