"""`localspec plan`: an account that adds up, and words for what was conceded."""

from __future__ import annotations

import json
import re

import pytest

from localspec.apps.command_line import run
from localspec.apps.commands.plan import BAR_WIDTH, bar, lines
from localspec.apps.server.command import short_for_agents
from localspec.interfaces.backend import Options
from localspec.running.memory.placement import CONTEXT, Item
from localspec.running.memory.plan import Plan, beyond_training, held_for_slots, plan
from tests import engines
from tests.machines import GB, MACHINES, MB, cpu, wanted

FULL = """\
one text of 8,192 tokens, keys and values in q8_0

host memory, 6.0 GiB
  [WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWCCCCCCB....]
  W weights              4.9 GiB
  C context              612 MiB
  B buffers              106 MiB
  . free                 397 MiB

conceded: no draft model: prompt lookup drafts instead (1.1 GiB too much for host \
memory)

conceded: KV cache in 8 bits (144 MiB too much for host memory)"""


def test_the_account_is_drawn_with_every_concession():
    planned = plan(wanted("8b", "0.6b"), cpu(64 * GB).instead(6 * GB))
    assert "\n".join(lines(planned)) == FULL


def test_each_device_has_an_account_that_adds_up():
    planned = plan(wanted("14b", "0.6b"), MACHINES["8 GB card"])
    text = "\n".join(lines(planned))
    accounts = text.split("\n\n")[1:3]
    assert [account.partition(",")[0] for account in accounts] == ["GPU 0", "host memory"]
    for account in accounts:
        figures = re.findall(r"^  . [a-z ]+ +([\d.,]+) (MiB|GiB)$", account, re.M)
        units = {"MiB": MB, "GiB": GB}
        total = sum(float(number.replace(",", "")) * units[unit] for number, unit in figures)
        whole = 8 * GB if account.startswith("GPU") else 16 * GB
        assert total == pytest.approx(whole, rel=0.02)


def test_a_bar_is_as_wide_as_it_is_and_shows_whatever_there_is():
    assert bar([("W", 50), (".", 50)], 100) == "W" * (BAR_WIDTH // 2) + "." * (BAR_WIDTH // 2)
    assert bar([("W", 1), ("C", 10**6), ("B", 0)], 10**6 + 1).startswith("WC")
    assert len(bar([("W", 1)] * 99, 99)) == BAR_WIDTH
    assert bar([], 0) == " " * BAR_WIDTH


def test_it_is_said_how_much_of_a_text_the_draft_model_reads():
    texts = [
        list(lines(plan(wanted("4b", name), MACHINES["32 GB box"]))) for name in ("0.6b", None)
    ]
    assert ["the draft model reads 2,048 of them at once" in text for text in texts] == [
        True,
        False,
    ]


def test_the_command_plans_for_this_machine_and_for_another(capsys):
    target = str(engines.tiny("llama"))
    assert run(["plan", target, "--context", "1024", "--slots", "2"]) == 0
    out = capsys.readouterr().out
    assert "2 texts of 1,024 tokens" in out
    assert "W weights" in out
    assert run(["plan", target, "--json", "--budget", "much"]) == 2
    assert "is no size" in capsys.readouterr().err
    assert run(["plan", target, "--json", "--budget", "900"]) == 2
    assert "900 bytes? give 900MiB or 900GiB" in capsys.readouterr().err
    assert run(["plan", target, "--json", "--budget", "9000GiB"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["pools"][0]["total"] == 9000 * GB
    assert record["options"]["context"]
    assert record["concessions"] == []


def test_what_does_not_fit_is_an_error_with_a_way_out(capsys):
    assert run(["plan", str(engines.tiny("llama")), "--context", "65536", "--budget", "8M"]) == 1
    assert re.search(
        r"takes \d+ MiB more .* with --context \d+ it would fit", capsys.readouterr().err
    )


def test_concessions_are_told_when_a_model_is_loaded(capsys):
    target, draft = str(engines.tiny("llama")), str(engines.tiny("llama", seed=3))
    arguments = ["generate", target, "the", "--draft", draft, "--context", "512", "--raw"]
    assert run([*arguments, "--max-tokens", "3", "--threads", "1", "--budget", "3M"]) == 0
    assert "no draft model: prompt lookup drafts instead (" in capsys.readouterr().err


def test_a_context_beyond_training_is_told(capsys):
    trained = 4096  # tokens, of the tiny model
    for context, note in ((trained, ""), (2 * trained, "more than the 4,096 that the model was")):
        assert run(["plan", str(engines.tiny("llama")), "--context", str(context)]) == 0
        assert note in capsys.readouterr().out
    assert run(["plan", "smollm2-135m", "--context", "16384"]) == 0
    assert "16,384 tokens is more than the 8,192" in capsys.readouterr().out


def test_slots_that_share_a_cache_may_hold_as_many_texts_as_long_as_was_trained():
    assert not beyond_training(Options(slots=4, context=8192), 2048)
    assert beyond_training(Options(slots=4, context=8192, shared=False), 2048)
    assert not beyond_training(Options(context=8192), 0)
    assert "trained for: a text has 2,048" in beyond_training(
        Options(slots=4, context=2048, shared=False), 2048, requested=8192
    )


def test_agents_are_not_told_to_ask_for_a_context_that_a_model_has_not():
    assert short_for_agents(8192, 32_768).endswith("need 16,384 and more: --context")
    assert "--context" not in short_for_agents(8192, 8192)


def slots_plan(slots, context, cache, *, shared=False):
    items = (Item("host", "weights", GB), Item("host", CONTEXT, cache), Item("host", "buffers", 0))
    options = Options(slots=slots, context=context, shared=shared)
    return Plan(options, None, items, MACHINES["16 GB laptop"])


def test_what_several_slots_take_is_told_with_a_way_to_take_less():
    assert held_for_slots(slots_plan(4, 32_768, 4 * GB)) == (
        "of 5.0 GiB of memory, 4.0 GiB are for 4 requests at once (4 slots of 32,768 tokens); with "
        "--slots 1 --context 8192 it would be about 1.2 GiB"
    )
    assert "with --slots 1 it would be about 1.5 GiB" in held_for_slots(slots_plan(4, 4096, 2 * GB))


def test_slots_that_take_little_or_share_a_cache_are_not_told():
    quiet = [(4, 4096, GB // 4), (1, 32_768, 4 * GB), (2, 4096, GB - 1)]
    assert [held_for_slots(slots_plan(*each)) for each in quiet] == ["", "", ""]
    assert held_for_slots(slots_plan(4, 32_768, 4 * GB, shared=True)) == ""
