"""The commands as the group's help shows them, with the module of each.

A line of help has 80 columns, which leaves 60 to the text of a command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListedCommand:
    name: str
    place: str  # MODULE:ATTRIBUTE
    about: str  # the words that the command's own help begins with; empty: it is not shown
    aliases: tuple[str, ...] = ()


SECTIONS: Mapping[str, Sequence[ListedCommand]] = {
    "Every day": (
        ListedCommand(
            "chat",
            "localspec.cli.chat:chat",
            "Talk to a model in the terminal, or ask it one question",
            ("run",),
        ),
        ListedCommand(
            "serve",
            "localspec.cli.serve:serve",
            "Answer over HTTP, in the APIs of OpenAI and others",
        ),
        ListedCommand("generate", "localspec.cli.generate:generate", "Answer one prompt, and exit"),
        ListedCommand(
            "embed", "localspec.commands.embed:embed", "Turn the lines of files into vectors"
        ),
        ListedCommand(
            "list",
            "localspec.commands.models:list_",
            "List the models that are here, and those to pull",
            ("ls", "models"),
        ),
        ListedCommand(
            "pull", "localspec.commands.models:pull", "Download a model and what drafts for it"
        ),
        ListedCommand(
            "ps",
            "localspec.clients.loaded_models:ps",
            "List the models that a running server has loaded",
        ),
        ListedCommand(
            "stop", "localspec.clients.loaded_models:stop", "Unload a model of a running server"
        ),
        ListedCommand(
            "doctor",
            "localspec.commands.doctor:doctor",
            "Check engines, devices, memory and disk, and give advice",
        ),
        ListedCommand(
            "config",
            "localspec.commands.config:config",
            "Show the options that a file or the environment sets",
        ),
    ),
    "Models": (
        ListedCommand(
            "show", "localspec.commands.models:show", "Describe a model of the catalogue"
        ),
        ListedCommand("info", "localspec.cli.info:info", "Describe a model's file or folder"),
        ListedCommand(
            "plan",
            "localspec.commands.plan:plan",
            "Report what memory a model would take, and if it fits",
        ),
        ListedCommand("add", "localspec.commands.add:add", "Add a model to your own catalogue"),
        ListedCommand(
            "cp", "localspec.commands.pulled:cp", "Give a model that was pulled another name"
        ),
        ListedCommand("rm", "localspec.commands.pulled:rm", "Remove a model from this machine"),
        ListedCommand(
            "verify-files",
            "localspec.commands.pulled:verify_files",
            "Compare a model's files with their checksums",
        ),
    ),
    "Editors and agents": (
        ListedCommand(
            "launch", "localspec.clients.command:launch", "Run a coding agent on a model of yours"
        ),
        ListedCommand(
            "connect",
            "localspec.clients.command:connect",
            "Print the settings by which an editor uses the server",
        ),
    ),
    "Speculation": (
        ListedCommand(
            "bench",
            "localspec.bench.command:bench",
            "Measure whether speculation pays on this machine",
        ),
        ListedCommand(
            "prove", "localspec.prove.command:prove", "Show that speculation changes nothing"
        ),
        ListedCommand(
            "tune",
            "localspec.commands.tune:tune",
            "Measure what forwards and drafts take on this machine",
        ),
        ListedCommand(
            "forget",
            "localspec.commands.forget:forget",
            "Remove the replies that --learn kept, and all indexes",
        ),
        ListedCommand(
            "make-draft",
            "localspec.bench.make_draft:make_draft",
            "Write a draft model of some of a model's own layers",
        ),
        ListedCommand(
            "convert-adapter",
            "localspec.commands.convert_adapter:convert_adapter",
            "Convert a LoRA adapter to a file for --adapter",
        ),
        ListedCommand(
            "convert-draft",
            "localspec.commands.convert_draft:convert_draft",
            "Convert a published drafting head to a file for --draft",
        ),
    ),
    "Several machines": (
        ListedCommand(
            "worker",
            "localspec.commands.worker:worker",
            "Let another machine's models use the devices of this one",
        ),
        ListedCommand(
            "launch-group",
            "localspec.commands.group:launch_group",
            "Run a command with its model divided among machines",
        ),
        ListedCommand("join-group", "localspec.commands.group:join_group", ""),
        ListedCommand(
            "export",
            "localspec.export.command:export",
            "Write the shell script that runs a pair on another engine",
        ),
    ),
}
