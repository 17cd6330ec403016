"""The commands as the group's help shows them, with the module of each.

A line of help has 80 columns, which leaves 60 to the text of a command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListedCommand:
    name: str
    place: str  # MODULE:ATTRIBUTE below `localspec`
    about: str  # the words that the command's own help begins with; empty: it is not shown
    aliases: tuple[str, ...] = ()


SECTIONS: Mapping[str, Sequence[ListedCommand]] = {
    "Every day": (
        ListedCommand(
            "chat",
            "apps.command_line.chat:chat",
            "Talk to a model in the terminal, or ask it one question",
            ("run",),
        ),
        ListedCommand(
            "serve",
            "apps.command_line.serve:serve",
            "Answer over HTTP, in the APIs of OpenAI and others",
        ),
        ListedCommand(
            "generate", "apps.command_line.generate:generate", "Answer one prompt, and exit"
        ),
        ListedCommand("batch", "apps.batch.command:batch", "Answer the requests in a file"),
        ListedCommand("embed", "apps.commands.embed:embed", "Turn the lines of files into vectors"),
        ListedCommand(
            "decide",
            "apps.commands.decide:decide",
            "Answer questions about each line of a file by probabilities",
        ),
        ListedCommand(
            "list",
            "apps.commands.models:list_",
            "List the models that are here, and those to pull",
            ("ls", "models"),
        ),
        ListedCommand(
            "pull", "apps.commands.models:pull", "Download a model and what drafts for it"
        ),
        ListedCommand(
            "ps",
            "apps.clients.loaded_models:ps",
            "List the models that a running server has loaded",
        ),
        ListedCommand(
            "stop", "apps.clients.loaded_models:stop", "Unload a model of a running server"
        ),
        ListedCommand(
            "doctor",
            "apps.commands.doctor:doctor",
            "Check engines, devices, memory and disk, and give advice",
        ),
        ListedCommand(
            "config",
            "apps.commands.config:config",
            "Show the options that a file or the environment sets",
        ),
    ),
    "Models": (
        ListedCommand("show", "apps.commands.models:show", "Describe a model of the catalogue"),
        ListedCommand("info", "apps.commands.info:info", "Describe a model's file or folder"),
        ListedCommand(
            "plan",
            "apps.commands.plan:plan",
            "Report what memory a model would take, and if it fits",
        ),
        ListedCommand("add", "apps.commands.add:add", "Add a model to your own catalogue"),
        ListedCommand("cp", "apps.commands.pulled:cp", "Give a model that was pulled another name"),
        ListedCommand("rm", "apps.commands.pulled:rm", "Remove a model from this machine"),
        ListedCommand(
            "verify-files",
            "apps.commands.pulled:verify_files",
            "Compare a model's files with their checksums",
        ),
    ),
    "Agents": (
        ListedCommand(
            "launch", "apps.clients.command:launch", "Run a coding agent on a model of yours"
        ),
    ),
    "Speculation": (
        ListedCommand(
            "bench", "apps.bench.command:bench", "Measure whether speculation pays on this machine"
        ),
        ListedCommand("prove", "apps.prove.command:prove", "Show that speculation changes nothing"),
        ListedCommand(
            "tune",
            "apps.tuning.command:tune",
            "Find the fastest way to load a model on this machine",
        ),
        ListedCommand(
            "forget",
            "apps.commands.forget:forget",
            "Remove kept replies, indexes, and who drafts for a model",
        ),
        ListedCommand(
            "make-draft",
            "apps.bench.make_draft:make_draft",
            "Train a head that drafts for a model, or use its layers",
        ),
        ListedCommand(
            "convert-adapter",
            "apps.commands.convert:convert_adapter",
            "Convert a LoRA adapter to a file for --adapter",
        ),
        ListedCommand(
            "convert-draft",
            "apps.commands.convert:convert_draft",
            "Convert a published drafting head to a file for --draft",
        ),
    ),
    "Several machines": (
        ListedCommand(
            "worker",
            "apps.commands.worker:worker",
            "Let another machine's models use the devices of this one",
        ),
        ListedCommand(
            "launch-group",
            "apps.commands.group:launch_group",
            "Run a command with its model divided among machines",
        ),
        ListedCommand("join-group", "apps.commands.group:join_group", ""),
        ListedCommand(
            "export",
            "apps.export.command:export",
            "Write the shell script that runs a pair on another engine",
        ),
    ),
}
